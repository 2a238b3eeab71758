import type { Rejections } from '../shared/rejections.ts';

/** The smallest and the largest config that a project can save. For tests. */
export const example = {
  minimal: { host: 'h', port: 25, username: '', password: '', from: { email: 'a@b.de' } },
  full: {
    host: 'smtp.example.com',
    port: 65535,
    username: 'u',
    password: 'hunter22',
    from: { email: 'a@b.de', name: 'A' },
    reply_to: { email: 'c@d.de', name: 'C' },
    security: 'starttls',
    max_per_second: 1,
  },
};

const smtp = (command: 'MAIL FROM' | 'RCPT TO' | 'DATA', response: string) => ({
  error: {
    message: '',
    code: command === 'DATA' ? 'EMESSAGE' : 'EENVELOPE',
    command,
    response,
    responseCode: Number(response.slice(0, 3)),
  },
  written: false,
});
const login = (response: string) => ({
  error: { message: '', code: 'EAUTH', response, responseCode: Number(response.slice(0, 3)) },
  written: false,
});

export const rejections: Rejections = [
  ['535 at login', login('535 5.7.8 wrong'), 'integration'],
  ['530 at MAIL', smtp('MAIL FROM', '530 5.7.0 authentication required'), 'integration'],
  ['550 at MAIL', smtp('MAIL FROM', '550 5.7.1 not your address'), 'integration'],
  ['530 at RCPT', smtp('RCPT TO', '530 5.7.0 authentication required'), 'destination'],
  ['554 at RCPT', smtp('RCPT TO', '554 5.7.1 Relay access denied'), 'destination'],
  ['550 5.7.1 at RCPT', smtp('RCPT TO', '550 5.7.1 policy'), 'destination'],
  ['553 5.1.8 at RCPT', smtp('RCPT TO', '553 5.1.8 bad sender'), 'destination'],
  ['550 relay at the end', smtp('DATA', '550 5.7.1 relay access denied'), 'destination'],
  ['450 at RCPT', smtp('RCPT TO', '450 4.2.0 greylisted'), 'vendor'],
];

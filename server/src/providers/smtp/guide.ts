import type { Guide } from '../shared/guide.ts';
import type { SmtpReply } from './reply.ts';

const rejected = (command: string, response: string, code = 'EENVELOPE') => {
  const responseCode = Number(response.slice(0, 3));
  const error = { code, message: response, command, responseCode, response, rejected: ['ada@example.com'] };
  return [`${command}: \`${response}\``, { error, written: command === 'DATA' }] as const;
};
const broke = (description: string, code: string, written: boolean) =>
  [description, { error: { code, message: description }, written }] as const;

export const guide: Guide<SmtpReply> = {
  limits: [
    ['message', 'the size that the server announces', 'the delivery fails before it is sent'],
    [
      'connections',
      '8, or 3 with the servers of Microsoft 365, of 500 messages each',
      'more e-mails wait; if the server rejects so many, half as many are opened for ten minutes',
    ],
  ],
  otherwise:
    'All other replies: 4xx is temporary, 5xx blames the message, and before MAIL FROM the configuration.',
  responses: [
    ['250', { response: '250 2.0.0 Ok: queued as 4XyZ' }],
    rejected('RCPT TO', '550 5.1.1 no such user'),
    rejected('RCPT TO', '450 4.2.1 greylisted'),
    rejected('RCPT TO', '452 4.2.2 mailbox full'),
    rejected('RCPT TO', '550 5.4.5 daily sending limit exceeded'),
    rejected('RCPT TO', '554 5.7.1 relay access denied'),
    rejected('RCPT TO', '550 5.7.1 looks like spam'),
    rejected('MAIL FROM', '550 5.1.8 bad sender'),
    rejected('MAIL FROM', '552 5.3.4 too big'),
    rejected('AUTH', '535 5.7.8 wrong password', 'EAUTH'),
    rejected('DATA', '451 4.7.1 later', 'EMESSAGE'),
    rejected('DATA', '554 5.7.1 spam', 'EMESSAGE'),
    broke('the connection is refused', 'ECONNREFUSED', false),
    broke('the connection breaks before the whole message was sent', 'ECONNRESET', false),
    broke('the connection breaks after the whole message was sent', 'ECONNRESET', true),
    broke('a certificate that does not prove the host', 'DEPTH_ZERO_SELF_SIGNED_CERT', false),
  ],
};

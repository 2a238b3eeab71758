import type { Guide } from '../shared/guide.ts';
import type { SmtpReply } from './reply.ts';

const refused = (command: string, response: string, code = 'EENVELOPE') => {
  const responseCode = Number(response.slice(0, 3));
  const error = { code, message: response, command, responseCode, response, rejected: ['ada@example.com'] };
  return [`${command}: \`${response}\``, { error, written: command === 'DATA' }] as const;
};
const broke = (said: string, code: string, written: boolean) =>
  [said, { error: { code, message: said }, written }] as const;

export const guide: Guide<SmtpReply> = {
  limits: [
    ['message', 'what the server says in its greeting', 'the delivery fails before it is sent'],
    ['connections', '8, of 500 messages each', 'more e-mails wait'],
  ],
  otherwise:
    'All other replies: 4xx is temporary, 5xx blames the message, and before MAIL FROM the configuration.',
  responses: [
    ['250', { response: '250 2.0.0 Ok: queued as 4XyZ' }],
    refused('RCPT TO', '550 5.1.1 no such user'),
    refused('RCPT TO', '450 4.2.1 greylisted'),
    refused('RCPT TO', '452 4.2.2 mailbox full'),
    refused('RCPT TO', '554 5.7.1 relay access denied'),
    refused('RCPT TO', '550 5.7.1 looks like spam'),
    refused('MAIL FROM', '550 5.1.8 bad sender'),
    refused('MAIL FROM', '552 5.3.4 too big'),
    refused('AUTH', '535 5.7.8 wrong password', 'EAUTH'),
    refused('DATA', '451 4.7.1 later', 'EMESSAGE'),
    refused('DATA', '554 5.7.1 spam', 'EMESSAGE'),
    broke('the connection is refused', 'ECONNREFUSED', false),
    broke('the connection breaks before the message is out', 'ECONNRESET', false),
    broke('the connection breaks after the message is out', 'ECONNRESET', true),
    broke('a certificate that does not prove the host', 'DEPTH_ZERO_SELF_SIGNED_CERT', false),
  ],
};

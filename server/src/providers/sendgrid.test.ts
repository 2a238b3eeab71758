import { emailMessage } from '../../test/support/email-message.ts';
import { conforms } from '../../test/support/provider-conformance.ts';
import { sendgrid } from './sendgrid.ts';

conforms('SendGrid', {
  open: (_address, deps) =>
    sendgrid.connect({ api_key: 'canary-sendgrid', from: { email: 'news@example.com' } }, deps(['sendgrid'])),
  message: () => emailMessage(),
  accepts: { status: 202, headers: { 'x-message-id': 'sg-1' } },
  sent: { kind: 'sent', providerId: 'sg-1' },
  secrets: ['canary-sendgrid'],
  except: { 'a success of garbage': { kind: 'sent' }, 'a success as a page': { kind: 'sent' } },
});

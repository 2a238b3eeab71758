/** E-mail by Twilio SendGrid. https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send */
import { type Static, Type } from 'typebox';
import { ask, isRefusal, notChecked } from './ask.ts';
import { mailbox } from './mailbox.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';
import type { Endpoint, Transport } from './transport.ts';

const config = Type.Object(
  {
    api_key: secret({ description: 'An API key with the permission Mail Send' }),
    from: Type.Optional(mailbox('Sender of every e-mail, one that SendGrid has verified')),
    reply_to: Type.Optional(mailbox('Where answers go, if not to the sender')),
    region: Type.Optional(
      Type.Enum(['global', 'eu'], {
        description: 'Where the account is: eu for EU subusers. Left out: global',
      }),
    ),
    webhook_public_key: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'The verification key of the signed event webhook, in base64: bounces and complaints are taken by it',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ api_key: 'SG.xxxxxxxx.yyyyyyyy', from: { email: 'hello@example.com', name: 'Example' } }],
  },
);
type Config = Static<typeof config>;

export const sendgrid: Integration<typeof config> & { channel: 'email' } = {
  name: 'sendgrid',
  channel: 'email',
  docs: 'https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send',
  config,
  verify,
};

function api(transport: Transport, region: Config['region']): Endpoint {
  return transport.vendor('sendgrid', `https://api.${region === 'eu' ? 'eu.' : ''}sendgrid.com`);
}

/** Asks what the key may do, which every key may. */
async function verify({ api_key, region }: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const answer = await ask(api(transport, region), {
    method: 'GET',
    path: '/v3/scopes',
    headers: { authorization: `Bearer ${api_key}` },
  });
  if (isRefusal(answer)) return [{ field: 'api_key', problem: `was refused by SendGrid: ${answer.said}` }];
  if (answer.status !== 200) return [notChecked('SendGrid', answer)];
  const { scopes } = answer.json as { scopes?: unknown };
  if (Array.isArray(scopes) && scopes.includes('mail.send')) return [];
  return [{ field: 'api_key', problem: 'lacks the permission mail.send of SendGrid' }];
}

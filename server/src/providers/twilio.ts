/** SMS by Twilio. https://www.twilio.com/docs/messaging/api/message-resource */
import { type Static, Type } from 'typebox';
import { ask, notChecked, segment } from './ask.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';

const config = Type.Object(
  {
    account_sid: Type.String({ minLength: 1, maxLength: 100, description: 'The account: AC and 32 digits' }),
    api_key: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'The SID of an API key of the account: SK and 32 digits',
    }),
    api_secret: secret({ minLength: 1, maxLength: 100, description: 'The secret of the API key' }),
    from: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^\\+[0-9]{1,14}$',
      description: 'The number to send from, as +14155550100',
    }),
    auth_token: Type.Optional(
      secret({
        minLength: 1,
        maxLength: 100,
        description: "The account's auth token. Only reports on what became of messages are verified with it",
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        account_sid: 'ACxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',
        api_key: 'SKxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',
        api_secret: 'secret',
        from: '+14155550100',
      },
    ],
  },
);
type Config = Static<typeof config>;

export const twilio: Integration<typeof config> & { channel: 'sms' } = {
  name: 'twilio',
  channel: 'sms',
  docs: 'https://www.twilio.com/docs/messaging/api/message-resource',
  config,
  verify,
};

/**
 * Asks for one message. Not for the account itself, which only keys of the kind Main may read. A restricted key that may send but
 * not read is answered 403: Twilio knows it then.
 */
async function verify(config: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const { account_sid, api_key, api_secret } = config;
  const answer = await ask(transport.vendor('twilio', 'https://api.twilio.com'), {
    method: 'GET',
    path: `/2010-04-01/Accounts/${segment(account_sid)}/Messages.json?PageSize=1`,
    headers: { authorization: `Basic ${Buffer.from(`${api_key}:${api_secret}`).toString('base64')}` },
  });
  if (answer.status === 200 || answer.status === 403) return [];
  if (answer.status === 401) return [{ field: 'api_key', problem: `was refused by Twilio: ${answer.said}` }];
  if (answer.status === 404)
    return [{ field: 'account_sid', problem: `is not known to Twilio: ${answer.said}` }];
  return [notChecked('Twilio', answer)];
}

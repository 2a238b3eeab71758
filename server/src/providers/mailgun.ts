/** E-mail by Mailgun. https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages */
import { type Static, Type } from 'typebox';
import { oneOf } from '../contract/common.ts';
import { type Asked, ask, isRefusal, notChecked, segment } from './ask.ts';
import { mailbox } from './mailbox.ts';
import { type Finding, type Integration, secret, type VerifyDeps } from './provider.ts';
import type { Endpoint, Transport } from './transport.ts';

const config = Type.Object(
  {
    api_key: secret({
      minLength: 1,
      description: "An API key of the account, or the domain's own sending key",
    }),
    domain: Type.String({ minLength: 1, description: 'The domain to send from, as Mailgun lists it' }),
    region: oneOf(['us', 'eu'], { description: 'Where the domain is hosted' }),
    from: Type.Optional(mailbox('Sender of every e-mail, at the domain')),
    webhook_signing_key: Type.Optional(
      secret({
        minLength: 1,
        description: 'The HTTP webhook signing key, not the API key: bounces and complaints are taken by it',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        api_key: 'key-xxxxxxxx',
        domain: 'mg.example.com',
        region: 'eu',
        from: { email: 'hello@mg.example.com', name: 'Example' },
      },
    ],
  },
);
type Config = Static<typeof config>;

export const mailgun: Integration<typeof config> & { channel: 'email' } = {
  name: 'mailgun',
  channel: 'email',
  docs: 'https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages',
  config,
  verify,
};

function api(transport: Transport, region: Config['region']): Endpoint {
  return transport.vendor('mailgun', `https://api.${region === 'eu' ? 'eu.' : ''}mailgun.net`);
}

/**
 * Asks for the domain. A domain's own sending key may not: it may only send, and shows that it may by being told what the message
 * lacks, here everything, instead of being refused.
 */
async function verify(config: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const { api_key, domain, region } = config;
  const endpoint = api(transport, region);
  const authorization = `Basic ${Buffer.from(`api:${api_key}`).toString('base64')}`;
  const name = segment(domain);
  const asked = await ask(endpoint, {
    method: 'GET',
    path: `/v3/domains/${name}`,
    headers: { authorization },
  });
  if (!isRefusal(asked)) return asked.status === 200 ? stateOf(asked) : findings(asked);
  const tried = await ask(endpoint, {
    method: 'POST',
    path: `/v3/${name}/messages`,
    headers: { authorization, 'content-type': 'application/x-www-form-urlencoded' },
    body: '',
  });
  return tried.status === 400 ? [] : findings(tried);
}

function stateOf({ json }: Asked): Finding[] {
  const { state } = (json as { domain?: { state?: unknown } }).domain ?? {};
  if (state !== 'unverified' && state !== 'disabled') return [];
  return [{ field: 'domain', problem: `cannot send: at Mailgun it is ${state}` }];
}

function findings(answer: Asked): Finding[] {
  if (isRefusal(answer)) return [{ field: 'api_key', problem: `was refused by Mailgun: ${answer.said}` }];
  if (answer.status === 404)
    return [{ field: 'domain', problem: `is not known to Mailgun in this region: ${answer.said}` }];
  return [notChecked('Mailgun', answer)];
}

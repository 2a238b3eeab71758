/**
 * E-mail through Mailgun.
 * https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages
 */
import { type Static, Type } from 'typebox';
import { oneOf } from '../../contract/common.ts';
import { isRecord } from '../../lib/members.ts';
import {
  type EmailMessage,
  type Finding,
  isRejection,
  type Provider,
  type Rejection,
  type Sender,
  type SenderDeps,
  type SendOutcome,
  secret,
  secretsOf,
  type VerifyDeps,
} from '../provider.ts';
import { neverEncoded } from '../shared/encoded-words.ts';
import {
  httpDate,
  httpOutcome,
  rejected,
  rejectedForEither,
  retry,
  untilDate,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { formatMailbox, mailbox, messageId, NO_ADDRESS, noSender } from '../shared/mailbox.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { isMailbox } from '../shared/mime.ts';
import { multipart } from '../shared/multipart.ts';
import { mergeOverride } from '../shared/override.ts';
import {
  type JsonResponse,
  notVerified,
  rejectsCredentials,
  requestJson,
  segment,
} from '../shared/request-json.ts';
import { tooBig } from '../shared/shrink.ts';
import type { Endpoint, HttpRequest, HttpResult, Transport } from '../shared/transport.ts';
import { mailgunReceipts } from './receipts.ts';

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
        description: 'The HTTP webhook signing key, not the API key. It verifies bounces and complaints',
      }),
    ),
    max_per_second: maxPerSecond,
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

export const mailgun: Provider<'email', typeof config, HttpRequest | Rejection, HttpResult> = {
  name: 'mailgun',
  title: 'Mailgun',
  channel: 'email',
  docs: 'https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages',
  origins: { PROVIDER_MAILGUN_BASE_URL: 'https://api.mailgun.net, https://api.eu.mailgun.net' },
  overrideKey: 'mailgun',
  guide: () => import('./guide.ts'),
  config,
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  verify,
  receipts: mailgunReceipts,
};

const MAX_BYTES = 25_000_000;

function connect(config: Config, { transport }: SenderDeps): Sender<EmailMessage> {
  const endpoint = api(transport, config.region);
  return createHttpSender({
    concurrency: 32,
    secrets: [...secretsOf(mailgun.config, config), `api:${config.api_key}`],
    build: (message) => build(message, config),
    exchange: endpoint.request,
    classify,
  });
}

function build(message: EmailMessage, { api_key, domain, from }: Config): HttpRequest | Rejection {
  const { deliveryId, reference, to, subject, text, html, headers } = message;
  if (!isMailbox(to.email)) return NO_ADDRESS;
  const all = {
    ...headers,
    ...(from === undefined ? {} : { 'Message-Id': messageId(deliveryId, from) }),
  };
  const merged = mergeOverride(
    {
      ...(from === undefined ? {} : { from: formatMailbox(from) }),
      to: formatMailbox(to),
      subject: neverEncoded(subject),
      ...(text === '' ? {} : { text }),
      html,
      ...Object.fromEntries(Object.entries(all).map(([name, value]) => [`h:${name}`, value])),
      'v:reference': reference, // returned in webhook events
    },
    message.override,
    { locked: ['to', 'v:reference'] },
  );
  if (isRejection(merged)) return merged;
  if (merged.payload.from === undefined) return noSender(from);
  const { contentType, body } = multipart(fields(merged.payload), deliveryId);
  if (Buffer.byteLength(body) > MAX_BYTES) return tooBig(MAX_BYTES);
  return {
    method: 'POST',
    path: `/v3/${segment(domain)}/messages`,
    headers: {
      authorization: `Basic ${Buffer.from(`api:${api_key}`).toString('base64')}`,
      'content-type': contentType,
    },
    body,
  };
}

/** Returns the form fields as text: a list repeats its field, an object becomes JSON. */
function fields(payload: object): [name: string, value: string][] {
  return Object.entries(payload).flatMap(([name, given]: [string, unknown]) =>
    (Array.isArray(given) ? given : [given]).map((value: unknown): [string, string] => [
      name,
      textOf(name, value),
    ]),
  );
}

function textOf(name: string, value: unknown): string {
  // Not every option accepts `true`, but every boolean option accepts `yes`.
  if (typeof value === 'boolean' && /^(?:o:|t:text$)/.test(name)) return value ? 'yes' : 'no';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'Mailgun', (parsed) => {
    const { status, headers } = parsed;
    if (status === 200) {
      const { id } = parsed.json as { id?: unknown };
      return typeof id === 'string' ? { kind: 'sent', providerId: id.replace(/^<|>$/g, '') } : undefined;
    }
    const { reason } = parsed;
    if (status === 402 || status === 404) return rejected('config', parsed);
    if (status === 400 && /\bto\b'? parameter is not a valid/i.test(reason))
      return rejected('address', parsed);
    if (status === 400 && /\bfrom\b'? parameter/i.test(reason)) return rejected('config', parsed);
    // Mailgun responds so for a disabled domain, and with the same words for a sandbox domain, which accepts
    // authorized recipients only.
    if (status === 403 || (status === 400 && /not allowed to send/i.test(reason)))
      return rejectedForEither(parsed);
    const after = /try again after (.{10,40})$/i.exec(reason)?.[1];
    if (status === 429 && after !== undefined)
      return retry(parsed, { retryAfterMs: untilDate(httpDate(after), headers) });
    return undefined;
  });
}

function api(transport: Transport, region: Config['region']): Endpoint {
  return transport.vendor(
    'PROVIDER_MAILGUN_BASE_URL',
    `https://api.${region === 'eu' ? 'eu.' : ''}mailgun.net`,
  );
}

/**
 * Verifies the config by a request for the domain. A domain sending key may only send, so it is rejected
 * here; it is valid if an empty message is rejected with 400 for its missing fields, not with 401.
 */
async function verify(config: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const { api_key, domain, region } = config;
  const endpoint = api(transport, region);
  const authorization = `Basic ${Buffer.from(`api:${api_key}`).toString('base64')}`;
  const name = segment(domain);
  const domainResponse = await requestJson(endpoint, {
    method: 'GET',
    path: `/v3/domains/${name}`,
    headers: { authorization },
  });
  if (domainResponse.status === 200) return stateOf(domainResponse);
  if (!rejectsCredentials(domainResponse)) return findings(domainResponse);
  const sendResponse = await requestJson(endpoint, {
    method: 'POST',
    path: `/v3/${name}/messages`,
    headers: { authorization, 'content-type': 'application/x-www-form-urlencoded' },
    body: '',
  });
  return sendResponse.status === 400 ? [] : findings(sendResponse);
}

function stateOf(response: JsonResponse): Finding[] {
  const { domain } = response.json as { domain?: { state?: unknown } };
  if (!isRecord(domain)) return [notVerified('Mailgun', response)];
  const { state } = domain;
  if (state !== 'unverified' && state !== 'disabled') return [];
  return [{ field: 'domain', problem: `cannot send: at Mailgun it is ${state}` }];
}

function findings(response: JsonResponse): Finding[] {
  if (rejectsCredentials(response))
    return [{ field: 'api_key', problem: `was rejected by Mailgun: ${response.summary}` }];
  if (response.status === 404)
    return [{ field: 'domain', problem: `is not known to Mailgun in this region: ${response.summary}` }];
  return [notVerified('Mailgun', response)];
}

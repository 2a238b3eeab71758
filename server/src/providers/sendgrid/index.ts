/** E-mail through Twilio SendGrid. https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send */
import { type Static, Type } from 'typebox';
import { oneOf } from '../../contract/common.ts';
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
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
  untilDate,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { mailbox, messageId, NO_ADDRESS, normalizeMailbox, noSender } from '../shared/mailbox.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { isMailbox, withAsciiDomain } from '../shared/mime.ts';
import { mergeOverride } from '../shared/override.ts';
import { notVerified, rejectsCredentials, requestJson } from '../shared/request-json.ts';
import { tooBig } from '../shared/shrink.ts';
import type { Endpoint, HttpRequest, HttpResult, Transport } from '../shared/transport.ts';
import { publicKey, sendgridReceipts } from './receipts.ts';

const config = Type.Object(
  {
    api_key: secret({ description: 'An API key with the permission Mail Send' }),
    from: Type.Optional(mailbox('Sender of every e-mail, one that SendGrid has verified')),
    reply_to: Type.Optional(mailbox('Reply-To mailbox, if replies do not go to the sender')),
    region: Type.Optional(
      oneOf(['global', 'eu'], {
        description: 'Region of the account: eu for EU subusers. Default: global',
      }),
    ),
    webhook_public_key: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'The verification key of the signed event webhook, in base64. It verifies bounces and complaints',
      }),
    ),
    max_per_second: maxPerSecond,
  },
  {
    additionalProperties: false,
    examples: [{ api_key: 'SG.xxxxxxxx.yyyyyyyy', from: { email: 'hello@example.com', name: 'Example' } }],
  },
);
type Config = Static<typeof config>;

export const sendgrid: Provider<'email', typeof config, HttpRequest | Rejection, HttpResult> = {
  name: 'sendgrid',
  title: 'Twilio SendGrid',
  channel: 'email',
  docs: 'https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send',
  origins: { PROVIDER_SENDGRID_BASE_URL: 'https://api.sendgrid.com, https://api.eu.sendgrid.com' },
  overrideKey: 'sendgrid',
  guide: () => import('./guide.ts'),
  config,
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  verify,
  receipts: sendgridReceipts,
};

const MAX_BYTES = 30_000_000;

function connect(config: Config, { transport }: SenderDeps): Sender<EmailMessage> {
  const endpoint = api(transport, config.region);
  return createHttpSender({
    concurrency: 32,
    secrets: secretsOf(sendgrid.config, config),
    build: (message) => build(message, config),
    exchange: endpoint.request,
    classify,
  });
}

function build(message: EmailMessage, { api_key, from, reply_to }: Config): HttpRequest | Rejection {
  const { deliveryId, reference, to, subject, text, html, headers, critical } = message;
  if (!isMailbox(to.email)) return NO_ADDRESS;
  const content = [
    { type: 'text/plain', value: text },
    { type: 'text/html', value: html },
  ];
  const merged = mergeOverride(
    {
      personalizations: [
        {
          to: [{ ...normalizeMailbox(to), email: withAsciiDomain(to.email) }],
          custom_args: { reference }, // returned in webhook events
        },
      ],
      ...(from === undefined ? {} : { from: normalizeMailbox(from) }),
      ...(reply_to === undefined ? {} : { reply_to: normalizeMailbox(reply_to) }),
      subject: neverEncoded(subject),
      content: content.filter(({ value }) => value !== ''), // SendGrid rejects empty parts
      headers: { ...headers, ...(from === undefined ? {} : { 'Message-ID': messageId(deliveryId, from) }) },
      ...(critical ? CRITICAL : {}),
    },
    message.override,
    { locked: ['personalizations/0/to', 'personalizations/0/custom_args/reference'] },
  );
  if (isRejection(merged)) return merged;
  if (merged.payload.from === undefined) return noSender(from);
  const body = JSON.stringify(merged.payload);
  if (Buffer.byteLength(body) > MAX_BYTES) return tooBig(MAX_BYTES);
  return {
    method: 'POST',
    path: '/v3/mail/send',
    headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
    body,
  };
}

/**
 * Disables SendGrid's own unsubscribe link and its global unsubscribe list. Bounces and spam reports still
 * apply.
 */
const CRITICAL = {
  tracking_settings: { subscription_tracking: { enable: false } },
  mail_settings: { bypass_unsubscribe_management: { enable: true } },
};

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'SendGrid', (parsed) => {
    const { status, headers } = parsed;
    if (status === 202) {
      const id = headers['x-message-id'];
      return { kind: 'sent', providerId: id };
    }
    if (status === 402 || /maximum credits exceeded/i.test(parsed.reason)) return rejected('config', parsed);
    if (status === 400 && isAboutRecipient(parsed)) return rejected('address', parsed);
    if (status === 403 && isAboutRecipient(parsed)) return rejectedForEither(parsed);
    // The end of the minute, in unix seconds.
    const reset = Number(headers['x-ratelimit-reset'] ?? Number.NaN) * 1000;
    if (status === 429 && headers['retry-after'] === undefined)
      return retry(parsed, { retryAfterMs: untilDate(reset, headers) });
    return undefined;
  });
}

function isAboutRecipient({ json }: ParsedResponse): boolean {
  const { errors } = json as { errors?: unknown };
  if (!Array.isArray(errors)) return false;
  return errors.some(
    (error: { field?: unknown } | null) =>
      typeof error?.field === 'string' && /^personalizations\.\d+\.to\b/.test(error.field),
  );
}

function api(transport: Transport, region: Config['region']): Endpoint {
  return transport.vendor(
    'PROVIDER_SENDGRID_BASE_URL',
    `https://api.${region === 'eu' ? 'eu.' : ''}sendgrid.com`,
  );
}

/** Verifies the API key by a request for its scopes, which every key may read. */
async function verify(config: Config, deps: VerifyDeps): Promise<Finding[]> {
  const { webhook_public_key: key } = config;
  const findings = await verifyApiKey(config, deps);
  if (key !== undefined && publicKey(key) === undefined)
    findings.push({
      field: 'webhook_public_key',
      problem: 'is not a verification key of the signed event webhook',
    });
  return findings;
}

async function verifyApiKey({ api_key, region }: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const response = await requestJson(api(transport, region), {
    method: 'GET',
    path: '/v3/scopes',
    headers: { authorization: `Bearer ${api_key}` },
  });
  if (rejectsCredentials(response))
    return [{ field: 'api_key', problem: `was rejected by SendGrid: ${response.summary}` }];
  if (response.status !== 200) return [notVerified('SendGrid', response)];
  const { scopes } = response.json as { scopes?: unknown };
  if (!Array.isArray(scopes)) return [notVerified('SendGrid', response)];
  if (scopes.includes('mail.send')) return [];
  return [{ field: 'api_key', problem: 'lacks the permission mail.send of SendGrid' }];
}

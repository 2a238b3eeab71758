/** SMS through Twilio. https://www.twilio.com/docs/messaging/api/message-resource */
import { type Static, Type } from 'typebox';
import {
  type Finding,
  isRejection,
  type Provider,
  type Rejection,
  type Sender,
  type SenderDeps,
  type SendOutcome,
  type SmsMessage,
  secret,
  type VerifyDeps,
} from '../provider.ts';
import {
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { maxPerSecond, rateOf } from '../shared/max-per-second.ts';
import { mergeOverride } from '../shared/override.ts';
import { notVerified, requestJson, segment } from '../shared/request-json.ts';
import { cut } from '../shared/shrink.ts';
import type { HttpRequest, HttpResult } from '../shared/transport.ts';
import { parseObject } from '../shared/vendor-text.ts';
import { twilioReceipts } from './receipts.ts';

const config = Type.Object(
  {
    account_sid: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'The account SID: AC and 32 digits',
    }),
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
      description: 'The number to send from, such as +14155550100',
    }),
    auth_token: Type.Optional(
      secret({
        minLength: 1,
        maxLength: 100,
        description: 'The auth token of the account. Used only to verify delivery-status callbacks',
      }),
    ),
    max_per_second: maxPerSecond,
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

const ORIGIN = 'https://api.twilio.com';

export const twilio: Provider<'sms', typeof config, HttpRequest | Rejection, HttpResult> = {
  name: 'twilio',
  title: 'Twilio',
  channel: 'sms',
  docs: 'https://www.twilio.com/docs/messaging/api/message-resource',
  origins: { PROVIDER_TWILIO_BASE_URL: ORIGIN },
  overrideKey: 'twilio',
  guide: () => import('./guide.ts'),
  config,
  verify,
  build,
  classify,
  rates: { integration: rateOf },
  connect,
  receipts: twilioReceipts,
};

/**
 * Verifies the config by a request for one message. Reading the account itself requires a key of type Main. A
 * restricted key that may send but not read gets 403, so Twilio knows it.
 */
async function verify(config: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const { account_sid } = config;
  const response = await requestJson(transport.vendor('PROVIDER_TWILIO_BASE_URL', ORIGIN), {
    method: 'GET',
    path: `${messagesPath(account_sid)}?PageSize=1`,
    headers: { authorization: basicAuth(config) },
  });
  const { messages } = response.json as { messages?: unknown };
  if (response.status === 403 || (response.status === 200 && Array.isArray(messages))) return [];
  if (response.status === 401)
    return [{ field: 'api_key', problem: `was rejected by Twilio: ${response.summary}` }];
  if (response.status === 404)
    return [{ field: 'account_sid', problem: `is not known to Twilio: ${response.summary}` }];
  return [notVerified('Twilio', response)];
}

function messagesPath(accountSid: string): string {
  return `/2010-04-01/Accounts/${segment(accountSid)}/Messages.json`;
}

function basicAuth({ api_key, api_secret }: Config): string {
  return `Basic ${Buffer.from(`${api_key}:${api_secret}`).toString('base64')}`;
}

const MAX_BODY = 1600; // characters: ten segments

function build(message: SmsMessage, config: Config): HttpRequest | Rejection {
  const payload = {
    To: message.to.replace(/[\s().-]/g, ''),
    From: config.from,
    Body: smsText(message),
    ...(message.receiptUrl === undefined ? {} : { StatusCallback: message.receiptUrl }),
  };
  const merged = mergeOverride<Record<string, unknown>>(payload, message.override, { locked: ['To'] });
  if ('kind' in merged) return merged;
  const { Body: body } = merged.payload;
  if (typeof body === 'string' && body.length > MAX_BODY) return TOO_LONG;
  // The override may name another sender of the account. A messaging service replaces the number.
  if (merged.payload.MessagingServiceSid !== undefined && merged.payload.From === config.from)
    delete merged.payload.From;
  return {
    method: 'POST',
    path: messagesPath(config.account_sid),
    headers: {
      authorization: basicAuth(config),
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    },
    body: formOf(merged.payload).toString(),
  };
}

/**
 * Returns title, text and link on separate lines. Cuts title and text only: a cut link is useless. A link
 * that is too long by itself is returned whole.
 */
function smsText({ title, text, actionUrl }: SmsMessage): string {
  const words = [title, text].map((part) => part.trim()).filter((part) => part !== '');
  if (actionUrl === null) return cut(words.join('\n'), MAX_BODY);
  const shown = cut(words.join('\n'), MAX_BODY - actionUrl.length - 1);
  return shown === '' ? actionUrl : `${shown}\n${actionUrl}`;
}

const TOO_LONG: Rejection = {
  kind: 'rejected',
  scope: 'message',
  code: 'too_big',
  reason: `the text is longer than the ${MAX_BODY} characters that the provider accepts`,
};

/** Encodes the form as Twilio's own libraries do: a list repeats its field, an object becomes JSON. */
function formOf(payload: Readonly<Record<string, unknown>>): URLSearchParams {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(payload))
    for (const one of Array.isArray(value) ? value : [value])
      form.append(name, typeof one === 'object' && one !== null ? JSON.stringify(one) : String(one));
  return form;
}

/**
 * https://www.twilio.com/docs/api/errors: not a phone number, unreachable, not a mobile phone, a landline, a
 * short code, replied STOP.
 */
const ADDRESS = new Set([21211, 21217, 21614, 21635, 21265, 21610]);
/** Errors of the account, its key or the sender. */
const CONFIG = new Set([20003, 20008, 20404, 21603, 21212, 21660]);
/**
 * The region is not enabled, the sender cannot reach this number or country, or a trial account may send to
 * verified numbers only.
 */
const EITHER = new Set([21408, 21606, 21608, 21612, 21659]);
const QUEUE_FULL = 21611; // a number sends one message per second and queues up to four hours
const QUEUE_FULL_RETRY_MS = 60_000;

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'Twilio', meaning);
}

function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { status, json } = response;
  const { sid, code: number } = json as { sid?: unknown; code?: unknown };
  if (status === 201 || status === 200)
    return typeof sid === 'string' ? { kind: 'sent', providerId: sid } : undefined;
  if (typeof number !== 'number') return status === 404 ? rejected('config', response) : undefined;
  const code = String(number);
  if (ADDRESS.has(number)) return rejected('address', response, code);
  if (CONFIG.has(number)) return rejected('config', response, code);
  if (EITHER.has(number)) return rejectedForEither(response, code);
  if (number === QUEUE_FULL) return retry(response, { code, retryAfterMs: QUEUE_FULL_RETRY_MS });
  if (status === 401) return rejected('config', response, code);
  if (status === 403) return rejectedForEither(response, code); // maybe for this number only
  if (status === 429) return retry(response, { code });
  return status >= 400 && status < 500 && status !== 408 && status !== 425
    ? rejected('message', response, code)
    : undefined;
}

const CONCURRENCY = 64; // an account has 100 concurrent requests, shared with other programs

function connect(config: Config, { transport }: SenderDeps): Sender<SmsMessage> {
  const api = transport.vendor('PROVIDER_TWILIO_BASE_URL', ORIGIN);
  return createHttpSender({
    concurrency: CONCURRENCY,
    secrets: [config.api_secret, basicAuth(config).slice('Basic '.length)],
    build: (message: SmsMessage) => build(message, config),
    async exchange(request, message) {
      const response = await api.request(request);
      if (!rejectsCallback(response, message)) return response;
      // Sent without the address: a message is worth more than the report on it.
      const { receiptUrl: _unreachable, ...plain } = message;
      const without = build(plain, config);
      return isRejection(without) ? response : api.request(without);
    },
    classify,
  });
}

/**
 * Whether Twilio rejects the message for our callback address: it accepts none that it cannot reach, such as
 * that of a server in a private network.
 */
function rejectsCallback(response: HttpResult, { receiptUrl, override }: SmsMessage): boolean {
  if (receiptUrl === undefined || override?.StatusCallback !== undefined) return false;
  if ('error' in response || response.status !== 400) return false;
  return (parseObject(response.text) as { code?: unknown }).code === INVALID_CALLBACK;
}

const INVALID_CALLBACK = 21609;

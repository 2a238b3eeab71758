/** Push to browsers. https://www.rfc-editor.org/rfc/rfc8030 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Static, Type } from 'typebox';
import { nullable, storedString } from '../../contract/common.ts';
import { writeJson } from '../../lib/exact-numbers.ts';
import { urlMember } from '../../lib/named-host.ts';
import {
  type Finding,
  type Provider,
  type Rejection,
  type Sender,
  type SenderDeps,
  type SendOutcome,
  secret,
  type TargetedTokens,
  type WebPushMessage,
} from '../provider.ts';
import { destinationOutcome } from '../shared/destination.ts';
import {
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { mergeOverride } from '../shared/override.ts';
import { buildToFit, cut } from '../shared/shrink.ts';
import { part, serverAddress, tokenSchemas } from '../shared/tokens.ts';
import type { HttpResult } from '../shared/transport.ts';
import { encrypt, OVERHEAD_BYTES, type Recipient, readRecipient } from './encryption.ts';
import { createVapid, readVapidKeys } from './vapid.ts';

const config = Type.Object(
  {
    public_key: Type.String({
      minLength: 8,
      maxLength: 128,
      description: 'The public VAPID key in base64url, which browsers subscribe with',
    }),
    private_key: secret({ minLength: 8, maxLength: 128, description: 'The private VAPID key in base64url' }),
  },
  {
    additionalProperties: false,
    examples: [
      {
        public_key: 'BDd3_hVL9fZi9Ybo2UUzA284WG5FZR30_95YeZJsiApwXKpNcF1rRPF3foIiBHXRdJI2Qhumhf6_LFTeZaNndIo',
        private_key: 'xKZKYRNdFFn8iQIF2MH54KTfUHwH105zBdzMR7SI3xI',
      },
    ],
  },
);
type Config = Static<typeof config>;

/** A push before encryption, without everything random or dependent on the time of sending. */
export type PushRequest = {
  endpoint: string;
  keys: WebPushMessage['keys'];
  headers: Readonly<Record<string, string>>;
  /** The time to live from the override; if not set, the time until the message expires. */
  ttlSeconds?: number;
  /** The JSON for the service worker. */
  payload: string;
};

const key = (description: string, example: string) =>
  storedString({ minLength: 1, maxLength: 255, description, examples: [example] });

const tokenMembers = {
  endpoint: serverAddress(
    'The endpoint URL of the subscription, as the browser returns it.',
    'https://updates.push.services.mozilla.com/wpush/v2/gAAAAABn',
  ),
  keys: part('WebPushKeys', {
    auth: key("The subscription's secret, in base64url.", 'tBHItJI5svbpez7KI4CCXg'),
    p256dh: key(
      "The subscription's public key, in base64url.",
      'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM',
    ),
  }),
};
const tokenSchema = tokenSchemas('WebPushToken', {
  save: {
    ...tokenMembers,
    // Part of every PushSubscription.toJSON().
    expirationTime: Type.Optional(
      nullable(Type.Number({ description: "The member of the browser's subscription; ignored." })),
    ),
  },
  saved: tokenMembers,
});
type WebPushToken = Static<typeof tokenSchema.save>;

const tokens: TargetedTokens<WebPushToken> = {
  collection: 'web_push',
  kind: 'device',
  ...tokenSchema,
  hosts: [urlMember('endpoint')],
  identity: ({ endpoint }) => ({ text: endpoint }),
  stored: ({ endpoint, keys }) => ({ endpoint, keys }),
  target: ({ endpoint, keys }) => ({ address: { endpoint, keys }, secrets: [endpoint] }),
};

export const webPush: Provider<'web_push', typeof config, PushRequest | Rejection, HttpResult> = {
  name: 'web_push',
  title: 'Web push',
  channel: 'web_push',
  docs: 'https://www.rfc-editor.org/rfc/rfc8292',
  overrideKey: 'web_push',
  guide: () => import('./guide.ts'),
  config,
  tokens,
  verify,
  build,
  classify,
  downstreamHost: ({ endpoint }) => URL.parse(endpoint)?.host ?? '',
  connect,
};

/** Verifies the config offline: the two keys must be a pair. */
async function verify(config: Config): Promise<Finding[]> {
  const keys = readVapidKeys(config);
  return 'problem' in keys ? [keys] : [];
}

// Every push service accepts a body of 4096 bytes (RFC 8030, 7.2), except Mozilla's for browsers that it
// reaches through Google: 2744.
const MAX_BYTES = 4096 - OVERHEAD_BYTES;
const SAFE_BYTES = 2744 - OVERHEAD_BYTES;
const LAST_RESORT_BYTES = 1024;
const SHOWN_CHARACTERS = 1000; // no system shows more
const LONGEST_TTL_SECONDS = 28 * 86_400;
const URGENCIES: readonly unknown[] = ['very-low', 'low', 'normal', 'high'];

/**
 * Fits the message into what every push service accepts. With custom attributes, which a service worker may
 * depend on, fits it into what nearly all accept; the others respond with 413, and the send is retried
 * smaller.
 */
function build(message: WebPushMessage): PushRequest | Rejection {
  const whole = assemble(message);
  if ('kind' in whole || bytesOf(whole) <= SAFE_BYTES) return whole;
  if (message.trackingUrl !== undefined) return build(withoutTracking(message));
  if (message.customAttributes !== null) {
    const shown = assemble({ ...message, text: cut(message.text, SHOWN_CHARACTERS) });
    if (!('kind' in shown) && bytesOf(shown) <= MAX_BYTES) return shown;
  }
  const aimed = fitted(message, SAFE_BYTES);
  return 'kind' in aimed && aimed.code === 'too_big' ? fitted(message, MAX_BYTES) : aimed;
}

function fitted(message: WebPushMessage, maxBytes: number): PushRequest | Rejection {
  return buildToFit(withoutTracking(message), { build: assemble, bytesOf, maxBytes });
}

/** Removes the tracking URL, the first thing to drop from a message that is too big. */
function withoutTracking({ trackingUrl: _, ...message }: WebPushMessage): WebPushMessage {
  return message;
}

function bytesOf({ payload }: PushRequest): number {
  return Buffer.byteLength(payload);
}

/** Builds the push. Three members of the override become headers, the others go to the service worker. */
function assemble(message: WebPushMessage): PushRequest | Rejection {
  const {
    ttl,
    urgency = 'normal',
    topic_header: topic = topicOf(message),
    ...override
  } = message.override ?? {};
  const problem = problemIn({ ttl, urgency, topic });
  if (problem !== undefined)
    return { kind: 'rejected', scope: 'message', reason: `the override's ${problem}`, code: 'bad_override' };
  const { notificationId, title, content, text, actionUrl, category, customAttributes, trackingUrl } =
    message;
  const merged = mergeOverride(
    {
      id: notificationId,
      title,
      content: content === null ? null : text, // browsers show no HTML in notifications
      action_url: actionUrl,
      category,
      topic: message.topic,
      custom_attributes: customAttributes,
      ...(trackingUrl === undefined ? {} : { tracking_url: trackingUrl }),
    },
    override,
    { locked: [] },
  );
  if ('kind' in merged) return merged;
  return {
    endpoint: message.endpoint,
    keys: message.keys,
    headers: {
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ...(urgency === null ? {} : { urgency: String(urgency) }),
      ...(topic === null ? {} : { topic: String(topic) }),
    },
    ...(typeof ttl === 'number' ? { ttlSeconds: ttl } : {}),
    payload: writeJson(merged.payload),
  };
}

/**
 * Returns the `Topic` header. A message replaces an undelivered one with the same header: an older one of the
 * same topic, or its own earlier attempt.
 */
function topicOf({ topic, notificationId }: WebPushMessage): string {
  return hash('sha256', topic ?? notificationId, 'base64url').slice(0, 32);
}

function problemIn({
  ttl,
  urgency,
  topic,
}: {
  ttl: unknown;
  urgency: unknown;
  topic: unknown;
}): string | undefined {
  const isSeconds = Number.isInteger(ttl) && Number(ttl) >= 0 && Number(ttl) <= LONGEST_TTL_SECONDS;
  if (ttl !== undefined && ttl !== null && !isSeconds)
    return `ttl must be a whole number of seconds, at most ${LONGEST_TTL_SECONDS}`;
  if (urgency !== null && !URGENCIES.includes(urgency))
    return `urgency must be one of ${URGENCIES.join(', ')}`;
  if (topic !== null && !(typeof topic === 'string' && /^[\w-]{1,32}$/.test(topic)))
    return 'topic_header must be 1 to 32 characters of base64url';
  return undefined;
}

/** Wordings of Google and Apple for: the browser subscribed with other keys. */
const OTHER_KEYS = /do not correspond|mismatch/i;

function classify(response: HttpResult): SendOutcome {
  if ('error' in response && response.error.code === UNUSABLE_KEYS) {
    const { message: reason, code } = response.error;
    return { kind: 'token_gone', scope: 'token', reason, code };
  }
  if ('error' in response && response.error.code === BAD_VAPID_KEYS) {
    const { message: reason, code } = response.error;
    return { kind: 'rejected', scope: 'config', reason, code };
  }
  return httpOutcome(response, 'the push service', meaning);
}

function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { status, headers, text } = response;
  if (status >= 200 && status <= 204) {
    const lost = lostByWindows(response);
    if (lost !== undefined) return lost;
    const id = headers['apns-id'] ?? headers.location?.split('/').at(-1);
    return id === undefined || id === '' ? { kind: 'sent' } : { kind: 'sent', providerId: id.slice(0, 255) };
  }
  const { reason } = response;
  const { errno } = response.json as { errno?: unknown };
  const code = typeof errno === 'number' ? `${status} ${errno}` : String(status);
  if (status === 404 || status === 410) return { kind: 'token_gone', scope: 'token', reason, code };
  if ((status === 400 || status === 401 || status === 403) && OTHER_KEYS.test(text))
    return { kind: 'token_gone', scope: 'token', reason, code, suspect: 'config' };
  // Our keys are wrong, or the subscription is forged or was made with other keys.
  if (status === 401 || status === 403) return rejectedForEither(response, code);
  // The keys or their headers are wrong: `errno` of Mozilla, the error name of Google.
  if (status === 400 && (errno === 110 || errno === 111 || /UnauthorizedRegistration/i.test(text)))
    return rejectedForEither(response, code);
  // The push service of Windows sends it in place of 429: “The cloud service exceeded its throttle limit.”
  if (status === THROTTLED)
    return retry({ ...response, reason: `the push service limits the rate: it responded with ${status}` });
  if (status === 503 && errno === 202) return retry(response, { code, retryAfterMs: 0 }); // "try again"
  return undefined;
}

/**
 * Returns the outcome of a push that the service of Windows accepts and does not deliver: it says so in a
 * header. https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-request-response-headers
 */
function lostByWindows({ status, headers }: ParsedResponse): SendOutcome | undefined {
  const code = headers['x-wns-status']?.trim().toLowerCase();
  if (code === 'dropped') {
    const reason = 'the push service of Windows dropped the push: an error, or the browser does not want it';
    return rejected('message', { status, reason }, code);
  }
  if (code !== 'channelthrottled') return undefined;
  const reason = 'the push service of Windows dropped the push: it limits the rate of this browser';
  return retry({ status, headers, reason }, { code });
}

const THROTTLED = 406;
const UNUSABLE_KEYS = 'UNUSABLE_KEYS';
const BAD_VAPID_KEYS = 'BAD_VAPID_KEYS';

/**
 * Push services whose responses may blame our keys. Anyone can run another one and save a subscription at it.
 */
const PUSH_SERVICES =
  // language-ignore: a single regular expression
  /^https:\/\/(?:[\w-]+\.)*(?:push\.services\.mozilla\.com|googleapis\.com|push\.apple\.com|notify\.windows\.com)(?:\/|$)/;

const CONCURRENCY = 128;
const KNOWN_RECIPIENTS = 2_000; // 4 kB each; parsing the keys takes a third of a first push

function connect(config: Config, { transport, clock, contact }: SenderDeps): Sender<WebPushMessage> {
  const vapidKeys = readVapidKeys(config);
  const authorization =
    'problem' in vapidKeys
      ? undefined
      : createVapid(vapidKeys, { clock, ...(contact === undefined ? {} : { contact }) });
  const recipients = new LRUCache<string, Recipient>({ max: KNOWN_RECIPIENTS });

  function recipientWith(keys: WebPushMessage['keys']): Recipient | undefined {
    const name = `${keys.p256dh} ${keys.auth}`;
    const known = recipients.get(name) ?? readRecipient(keys);
    if (known !== undefined) recipients.set(name, known);
    return known;
  }

  async function exchange(request: PushRequest, message: WebPushMessage): Promise<HttpResult> {
    const response = await push(request, message);
    if (!('status' in response) || response.status !== 413) return response;
    const less = fitted(message, bytesOf(request) > SAFE_BYTES ? SAFE_BYTES : LAST_RESORT_BYTES);
    return 'kind' in less || bytesOf(less) >= bytesOf(request) ? response : push(less, message);
  }

  async function push(
    { endpoint, keys, headers, ttlSeconds, payload }: PushRequest,
    message: WebPushMessage,
  ): Promise<HttpResult> {
    const recipient = recipientWith(keys);
    const origin = URL.parse(endpoint)?.origin;
    if (recipient === undefined || origin === undefined)
      return unsent(UNUSABLE_KEYS, 'the keys of the subscription are invalid');
    if (authorization === undefined) return unsent(BAD_VAPID_KEYS, 'the VAPID keys are not a pair');
    const left = Math.ceil((message.expiresAt.getTime() - clock.now()) / 1000);
    const ttl = ttlSeconds ?? Math.min(LONGEST_TTL_SECONDS, Math.max(0, left));
    return transport.at(endpoint).request({
      method: 'POST',
      path: '',
      headers: { ...headers, ttl: String(ttl), authorization: await authorization(origin) },
      body: encrypt(Buffer.from(payload), recipient),
    });
  }

  const sender = createHttpSender({
    concurrency: CONCURRENCY,
    secrets: [config.private_key],
    build,
    exchange,
    classify,
  });
  return {
    ...sender,
    async send(message) {
      const outcome = await sender.send(message);
      if (isBadVapidKeys(outcome)) return outcome;
      return PUSH_SERVICES.test(message.endpoint) ? pushServiceOutcome(outcome) : destinationOutcome(outcome);
    },
  };
}

function isBadVapidKeys(outcome: SendOutcome): boolean {
  return outcome.kind === 'rejected' && outcome.code === BAD_VAPID_KEYS;
}

/**
 * Limits the blame to the message, because a user may save a subscription that is forged or made with other
 * keys.
 */
function pushServiceOutcome(outcome: SendOutcome): SendOutcome {
  return outcome.kind === 'rejected' && outcome.scope === 'config'
    ? { ...outcome, scope: 'message', suspect: 'config' }
    : outcome;
}

async function unsent(code: string, message: string): Promise<HttpResult> {
  return { error: { code, message }, written: false };
}

/**
 * Push to iOS, iPadOS and macOS.
 * https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
 */
import { type Static, Type } from 'typebox';
import { appId } from '../../contract/app-id.ts';
import { oneOf } from '../../contract/common.ts';
import { writeJson } from '../../lib/exact-numbers.ts';
import type {
  Finding,
  Provider,
  PushMessage,
  Rejection,
  Sender,
  SenderDeps,
  SendOutcome,
  VerifyDeps,
} from '../provider.ts';
import { secret } from '../provider.ts';
import {
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { Http2Pool } from '../shared/http2-pool.ts';
import { mergeOverride } from '../shared/override.ts';
import { type JsonResponse, notVerified, requestJson, segment } from '../shared/request-json.ts';
import { buildToFit } from '../shared/shrink.ts';
import { deviceToken, deviceTokens } from '../shared/tokens.ts';
import type { HttpRequest, HttpResult } from '../shared/transport.ts';
import { type ProviderToken, providerToken } from './provider-token.ts';

const P8 = '^-+?\\s?BEGIN PRIVATE KEY-+\\n([A-Za-z0-9+\\/\\r\\n]+={0,2})\\n-+\\s?END PRIVATE KEY+-+\\n?$';

const config = Type.Object(
  {
    app_id: appId('The bundle identifier of the app, for tokens without an `app_id`'),
    badge: oneOf(['unread', 'unseen'], { description: "What the number on the app's icon counts" }),
    certificate: secret({
      pattern: P8,
      description: 'The signing key: the content of the .p8 file from Apple, with its line breaks',
    }),
    key_id: Type.String({ minLength: 10, maxLength: 10, description: 'The id of the signing key' }),
    team_id: Type.String({ minLength: 10, maxLength: 10, description: 'The id of the developer team' }),
    payload_version: Type.Optional(
      oneOf(['1', '2'], {
        description: 'Accepted for compatibility and ignored: the payload has the same layout for both',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        app_id: 'com.example.app',
        badge: 'unread',
        certificate:
          '-----BEGIN PRIVATE KEY-----\nMIGTAgEAMBMGByqGSM49AgEGCCqGSM49\n' + '-----END PRIVATE KEY-----\n',
        key_id: 'ABC123DEFG',
        team_id: 'DEF123GHIJ',
      },
    ],
  },
);
type Config = Static<typeof config>;

/** One push, without the provider token. `environment` follows from the device's token. */
type ApnsRequest = HttpRequest & { environment: 'production' | 'sandbox' };

const PRODUCTION = 'https://api.push.apple.com';
const SANDBOX = 'https://api.sandbox.push.apple.com';

const tokens = deviceTokens('apns', 'ApnsToken', {
  ...deviceToken(
    64,
    'The device token in hexadecimal, as iOS returns it to the app.',
    '8d4b3f0a6c2e19757fb0d1c4a2e86935bb1f7c0d4e2a9866135fd07ce9a1b2c3',
  ),
  app_id: Type.Optional(appId("The app's bundle identifier, if it differs from the integration's.")),
  installation_id: Type.Optional(
    oneOf(['development', 'production'], {
      description: 'The environment of the token: `production` if not given.',
    }),
  ),
});

export const apns: Provider<'mobile_push', typeof config, ApnsRequest | Rejection, HttpResult> = {
  name: 'apns',
  title: 'Apple Push Notification service',
  channel: 'mobile_push',
  docs: 'https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns',
  origins: { PROVIDER_APNS_BASE_URL: PRODUCTION, PROVIDER_APNS_SANDBOX_BASE_URL: SANDBOX },
  overrideKey: 'apns',
  guide: () => import('./guide.ts'),
  config,
  tokens,
  build,
  classify,
  connect,
  verify,
};

const MAX_PAYLOAD_BYTES = 4096;
/** More sends in flight bring no gain. */
const CONCURRENCY = 1000;
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;

function connect(config: Config, { transport, clock }: SenderDeps): Sender<PushMessage> {
  // APNs requires all provider tokens on a connection to belong to one team.
  const pools = {
    production: new Http2Pool(transport.vendor('PROVIDER_APNS_BASE_URL', PRODUCTION), transport.timeouts),
    sandbox: new Http2Pool(transport.vendor('PROVIDER_APNS_SANDBOX_BASE_URL', SANDBOX), transport.timeouts),
  };
  const token = providerToken(config, { clock, owner: transport });
  return createHttpSender<PushMessage, ApnsRequest>({
    concurrency: CONCURRENCY,
    secrets: () => (token === undefined ? [] : [token.latest()]), // the key itself is never sent
    build: (message) => (token === undefined ? NO_KEY : build(message, config)),
    exchange: (request) => exchange(pools[request.environment], request, token),
    classify,
    async disconnect() {
      await Promise.all([pools.production.close({ graceMs: 0 }), pools.sandbox.close({ graceMs: 0 })]);
    },
  });
}

const NO_SIGNING_KEY = 'is not an APNs signing key: an EC key on the curve P-256, as in a .p8 file';
const NO_KEY: Rejection = {
  kind: 'rejected',
  scope: 'config',
  code: 'bad_certificate',
  reason: `the certificate ${NO_SIGNING_KEY}`,
};

/** Sends the push; sends it once more with a newer provider token if APNs rejects this one as expired. */
async function exchange(
  pool: Http2Pool,
  { method, path, headers, body = '' }: HttpRequest,
  token: ProviderToken | undefined,
): Promise<HttpResult> {
  const signed = (jwt: string) =>
    pool.request({ method, path, headers: { ...headers, authorization: `bearer ${jwt}` }, body });
  const jwt = (await token?.current()) ?? '';
  const response = await signed(jwt);
  if ('error' in response || response.status !== 403 || !response.text.includes('"ExpiredProviderToken"'))
    return response;
  const renewed = await token?.renew(jwt);
  return renewed === undefined ? response : signed(renewed);
}

function build(message: PushMessage, config: Config): ApnsRequest | Rejection {
  return buildToFit(message, {
    build: (shortened) => requestFor(shortened, config),
    bytesOf: ({ body = '' }) => Buffer.byteLength(body),
    maxBytes: MAX_PAYLOAD_BYTES,
  });
}

/** Members of the payload that become headers after the merge, so that an override can change them. */
const HEADER_MEMBERS = ['apns-push-type', 'apns-priority', 'apns-expiration', 'apns-collapse-id'];

function requestFor(message: PushMessage, config: Config): ApnsRequest | Rejection {
  const { token, deliveryId } = message;
  const merged = mergeOverride(payloadOf(message, config), message.override, { locked: [] });
  if ('kind' in merged) return merged;
  // Destructured, not deleted: JSON.stringify is slow for objects with deleted members.
  const {
    'apns-push-type': type,
    'apns-priority': priority,
    'apns-expiration': expiration,
    'apns-collapse-id': collapseId,
    ...payload
  } = merged.payload;
  const headers: Record<string, string> = { 'apns-topic': token.appId ?? config.app_id };
  if (UUID.test(deliveryId)) headers['apns-id'] = deliveryId; // APNs accepts only UUIDs
  const headerValues = [type, priority, expiration, collapseId];
  for (const [index, name] of HEADER_MEMBERS.entries()) {
    const value = headerValues[index];
    if (value === undefined) continue;
    if (!isHeaderValue(value)) return badHeader(name);
    headers[name] = String(value);
  }
  headers['content-type'] = 'application/json';
  return {
    environment: token.installationId === 'development' ? 'sandbox' : 'production',
    method: 'POST',
    path: `/3/device/${segment(token.deviceToken)}`,
    headers,
    body: writeJson(payload),
  };
}

function payloadOf(message: PushMessage, { badge }: Config): Record<string, unknown> {
  const { title, text, category, topic, actionUrl, customAttributes } = message;
  return {
    'apns-push-type': 'alert',
    'apns-priority': 10,
    'apns-expiration': Math.floor(message.expiresAt.getTime() / 1000),
    // A push that is sent twice replaces itself on the device.
    'apns-collapse-id': message.notificationId,
    aps: {
      alert: { title, ...(text === '' ? {} : { body: text }) },
      badge: message.badge[badge],
      sound: 'default',
      'mutable-content': 1,
      ...(topic === null ? {} : { 'thread-id': topic }),
    },
    id: message.notificationId,
    ...(actionUrl === null ? {} : { action_url: actionUrl }),
    ...(category === null ? {} : { category }),
    ...(topic === null ? {} : { topic }),
    ...(customAttributes === null ? {} : { custom_attributes: customAttributes }),
  };
}

function isHeaderValue(value: unknown): value is string | number {
  return typeof value === 'number' || (typeof value === 'string' && /^[\x21-\x7e]{1,64}$/.test(value));
}

function badHeader(name: string): Rejection {
  const reason = `the override's ${name} must be a number or 1 to 64 printable ASCII characters, no spaces`;
  return { kind: 'rejected', scope: 'message', code: 'bad_override', reason };
}

function classify(response: HttpResult): SendOutcome {
  return httpOutcome(response, 'APNs', meaning);
}

function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { status, headers, json } = response;
  const id = headers['apns-id'];
  if (status === 200) return { kind: 'sent', providerId: id };
  const { reason } = response;
  const { reason: word, timestamp } = json as { reason?: unknown; timestamp?: unknown };
  const code = typeof word === 'string' ? word : String(status);
  const gone = { kind: 'token_gone', scope: 'token', reason, code } as const;
  if (status === 410) {
    const goneAt = new Date(typeof timestamp === 'number' ? timestamp : Number.NaN);
    return Number.isNaN(goneAt.getTime()) ? gone : { ...gone, goneAt };
  }
  if (GONE.has(code)) return gone;
  // APNs also responds so for a token of the other environment or of another app.
  if (SUSPECT.has(code)) return { ...gone, suspect: 'config' };
  if (code === 'ExpiredProviderToken')
    return rejected('config', { status, reason: `${reason}. Check the clock of this server` }, code);
  if (EITHER.has(code)) return rejectedForEither(response, code);
  if (status === 403) return rejected('config', response, code);
  if (status === 429 || status === 503 || status === 500 || code === 'IdleTimeout')
    return retry(response, { code });
  if (status === 400 || status === 404 || status === 405 || status === 413)
    return rejected('message', response, code);
  return undefined;
}

const GONE = new Set(['MissingDeviceToken', 'BadPath']);
const SUSPECT = new Set(['BadDeviceToken', 'DeviceTokenNotForTopic']);
/** Errors of the config, or of a token that has its own app id or environment. */
const EITHER = new Set([
  'BadTopic',
  'MissingTopic',
  'TopicDisallowed',
  'BadCertificateEnvironment',
  'BadEnvironmentKeyIdInToken',
]);

const NO_DEVICE = '0'.repeat(64);

/** Sends to an impossible device token: if APNs rejects only the token, it has accepted the credentials. */
async function verify(config: Config, { transport, clock }: VerifyDeps): Promise<Finding[]> {
  const token = providerToken(config, { clock, owner: transport });
  if (token === undefined) return [{ field: 'certificate', problem: NO_SIGNING_KEY }];
  const endpoint = transport.vendor('PROVIDER_APNS_BASE_URL', PRODUCTION);
  const pool = new Http2Pool(endpoint, transport.timeouts);
  const response = await requestJson(pool, {
    method: 'POST',
    path: `/3/device/${NO_DEVICE}`,
    headers: {
      authorization: `bearer ${await token.current()}`,
      'apns-topic': config.app_id,
      'apns-push-type': 'alert',
      'apns-expiration': '0',
    },
    body: '{"aps":{"alert":"test"}}',
  });
  await pool.close({ graceMs: 0 });
  return findings(response);
}

function findings(response: JsonResponse): Finding[] {
  const { reason } = response.json as { reason?: unknown };
  if (response.status === 200 || ACCEPTED.has(String(reason))) return [];
  const field = FIELDS[String(reason)];
  return field === undefined
    ? [notVerified('APNs', response)]
    : [{ field, problem: `was rejected by APNs: ${response.summary}` }];
}

/**
 * Errors that APNs returns only if the provider token is valid. The last means that the key works in the
 * sandbox only, where development tokens belong.
 */
const ACCEPTED = new Set([
  'BadDeviceToken',
  'DeviceTokenNotForTopic',
  'Unregistered',
  'BadEnvironmentKeyIdInToken',
]);

const FIELDS: Readonly<Record<string, string>> = {
  InvalidProviderToken: 'key_id',
  UnrelatedKeyIdInToken: 'key_id',
  Forbidden: 'key_id',
  BadTopic: 'app_id',
  TopicDisallowed: 'app_id',
};

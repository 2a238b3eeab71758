/**
 * Push to Android, and through Firebase to iOS and the web.
 * https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
 */
import { type Static, Type } from 'typebox';
import { oneOf } from '../../contract/common.ts';
import { writeJson } from '../../lib/exact-numbers.ts';
import { urlMember } from '../../lib/named-host.ts';
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
import { isRejection, secret } from '../provider.ts';
import {
  httpOutcome,
  type ParsedResponse,
  rejected,
  rejectedForEither,
  retry,
} from '../shared/http-outcome.ts';
import { createHttpSender } from '../shared/http-sender.ts';
import { Http2Pool } from '../shared/http2-pool.ts';
import { privateKey } from '../shared/private-key.ts';
import { notVerified, requestJson, segment } from '../shared/request-json.ts';
import { buildToFit } from '../shared/shrink.ts';
import { deviceToken, deviceTokens } from '../shared/tokens.ts';
import type { HttpResult } from '../shared/transport.ts';
import { type AccessToken, createAccessToken, problemOf, tokenRequest } from './access-token.ts';
import { type FcmMessage, type FcmReply, fcmMessage, withTimeToLive } from './message.ts';

const PEM = '^-+?\\s?BEGIN[A-Z ]+-+\\n([A-Za-z0-9+\\/\\r\\n]+={0,2})\\n-+\\s?END[A-Z ]+-+\\n?$';
const text = (description: string) => Type.String({ description });

const config = Type.Object(
  {
    type: oneOf(['service_account'], { description: 'The kind of credentials: service_account' }),
    project_id: text('The Firebase project'),
    private_key_id: text('The id of the private key'),
    private_key: secret({ pattern: PEM, description: 'The private key in PEM, with its line breaks' }),
    client_email: text('The e-mail address of the service account'),
    client_id: text('The id of the service account'),
    auth_uri: text("Google's authorization endpoint"),
    token_uri: text("Google's endpoint for access tokens: https://oauth2.googleapis.com/token"),
    auth_provider_x509_cert_url: text("The URL of Google's certificates"),
    client_x509_cert_url: text("The URL of the service account's certificates"),
    universe_domain: text('googleapis.com, except in partner and sovereign clouds'),
  },
  {
    additionalProperties: false,
    description: 'The complete JSON key file of a service account, from the Firebase console.',
    examples: [
      {
        type: 'service_account',
        project_id: 'example',
        private_key_id: '0123456789abcdef',
        private_key:
          '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n',
        client_email: 'firebase-adminsdk@example.iam.gserviceaccount.com',
        client_id: '123456789',
        auth_uri: 'https://accounts.google.com/o/oauth2/auth',
        token_uri: 'https://oauth2.googleapis.com/token',
        auth_provider_x509_cert_url: 'https://www.googleapis.com/oauth2/v1/certs',
        client_x509_cert_url: 'https://www.googleapis.com/robot/v1/metadata/x509/firebase-adminsdk',
        universe_domain: 'googleapis.com',
      },
    ],
  },
);
type Config = Static<typeof config>;

/** One push, without the access token. */
type FcmRequest = { path: string; body: string; message: FcmMessage };

const tokens = deviceTokens(
  'fcm',
  'FcmToken',
  deviceToken(
    64,
    "The app's FCM registration token.",
    'dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx6l1nY7vQK0pD2sEw3tLm5oZ8cRjT',
  ),
);

export const fcm: Provider<'mobile_push', typeof config, FcmRequest | Rejection, FcmReply> = {
  name: 'fcm',
  title: 'Firebase Cloud Messaging',
  channel: 'mobile_push',
  docs: 'https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages',
  origins: { PROVIDER_FCM_BASE_URL: 'https://fcm.googleapis.com' },
  overrideKey: 'fcm',
  guide: () => import('./guide.ts'),
  config,
  tokens,
  hosts: [
    urlMember('token_uri'),
    {
      field: 'universe_domain',
      hostOf: (domain) => URL.parse(originOf({ universe_domain: domain }))?.hostname,
    },
  ],
  build,
  classify,
  connect,
  verify,
};

/** The limit of a message without its token. FCM counts less, depending on the platform. */
const MAX_MESSAGE_BYTES = 4096;
const CONCURRENCY = 1000;

function connect(config: Config, { transport, clock }: SenderDeps): Sender<PushMessage> {
  const pool = new Http2Pool(transport.vendor('PROVIDER_FCM_BASE_URL', originOf(config)), transport.timeouts);
  const key = privateKey(config.private_key, 'rsa');
  const token = key === undefined ? undefined : createAccessToken(config, { key, transport, clock });
  return createHttpSender<PushMessage, FcmRequest>({
    concurrency: CONCURRENCY,
    secrets: () => (token === undefined ? [] : [token.latest()]), // the key itself is never sent
    build: (message) => (token === undefined ? NO_KEY : build(message, config, clock.now())),
    exchange: (request) => (token === undefined ? Promise.resolve(NOT_SENT) : exchange(pool, request, token)),
    classify,
    disconnect: () => pool.close({ graceMs: 0 }),
  });
}

const NO_KEY: Rejection = {
  kind: 'rejected',
  scope: 'config',
  code: 'bad_private_key',
  reason: 'the private key is not an RSA key in PEM',
};
const NOT_SENT: FcmReply = { error: { code: 'CLOSED', message: 'not sent' }, written: false };

function originOf({ universe_domain: domain }: Pick<Config, 'universe_domain'>): string {
  return `https://fcm.${/^[a-z\d.-]+$/i.test(domain) ? domain : 'googleapis.com'}`;
}

/** Sends the push; sends it once more with a new access token if FCM rejects this one. */
async function exchange(
  pool: Http2Pool,
  { path, body }: { path: string; body: string },
  accessToken: AccessToken,
): Promise<FcmReply> {
  let response: FcmReply | undefined;
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const token = accessToken.current() ?? (await accessToken.get());
    if (typeof token !== 'string') return { ...token, of: 'token' };
    response = await pool.request({
      method: 'POST',
      path,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    });
    // THIRD_PARTY_AUTH_ERROR is about Apple's key of the project, not about the access token.
    if ('error' in response || response.status !== 401 || response.text.includes('THIRD_PARTY_AUTH_ERROR'))
      break;
    accessToken.refused(token);
  }
  return response ?? NOT_SENT;
}

/** Builds the request. Sets the time to live that is left at `nowMs`; without `nowMs` sets none. */
function build(message: PushMessage, config: Config, nowMs?: number): FcmRequest | Rejection {
  const request = buildWith(fcmMessage, message, config, nowMs);
  // The link for browsers is in the data once more.
  return isRejection(request) && request.code === 'too_big'
    ? buildWith((shortened) => fcmMessage(shortened, { withLink: false }), message, config, nowMs)
    : request;
}

function buildWith(
  messageOf: (message: PushMessage) => FcmMessage | Rejection,
  message: PushMessage,
  config: Config,
  nowMs: number | undefined,
): FcmRequest | Rejection {
  const path = `/v1/projects/${segment(config.project_id)}/messages:send`;
  return buildToFit<PushMessage, FcmRequest>(message, {
    build(shortened) {
      const plain = messageOf(shortened);
      if (isRejection(plain)) return plain;
      const built = nowMs === undefined ? plain : withTimeToLive(plain, message.expiresAt, nowMs);
      return { path, body: writeJson({ message: built }), message: built };
    },
    bytesOf({ body, message: { token } }) {
      const whole = Buffer.byteLength(body);
      // Without the token the rest keeps its braces and loses a comma.
      return whole <= MAX_MESSAGE_BYTES
        ? whole
        : whole - Buffer.byteLength(JSON.stringify({ message: { token } })) + 1;
    },
    maxBytes: MAX_MESSAGE_BYTES,
  });
}

function classify(reply: FcmReply): SendOutcome {
  return reply.of === 'token' ? classifyToken(reply) : httpOutcome(reply, 'FCM', meaning);
}

/** Classifies a failure to get an access token. Nothing was sent, so a retry is never ambiguous. */
function classifyToken(reply: HttpResult): SendOutcome {
  const outcome = httpOutcome(reply, 'Google', (parsed) => {
    const { error } = parsed.json as { error?: unknown };
    if (parsed.status !== 400 && parsed.status !== 401) return undefined;
    return rejected('config', parsed, typeof error === 'string' ? error : undefined);
  });
  return outcome.kind === 'retry' ? { ...outcome, ambiguous: false } : outcome;
}

function meaning(parsed: ParsedResponse): SendOutcome | undefined {
  const { status, json } = parsed;
  if (status === 200) {
    const { name } = json as { name?: unknown };
    return typeof name === 'string' ? { kind: 'sent', providerId: name } : undefined;
  }
  const { reason } = parsed;
  const { code = String(status), isAboutToken, retryAfterMs } = problemIn(json);
  const gone = { kind: 'token_gone', scope: 'token', reason, code } as const;
  if (code === 'UNREGISTERED') return gone;
  // FCM also responds so for every token if the service account belongs to another project.
  if (code === 'SENDER_ID_MISMATCH') return { ...gone, suspect: 'config' };
  if (status === 400)
    return isAboutToken || /not a valid FCM registration token/i.test(reason)
      ? gone
      : rejected('message', parsed, code);
  // Concerns iOS tokens in a project without Apple's key; Android tokens still work.
  if (code === 'THIRD_PARTY_AUTH_ERROR') return rejectedForEither(parsed, code);
  // The project is unknown, or the failure concerns the token.
  if (status === 404) return rejectedForEither(parsed, code);
  if (status === 401 || status === 403) return rejected('config', parsed, code);
  const wait = retryAfterMs ?? (status === 429 ? QUOTA_MS : undefined);
  const isHeaderUsed = parsed.headers['retry-after'] !== undefined || wait === undefined;
  if (status === 429 || status === 500 || status === 503)
    return retry(parsed, { code, ...(isHeaderUsed ? {} : { retryAfterMs: wait }) });
  return undefined;
}

/** The minimum delay that FCM documents for a response without one. */
const QUOTA_MS = 60_000;

type Problem = { code?: string | undefined; isAboutToken: boolean; retryAfterMs?: number };

/** Parses an error of Google's APIs: https://cloud.google.com/apis/design/errors */
function problemIn(json: object): Problem {
  const { error } = json as { error?: { status?: unknown; details?: unknown } | null };
  const details: unknown[] = Array.isArray(error?.details) ? error.details : [];
  const all = details.filter((one) => typeof one === 'object' && one !== null) as Record<string, unknown>[];
  const named = all.map(({ errorCode }) => errorCode).find((one) => typeof one === 'string');
  const code = named ?? (typeof error?.status === 'string' ? error.status : undefined);
  const violations = all.flatMap(({ fieldViolations: some }) => (Array.isArray(some) ? some : []));
  const delay = all.map(({ retryDelay }) => /^(\d+(?:\.\d+)?)s$/.exec(String(retryDelay))?.[1]).find(Boolean);
  return {
    code,
    isAboutToken: violations.some((one: { field?: unknown } | null) => one?.field === 'message.token'),
    ...(delay === undefined ? {} : { retryAfterMs: Number(delay) * 1000 }),
  };
}

/** Verifies the config by fetching an access token, as every send does. */
async function verify(config: Config, { transport, clock }: VerifyDeps): Promise<Finding[]> {
  const key = privateKey(config.private_key, 'rsa');
  if (key === undefined) return [{ field: 'private_key', problem: 'is not an RSA key in PEM' }];
  const problem = problemOf(config.token_uri);
  if (problem !== undefined) return [{ field: 'token_uri', problem }];
  const request = await tokenRequest(config, key, clock.now());
  const response = await requestJson(transport.at(config.token_uri), {
    ...request,
    secrets: [new URLSearchParams(String(request.body)).get('assertion') ?? ''],
  });
  const { access_token: token } = response.json as { access_token?: unknown };
  if (response.status === 200 && typeof token === 'string') return [];
  if (response.status === 400 || response.status === 401)
    return [{ field: 'private_key', problem: `was rejected by Google: ${response.summary}` }];
  return [{ ...notVerified('Google', response), ...(response.status === 0 ? { field: 'token_uri' } : {}) }];
}

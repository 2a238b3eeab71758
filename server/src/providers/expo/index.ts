/** Push to apps made with Expo. https://docs.expo.dev/push-notifications/sending-notifications/ */
import { type Static, Type } from 'typebox';
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
import { mergeOverride } from '../shared/override.ts';
import { notVerified, rejectsCredentials, requestJson } from '../shared/request-json.ts';
import { buildToFit, bytesAtMost } from '../shared/shrink.ts';
import { deviceToken, deviceTokens } from '../shared/tokens.ts';
import { tidy } from '../shared/vendor-text.ts';
import { createExpoBatches, type ExpoMessage, type ExpoReply, expoError, PER_SECOND } from './batches.ts';
import { expoReceipts } from './receipts.ts';

const config = Type.Object(
  {
    access_token: secret({
      minLength: 1,
      description: 'An access token of the Expo account that owns the app',
    }),
  },
  { additionalProperties: false, examples: [{ access_token: 'secret' }] },
);

type Config = Static<typeof config>;

const ORIGIN = 'https://exp.host';

const tokens = deviceTokens(
  'expo',
  'ExpoToken',
  deviceToken(1, "The device's Expo push token.", 'ExponentPushToken[xUQ3J0BB8f1pHXz5iYhVQo]'),
);

export const expo: Provider<'mobile_push', typeof config, ExpoMessage | Rejection, ExpoReply> = {
  name: 'expo',
  title: 'Expo push',
  channel: 'mobile_push',
  docs: 'https://docs.expo.dev/push-notifications/sending-notifications/',
  origins: { PROVIDER_EXPO_BASE_URL: ORIGIN },
  overrideKey: 'expo',
  guide: () => import('./guide.ts'),
  config,
  tokens,
  build,
  classify,
  rates: { integration: () => [{ limit: PER_SECOND, windowMs: 1000 }] },
  connect,
  verify,
  polls: expoReceipts,
};

/** The limit of a message without its token. */
const MAX_MESSAGE_BYTES = 4096;
/** Six requests of 100 messages: what Expo accepts in a second. */
const CONCURRENCY = 600;
/**
 * Tokens that Expo issued, and tokens in the form of a UUID. A token in another format makes Expo reject the
 * whole request.
 */
const TOKEN = /^(?:Expo(?:nent)?PushToken\[.+\]|[a-zA-Z\d]{8}-(?:[a-zA-Z\d]{4}-){3}[a-zA-Z\d]{12})$/;

function connect({ access_token }: Config, { transport }: SenderDeps): Sender<PushMessage> {
  const { send, close } = createExpoBatches(
    transport.vendor('PROVIDER_EXPO_BASE_URL', ORIGIN),
    access_token,
    classify,
  );
  return {
    concurrency: CONCURRENCY,
    close,
    send(message) {
      if (!TOKEN.test(message.token.deviceToken)) return Promise.resolve(MALFORMED);
      const built = build(message);
      return isRejection(built) ? Promise.resolve(built) : send(built);
    },
  };
}

const MALFORMED: SendOutcome = {
  kind: 'token_gone',
  scope: 'token',
  code: 'malformed_token',
  reason: 'this is not an Expo push token',
};

function build(message: PushMessage): ExpoMessage | Rejection {
  return buildToFit<PushMessage, ExpoMessage>(message, {
    build(shortened) {
      // `kind` is locked: with it the message, which is the request itself, could be mistaken for a
      // rejection.
      const merged = mergeOverride(messageFor(shortened), shortened.override, { locked: ['to', 'kind'] });
      return 'payload' in merged ? merged.payload : merged;
    },
    bytesOf(built) {
      const atMost = bytesAtMost(built);
      if (atMost <= MAX_MESSAGE_BYTES) return atMost;
      const { to: _, ...rest } = built;
      return Buffer.byteLength(JSON.stringify(rest));
    },
    maxBytes: MAX_MESSAGE_BYTES,
  });
}

function messageFor(message: PushMessage): ExpoMessage {
  const { token, title, text, notificationId, actionUrl, category, topic, customAttributes } = message;
  return {
    to: token.deviceToken,
    title,
    ...(text === '' ? {} : { body: text }),
    data: {
      id: notificationId,
      ...(actionUrl === null ? {} : { action_url: actionUrl }),
      ...(category === null ? {} : { category }),
      ...(topic === null ? {} : { topic }),
      ...(customAttributes === null ? {} : { custom_attributes: customAttributes }),
    },
    badge: message.badge.unread,
    sound: 'default',
    priority: 'high',
    expiration: Math.floor(message.expiresAt.getTime() / 1000),
    // A push that is sent twice replaces itself: by `tag` on Android, by `collapseId` on Apple devices.
    tag: notificationId,
    collapseId: notificationId,
  };
}

function classify(reply: ExpoReply): SendOutcome {
  const { ticketId } = reply;
  return ticketId === undefined
    ? httpOutcome(reply, 'Expo', meaning)
    : { kind: 'sent', providerId: ticketId };
}

/** Interprets the response to a single message: its ticket, or the error of the request. */
function meaning(response: ParsedResponse): SendOutcome | undefined {
  const { status, json } = response;
  const { data } = json as { data?: unknown };
  if (status === 200 && Array.isArray(data) && data.length === 1) return meaningOf(data[0], response);
  const { code = String(status) } = expoError(response.text);
  if (status === 401) return rejected('config', response, code);
  // The access token may not send to these push tokens, which may belong to a stranger's app.
  if (status === 403 || code === 'UNAUTHORIZED') return rejectedForEither(response, code);
  if (status === 429) return retry(response, { code });
  if (status === 400 || status === 413) return rejected('message', response, code);
  return undefined;
}

function meaningOf(ticket: unknown, response: ParsedResponse): SendOutcome | undefined {
  if (typeof ticket !== 'object' || ticket === null) return undefined;
  const { status, id, message, details } = ticket as Record<string, unknown>;
  if (status === 'ok') return { kind: 'sent', ...(typeof id === 'string' ? { providerId: id } : {}) };
  if (status !== 'error') return undefined;
  const { error } = (details ?? {}) as { error?: unknown };
  const code = typeof error === 'string' ? error : 'error';
  const reason = `Expo rejected it: ${typeof message === 'string' ? tidy(message) : code}`;
  if (code === 'DeviceNotRegistered') return { kind: 'token_gone', scope: 'token', reason, code };
  if (code === 'InvalidCredentials' || code === 'MismatchSenderId')
    return rejectedForEither({ ...response, reason }, code); // concerns the app of this token
  if (code === 'MessageRateExceeded' || code === 'ExpoError' || code === 'ProviderError')
    return retry({ ...response, reason }, { code });
  return rejected('message', { ...response, reason }, code);
}

/** Verifies the access token by a request for no receipts. */
async function verify({ access_token }: Config, { transport }: VerifyDeps): Promise<Finding[]> {
  const response = await requestJson(transport.vendor('PROVIDER_EXPO_BASE_URL', ORIGIN), {
    method: 'POST',
    path: '/--/api/v2/push/getReceipts',
    headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
    body: '{"ids":[]}',
  });
  if (rejectsCredentials(response))
    return [{ field: 'access_token', problem: `was rejected by Expo: ${response.summary}` }];
  const { data, errors } = response.json as { data?: unknown; errors?: unknown };
  // 400: the list is empty. Expo checks the credentials first.
  const isVerified =
    (response.status === 200 && data !== undefined) || (response.status === 400 && errors !== undefined);
  return isVerified ? [] : [notVerified('Expo', response)];
}

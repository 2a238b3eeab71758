/**
 * Builds messages for FCM. https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#Message
 */

import { withExactNumbers, writeJson } from '../../lib/exact-numbers.ts';
import { isRecord } from '../../lib/members.ts';
import type { Override, PushMessage, Rejection } from '../provider.ts';
import { mergeOverride } from '../shared/override.ts';
import type { HttpResult } from '../shared/transport.ts';

/** The response of FCM, or of Google's token endpoint if no access token could be fetched. */
export type FcmReply = HttpResult & { of?: 'token' };

/** A message without its time to live, which depends on the time of sending. */
export type FcmMessage = { [member: string]: unknown } & {
  token: string;
  android?: Record<string, unknown>;
  webpush?: Record<string, unknown>;
};

/** Returns the message with its override merged in. */
export function fcmMessage(
  message: PushMessage,
  { withLink = true }: { withLink?: boolean } = {},
): FcmMessage | Rejection {
  const plain = plainMessage(message, withLink);
  if (message.override === undefined) return plain;
  const override = toSnakeCase(message.override) as Override;
  // An override must not change the destination. With `kind`, the message could be mistaken for a rejection.
  const locked = ['token', 'topic', 'condition', 'kind'];
  const merged = mergeOverride(plain, override, { locked });
  if ('kind' in merged) return merged;
  const data = merged.payload.data;
  if (typeof data !== 'object' || data === null) return merged.payload;
  const reserved = Object.keys(data).find((name) => RESERVED.test(name));
  return reserved === undefined
    ? { ...merged.payload, data: toStrings(data) }
    : badOverride(`must not set data.${reserved}: the name is reserved by FCM`);
}

/** Returns the message with the time to live that is left, unless the override sets one. */
export function withTimeToLive(message: FcmMessage, expiresAt: Date, nowMs: number): FcmMessage {
  const left = Math.ceil((expiresAt.getTime() - nowMs) / 1000);
  const seconds = Math.min(LONGEST_SECONDS, Math.max(0, left));
  const { android, webpush } = message;
  const headers = isRecord(webpush?.headers) ? webpush.headers : {};
  return {
    ...message,
    ...(isRecord(android) ? { android: { ttl: `${seconds}s`, ...android } } : {}),
    ...(isRecord(webpush) ? { webpush: { ...webpush, headers: { TTL: String(seconds), ...headers } } } : {}),
  };
}

const LONGEST_SECONDS = 28 * 86_400;
const RESERVED = /^(?:from$|message_type$|google\.|gcm\.)/;

function plainMessage(message: PushMessage, withLink: boolean): FcmMessage {
  const { token, title, text, notificationId, topic, category, actionUrl, customAttributes } = message;
  const expiration = Math.floor(message.expiresAt.getTime() / 1000);
  // FCM rejects links that are not https.
  const link = withLink && actionUrl !== null && /^https:\/\//i.test(actionUrl) ? actionUrl : null;
  return {
    token: token.deviceToken,
    notification: { title, ...(text === '' ? {} : { body: text }) },
    data: {
      id: notificationId,
      ...(actionUrl === null ? {} : { action_url: actionUrl }),
      ...(category === null ? {} : { category }),
      ...(topic === null ? {} : { topic }),
      ...(customAttributes === null ? {} : { custom_attributes: writeJson(customAttributes) }),
    },
    // A push that is sent twice replaces itself: by the tag, or by the collapse id on Apple devices.
    android: { priority: 'HIGH', notification: { tag: notificationId } },
    apns: {
      headers: {
        'apns-priority': '10',
        'apns-expiration': String(expiration),
        'apns-collapse-id': notificationId,
      },
      payload: {
        aps: {
          badge: message.badge.unread,
          sound: 'default',
          'mutable-content': 1,
          ...(topic === null ? {} : { 'thread-id': topic }),
        },
      },
    },
    webpush: {
      notification: { tag: notificationId },
      ...(link === null ? {} : { fcm_options: { link } }),
    },
  };
}

/** Objects whose member names belong to the app, to Apple or to browsers, not to FCM. */
const FOREIGN_MEMBERS = new Set([
  'data',
  'android.data',
  'apns.headers',
  'apns.payload',
  'webpush.headers',
  'webpush.data',
  'webpush.notification',
]);

/**
 * Converts the member names to snake_case: FCM accepts both spellings, but rejects a member that has both.
 */
function toSnakeCase(value: unknown, path = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => toSnakeCase(one, path));
  if (!isRecord(value) || FOREIGN_MEMBERS.has(path)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, below]) => {
      const plain = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
      return [plain, toSnakeCase(below, path === '' ? plain : `${path}.${plain}`)];
    }),
  );
}

function toStrings(data: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(withExactNumbers(data) as object).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );
}

function badOverride(problem: string): Rejection {
  return { kind: 'rejected', scope: 'message', code: 'bad_override', reason: `the override ${problem}` };
}

import type { Event, EventType } from './generated/types.ts';

/** The message of a webhook. If you compare its `type`, `data` has the type of that event. */
export type WebhookMessage = {
  [Type in EventType]: { type: Type; timestamp: string; data: Extract<Event, { type: Type }> };
}[EventType];

/** A message as it arrived, and the secret with which it must be signed. */
export interface VerifyWebhookOptions {
  /** All headers of the request, in upper or lower case. */
  headers: Pick<Headers, 'get'> | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body before it is parsed, byte for byte. */
  body: string | Uint8Array | ArrayBuffer;
  /** The secret of the webhook, `whsec_…`. Several are possible: a message needs the signature of one. */
  secret: string | readonly string[];
}

/** Why a message is not accepted. */
export type WebhookErrorCode =
  /** `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing. */
  | 'missing_header'
  /** `webhook-timestamp` is no number of seconds, or differs by more than five minutes from the clock. */
  | 'invalid_timestamp'
  /** No signature is that of a secret. */
  | 'invalid_signature'
  /** The body is signed, but is not a message. */
  | 'invalid_body';

/** A message that must not be accepted: respond with 401. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
  readonly code: WebhookErrorCode;

  constructor(code: WebhookErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

const PREFIX = 'whsec_';
const TOLERANCE_SECONDS = 300;
// A message has one for each secret, of which a webhook has two at most.
const MAX_SIGNATURES = 8;
const HMAC = { name: 'HMAC', hash: 'SHA-256' };

type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/**
 * Returns the message of a webhook if it is signed with the secret (Standard Webhooks) and at most five
 * minutes old. Throws a `WebhookError` if not, and a `TypeError` for a secret or body that cannot be right.
 */
export async function verifyWebhook({
  headers,
  body,
  secret,
}: VerifyWebhookOptions): Promise<WebhookMessage> {
  const keys = await Promise.all([secret].flat().map(keyOf));
  if (keys.length === 0) throw new TypeError('verifyWebhook needs a secret');
  const bytes = bytesOf(body);
  const id = header(headers, 'webhook-id');
  const timestamp = header(headers, 'webhook-timestamp');
  const signatures = header(headers, 'webhook-signature');
  checkTimestamp(timestamp);
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  if (!(await isSigned(signatures, keys, signed)))
    throw new WebhookError('invalid_signature', 'The message is not signed with this secret');
  return messageIn(bytes);
}

async function keyOf(secret: string): Promise<Key> {
  const text: unknown = secret;
  const key =
    typeof text === 'string' ? bytesOfBase64(text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text) : [];
  // The value may be a secret with a typing error, so it is not shown.
  if (key === undefined || key.length === 0)
    throw new TypeError(`verifyWebhook: a secret is ${PREFIX} and base64, but this one is not`);
  return crypto.subtle.importKey('raw', Uint8Array.from(key), HMAC, false, ['verify']);
}

function bytesOf(body: string | Uint8Array | ArrayBuffer): Uint8Array {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (ArrayBuffer.isView(body)) return body;
  throw new TypeError('verifyWebhook needs the body as a string or bytes, before it is parsed');
}

function header(headers: VerifyWebhookOptions['headers'], name: string): string {
  const value =
    typeof headers.get === 'function'
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  const text = typeof value === 'string' ? value : (value ?? []).join(' ');
  if (text === '') throw new WebhookError('missing_header', `The header ${name} is missing`);
  return text;
}

function checkTimestamp(timestamp: string): void {
  const ageSeconds = Date.now() / 1000 - Number(timestamp);
  if (/^\d+$/.test(timestamp) && Math.abs(ageSeconds) <= TOLERANCE_SECONDS) return;
  throw new WebhookError(
    'invalid_timestamp',
    `webhook-timestamp is ${timestamp}, more than ${TOLERANCE_SECONDS} s from the time of this machine`,
  );
}

/** Compares in constant time, as `verify` does. */
async function isSigned(
  signatures: string,
  keys: readonly Key[],
  signed: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  for (const signature of signatures.split(' ', MAX_SIGNATURES)) {
    const [version, text = ''] = signature.split(',', 2);
    const bytes = version === 'v1' ? bytesOfBase64(text) : undefined;
    if (bytes === undefined) continue;
    for (const key of keys) if (await crypto.subtle.verify(HMAC, key, bytes, signed)) return true;
  }
  return false;
}

function messageIn(bytes: Uint8Array): WebhookMessage {
  try {
    const message = JSON.parse(new TextDecoder().decode(bytes)) as { type?: unknown; data?: unknown };
    if (typeof message.type === 'string' && message.data instanceof Object) return message as WebhookMessage;
  } catch {
    // not JSON, or null
  }
  throw new WebhookError('invalid_body', 'The body is not the message of an event');
}

/** The bytes, or `undefined` if the text is not base64. */
function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}

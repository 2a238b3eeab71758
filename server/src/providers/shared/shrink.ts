import { writtenCharacters } from '../../lib/exact-numbers.ts';
import { isRejection, type NotificationContent, type Rejection } from '../provider.ts';

/**
 * Returns the request for as much of the message as fits into `maxBytes`: the whole message, else without its
 * custom attributes, else also with its text cut. `content` then becomes the cut text, because HTML cannot be
 * cut safely. A message that is still too big is rejected without a request to the vendor.
 */
export function buildToFit<Message extends NotificationContent, Request extends object>(
  message: Message,
  {
    build,
    bytesOf,
    maxBytes,
  }: {
    build: (message: Message) => Request | Rejection;
    /** Returns the size that counts against the limit. */
    bytesOf: (request: Request) => number;
    maxBytes: number;
  },
): Request | Rejection {
  const fits = (request: Request | Rejection) => isRejection(request) || bytesOf(request) <= maxBytes;
  const whole = build(message);
  if (fits(whole)) return whole;
  const plain = { ...message, customAttributes: null };
  const withoutAttributes = message.customAttributes === null ? whole : build(plain);
  if (fits(withoutAttributes)) return withoutAttributes;
  const withText = (length: number) => {
    const text = cut(message.text, length);
    return build({ ...plain, text, content: message.content === null ? null : text });
  };
  // Binary search for the longest text that fits. Each character takes at least a byte: start at `maxBytes`.
  let best: Request | undefined;
  let shortest = 0;
  let longest = Math.min(message.text.length, maxBytes);
  while (shortest <= longest) {
    const middle = (shortest + longest) >> 1;
    const request = withText(middle);
    if (isRejection(request)) return request;
    if (bytesOf(request) <= maxBytes) {
      best = request;
      shortest = middle + 1;
    } else longest = middle - 1;
  }
  return best ?? tooBig(maxBytes);
}

/**
 * Returns an upper bound for the size of a value as JSON, in bytes. Cheaper than serializing it, which pays
 * off because nearly all messages are far below the limit.
 */
export function bytesAtMost(value: unknown): number {
  if (typeof value === 'string') return 6 * value.length + 2; // `\u0000`
  if (typeof value !== 'object' || value === null) return 25; // `-0.0000012345678901234567`
  let bytes = 2 + writtenCharacters(value);
  if (Array.isArray(value)) for (const one of value) bytes += 1 + bytesAtMost(one);
  else
    for (const name of Object.keys(value))
      bytes += 6 * name.length + 4 + bytesAtMost((value as Record<string, unknown>)[name]);
  return bytes;
}

/** The outcome of a message that exceeds a limit. */
export function tooBig(maxBytes: number): Rejection {
  return {
    kind: 'rejected',
    scope: 'message',
    code: 'too_big',
    reason: `the message is larger than the ${maxBytes} bytes that the provider accepts`,
  };
}

/**
 * Returns the text if it has at most `maxLength` UTF-16 units, else its beginning and `…`. Never splits a
 * surrogate pair.
 */
export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  if (maxLength < 1) return '';
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

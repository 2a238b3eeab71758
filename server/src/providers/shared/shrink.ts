import { isRejection, type NotificationContent, type Rejection } from '../provider.ts';

/**
 * The request for as much of a message as fits: whole, else without its custom attributes, else with its text
 * cut. Then `content` is the cut text too, because HTML cannot be cut anywhere. What is too big even so
 * rejects the message, without asking the vendor.
 */
export function buildToFit<Message extends NotificationContent, Request extends object>(
  message: Message,
  {
    build,
    bytesOf,
    maxBytes,
  }: {
    build: (message: Message) => Request | Rejection;
    /** What counts against the limit. */
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
  // The longest that fits: every character is a byte at least, so more than `maxBytes` of them never do.
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
 * No fewer bytes than a value of JSON has when it is written: computed without writing it, which is worth it
 * where nearly all fit by far.
 */
export function bytesAtMost(value: unknown): number {
  if (typeof value === 'string') return 6 * value.length + 2; // `\u0000`
  if (typeof value !== 'object' || value === null) return 24; // `-1.2345678901234567e-308`
  let bytes = 2;
  if (Array.isArray(value)) for (const one of value) bytes += 1 + bytesAtMost(one);
  else
    for (const name of Object.keys(value))
      bytes += 6 * name.length + 4 + bytesAtMost((value as Record<string, unknown>)[name]);
  return bytes;
}

/** The outcome of a message that is over a limit. */
export function tooBig(maxBytes: number): Rejection {
  return {
    kind: 'rejected',
    scope: 'message',
    code: 'too_big',
    reason: `the message is larger than the ${maxBytes} bytes that the provider takes`,
  };
}

/**
 * The text if it has no more than so many UTF-16 units, else its beginning and `…`; no character is broken in
 * two.
 */
export function cut(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  if (maxLength < 1) return '';
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * Whether this is the hexadecimal HMAC-SHA256 of the bytes. Takes the same time whatever is wrong with it.
 */
export function hasSignature(signed: Buffer, key: string, signature: string): boolean {
  const wanted = createHmac('sha256', key).update(signed).digest();
  const given = Buffer.alloc(wanted.length);
  const written = given.write(signature, 'hex');
  return (
    timingSafeEqual(given, wanted) && written === wanted.length && signature.length === 2 * wanted.length
  );
}

/** The object that a JSON text is. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A header that is there once. */
export function textOf(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : '';
}

/** The members of an object; none of anything else. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

/** A text that is not empty. */
export function wordOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The time that a vendor names in seconds; else this time. */
export function timeOfSeconds(seconds: unknown, nowMs: number): Date {
  const ms = Number(seconds) * 1000;
  return new Date(typeof seconds === 'number' && ms > 0 && ms <= nowMs ? ms : nowMs);
}

/**
 * Whether a time in seconds of unix time is not longer ago than this, nor ahead of us by more than clocks are
 * apart.
 */
export function isRecent(seconds: string, nowMs: number, withinMs: number): boolean {
  const ms = Number(seconds) * 1000;
  return /^\d{1,12}$/.test(seconds) && ms <= nowMs + CLOCKS_APART_MS && ms >= nowMs - withinMs;
}

/**
 * How old a report may be whose vendor repeats it for hours while we are away: it is not said that a repeat
 * is signed again. A report that comes twice changes nothing, so the limit is there for the lists of what is
 * suppressed: an old bounce must not come back.
 */
export const REPEATED_FOR_MS = 25 * 3_600_000;
const CLOCKS_APART_MS = 5 * 60_000;

import { createHmac, timingSafeEqual } from 'node:crypto';
import { readJson } from '../../lib/exact-numbers.ts';
import { isRecord } from '../../lib/members.ts';

/** Whether `signature` is the hexadecimal HMAC-SHA256 of the bytes. Compares in constant time. */
export function hasSignature(signed: Buffer, key: string, signature: string): boolean {
  const wanted = createHmac('sha256', key).update(signed).digest();
  const given = Buffer.alloc(wanted.length);
  const written = given.write(signature, 'hex');
  return (
    timingSafeEqual(given, wanted) && written === wanted.length && signature.length === 2 * wanted.length
  );
}

/** Returns the object in a JSON text; undefined if the text is not a JSON object. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value = readJson(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the value of a header; empty if it is missing or sent more than once. */
export function headerText(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : '';
}

/** Returns the value if it is an object, else an empty object. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

/** Returns the value if it is a text that is not empty. */
export function nonEmptyText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/**
 * Returns the time that a vendor gives in unix seconds; `nowMs` if it is missing, invalid or in the future.
 */
export function dateOfSeconds(seconds: unknown, nowMs: number): Date {
  const ms = Number(seconds) * 1000;
  return new Date(typeof seconds === 'number' && ms > 0 && ms <= nowMs ? ms : nowMs);
}

/** Whether a time in unix seconds is at most `withinMs` old, and at most five minutes ahead of our clock. */
export function isRecent(seconds: string, nowMs: number, withinMs: number): boolean {
  const ms = Number(seconds) * 1000;
  return /^\d{1,12}$/.test(seconds) && ms <= nowMs + CLOCK_SKEW_MS && ms >= nowMs - withinMs;
}

/**
 * The maximum age of a signed report of a vendor that retries for hours while we do not respond: the
 * documentation does not say that a retry is signed again. A repeated report changes nothing; the limit
 * protects the suppression lists from old bounces.
 */
export const MAX_REPORT_AGE_MS = 25 * 3_600_000;
const CLOCK_SKEW_MS = 5 * 60_000;

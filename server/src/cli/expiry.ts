import { InvalidArgumentError } from 'commander';

const UNIT_MS: Record<string, number> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};
const DATE = /^\d{4}-\d{2}-\d{2}(?:T.+)?$/;

/** When something ends. A value for never, because commander makes an empty text of an `undefined`. */
export type Expiry = Date | 'never';

/** Reads `30d`, `12h`, an ISO date or `never`. Throws what commander reports as wrong usage. */
export function parseExpiry(text: string): Expiry {
  if (text === 'never') return 'never';
  const durationMs = durationOf(text);
  const atMs = DATE.test(text) ? Date.parse(text) : Date.now() + (durationMs ?? Number.NaN);
  if (!(Math.abs(atMs) <= LAST_MS))
    throw new InvalidArgumentError('It is none of 30d, 12h, 2027-01-31 or never.');
  if (atMs <= Date.now()) throw new InvalidArgumentError('It has to lie in the future.');
  return new Date(atMs);
}

// The last moment with a year of four digits: what comes later is a slip of the keyboard.
const LAST_MS = Date.UTC(9999, 11, 31);

/** Reads `90s` or `5m` as milliseconds. Throws what commander reports as wrong usage. */
export function parseDuration(text: string): number {
  const ms = durationOf(text);
  if (ms === undefined || ms > 365 * 86_400_000)
    throw new InvalidArgumentError('It is no duration such as 90s, 5m or 1h.');
  return ms;
}

/** Reads a duration, or 0 for none. Throws what commander reports as wrong usage. */
export function parseOverlap(text: string): number {
  return text === '0' ? 0 : parseDuration(text);
}

function durationOf(text: string): number | undefined {
  const [, count = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const unitMs = UNIT_MS[unit];
  return unitMs === undefined ? undefined : Number(count) * unitMs;
}

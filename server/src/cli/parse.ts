import { InvalidArgumentError } from 'commander';
import { isEmailAddress } from '../lib/email-address.ts';

const UNIT_MS: Record<string, number> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
};
const DATE = /^\d{4}-\d{2}-\d{2}(?:T.+)?$/;

/** When something expires. `never`, because commander turns `undefined` into an empty text. */
export type Expiry = Date | 'never';

/** Parses `30d`, `12h`, an ISO date or `never`. Throws a usage error for commander, as all parsers here. */
export function parseExpiry(text: string): Expiry {
  if (text === 'never') return 'never';
  const durationMs = durationOf(text);
  const atMs = DATE.test(text) ? Date.parse(text) : Date.now() + (durationMs ?? Number.NaN);
  if (!(Math.abs(atMs) <= LAST_MS) || (DATE.test(text) && !isDay(text.slice(0, 10))))
    throw new InvalidArgumentError('It must have a form such as 30d, 12h, 2027-01-31 or never.');
  if (atMs <= Date.now()) throw new InvalidArgumentError('It must be in the future.');
  return new Date(atMs);
}

/** Whether the day exists: `Date.parse` takes February 31 for March 3. */
function isDay(day: string): boolean {
  const atMs = Date.parse(day);
  return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(day);
}

// The last moment with a year of four digits; a later one is a typing error.
const LAST_MS = Date.UTC(9999, 11, 31);

/** Parses `90s` or `5m` to milliseconds. */
export function parseDuration(text: string): number {
  const ms = durationOf(text);
  if (ms === undefined || ms > 365 * 86_400_000)
    throw new InvalidArgumentError('It must be a duration such as 90s, 5m or 1h, of at most 365d.');
  return ms;
}

/** Parses a duration, or 0 for none. */
export function parseOverlap(text: string): number {
  return text === '0' ? 0 : parseDuration(text);
}

function durationOf(text: string): number | undefined {
  const [, count = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const unitMs = UNIT_MS[unit];
  return unitMs === undefined ? undefined : Number(count) * unitMs;
}

/** Parses a number of requests, or `default` to `null`. */
export function parseLimit(text: string): number | null {
  if (text === 'default') return null;
  if (!/^\d{1,9}$/.test(text))
    throw new InvalidArgumentError('It must be a number of requests, or "default".');
  return Number(text);
}

const MAX_NAME = 255;

/** What is wrong with a name that tables and logs show; undefined if nothing is. */
export function nameProblem(name: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a name is shown in tables and logs
  return name.trim() === '' || name.length > MAX_NAME || /[\u0000-\u001f\u007f]/.test(name)
    ? `1 to ${MAX_NAME} characters, none of them a control character`
    : undefined;
}

/** Parses the name of a token. */
export function parseName(text: string): string {
  const problem = nameProblem(text);
  if (problem !== undefined) throw new InvalidArgumentError(`It must have ${problem}.`);
  return text;
}

const MAX_COUNT = 100;

/** Parses the number of records of a list. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > MAX_COUNT)
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${MAX_COUNT}.`);
  return count;
}

/** A user on the command line. */
export type UserName = { external_id: string } | { email: string };

/**
 * Parses an external id or an e-mail address, which has an @; the prefixes `external_id:` and `email:` decide
 * otherwise. An invalid address and a phone number are errors, because as external ids they would create
 * users that nothing reaches.
 */
export function parseUserName(text: string): UserName {
  const [, kind, value = ''] = /^(external_id|email):(.*)$/s.exec(text) ?? [undefined, undefined, text];
  if (value.trim() === '') throw new InvalidArgumentError('It must be an external id or an e-mail address.');
  if (kind === undefined && /^\+\d/.test(value))
    throw new InvalidArgumentError(
      'It looks like a phone number, which does not identify a user. ' +
        `Use the user's external id or e-mail address, or external_id:${value}.`,
    );
  const isEmail = kind === undefined ? value.includes('@') : kind === 'email';
  if (!isEmail) return { external_id: value };
  if (isEmailAddress(value)) return { email: value };
  const hint = kind === undefined ? ` If it is an external id, write external_id:${value}.` : '';
  throw new InvalidArgumentError(`It is not an e-mail address.${hint}`);
}

import { InvalidArgumentError } from 'commander';

/** Reads a number of requests, or `default` as `null`. Throws what commander reports as wrong usage. */
export function parseLimit(text: string): number | null {
  if (text === 'default') return null;
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It is no number of requests, nor "default".');
  return Number(text);
}

import { InvalidArgumentError } from 'commander';

/** Reads a number of requests, or `default` as `null`. Throws what commander reports as wrong usage. */
export function parseLimit(text: string): number | null {
  if (text === 'default') return null;
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It is no number of requests, nor "default".');
  return Number(text);
}

const MOST = 100;

/** Reads how many records of a list are wanted. Throws what commander reports as wrong usage. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > MOST)
    throw new InvalidArgumentError(`It is a whole number from 1 to ${MOST}.`);
  return count;
}

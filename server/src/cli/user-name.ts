import { InvalidArgumentError } from 'commander';
import { isEmailAddress } from '../lib/email-address.ts';

/** Whom a command line means: one of the two. */
export type UserName = { external_id: string } | { email: string };

/**
 * Reads an external id or an e-mail address: what has an @ is an address, unless `external_id:` or `email:`
 * before it says which it is. What looks like an address or a phone number and cannot be used as one is an
 * error: as an external id it would make a user that nobody reaches.
 */
export function parseUserName(text: string): UserName {
  const [, kind, value = ''] = /^(external_id|email):(.*)$/s.exec(text) ?? [undefined, undefined, text];
  if (value.trim() === '') throw new InvalidArgumentError('It is an external id or an e-mail address.');
  if (kind === undefined && /^\+\d/.test(value))
    throw new InvalidArgumentError(
      `It looks like a phone number, which names no user. Give the user's external id or e-mail address, or external_id:${value}.`,
    );
  const isEmail = kind === undefined ? value.includes('@') : kind === 'email';
  if (!isEmail) return { external_id: value };
  if (isEmailAddress(value)) return { email: value };
  const hint = kind === undefined ? ` If it is an external id, write external_id:${value}.` : '';
  throw new InvalidArgumentError(`It is not an e-mail address.${hint}`);
}

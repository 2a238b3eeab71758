import { InvalidArgumentError } from 'commander';

/** Whom a command line means: one of the two. */
export type UserName = { external_id: string } | { email: string };

/** Reads an external id or an e-mail address: what has an @ is an address, unless `external_id:` or `email:` before it says which it is. */
export function parseUserName(text: string): UserName {
  const [, kind, value = ''] = /^(external_id|email):(.*)$/s.exec(text) ?? [undefined, undefined, text];
  if (value === '') throw new InvalidArgumentError('It is an external id or an e-mail address.');
  const isEmail = kind === undefined ? /^[^@\s]+@[^@\s]+$/.test(value) : kind === 'email';
  return isEmail ? { email: value } : { external_id: value };
}

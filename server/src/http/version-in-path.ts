import { ClientError } from '../errors.ts';

/** Returns the version in a path. Throws `not_found` if it is no number that a version can have. */
export function versionIn({ version }: { version: string }): number {
  if (!/^[1-9]\d{0,8}$/.test(version)) throw new ClientError('not_found');
  return Number(version);
}

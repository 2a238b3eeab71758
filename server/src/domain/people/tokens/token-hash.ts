import { createHash } from 'node:crypto';
import type { TokenIdentity } from '../../../providers/provider.ts';

/** Returns the value of tokens.hash and token_owners.hash, by which tokens of any length are looked up. */
export function tokenHash(identity: TokenIdentity): Buffer {
  // The texts of collections with public ids are URLs, which never start with `id:`.
  const text = 'text' in identity ? identity.text : `id:${identity.publicId}`;
  return createHash('sha256').update(text).digest();
}

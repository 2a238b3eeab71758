import { createHash } from 'node:crypto';
import type { TokenIdentity } from '../../../providers/provider.ts';

/** The value of tokens.hash and token_owners.hash: tokens are looked up by it, whatever their length is. */
export function tokenHash(identity: TokenIdentity): Buffer {
  // Collections with public ids have addresses as texts: none of them begins like this.
  const text = 'text' in identity ? identity.text : `id:${identity.publicId}`;
  return createHash('sha256').update(text).digest();
}

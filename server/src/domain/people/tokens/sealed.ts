import { ifOpened, type Sealer } from '../../../lib/seal.ts';

/** Encrypts the members of a token for its record. */
export function sealToken(sealer: Sealer, userId: string, id: string, json: string): Buffer {
  return sealer.seal(json, tokenPurpose(userId, id));
}

/**
 * Decrypts the members of a token, as JSON. Returns undefined if this server lacks the key. Such a token must
 * not delay others, and is not discarded, because the key may be added again.
 */
export function openToken(sealer: Sealer, userId: string, id: string, sealed: Buffer): string | undefined {
  const [json] = ifOpened(() => sealer.open(sealed, tokenPurpose(userId, id)).toString());
  return json;
}

/** The purpose that a token is encrypted for. */
export function tokenPurpose(userId: string, id: string): string {
  return `user:${userId}:token:${id}`;
}

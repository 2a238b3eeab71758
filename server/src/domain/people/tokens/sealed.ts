import { CannotOpen, type Sealer } from '../../../lib/seal.ts';

/** A stored token's own members, sealed for its record alone. */
export function sealToken(sealer: Sealer, userId: string, id: string, json: string): Buffer {
  return sealer.seal(json, tokenPurpose(userId, id));
}

/**
 * A stored token's own members as JSON text; undefined when the key that sealed them is not at hand. Such a
 * token must not hold up the others. It is not a missing one either: the key may come back.
 */
export function openToken(sealer: Sealer, userId: string, id: string, sealed: Buffer): string | undefined {
  try {
    return sealer.open(sealed, tokenPurpose(userId, id)).toString();
  } catch (error) {
    if (error instanceof CannotOpen) return undefined;
    throw error;
  }
}

/** What a token's members are sealed for. */
export function tokenPurpose(userId: string, id: string): string {
  return `user:${userId}:token:${id}`;
}

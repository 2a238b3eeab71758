import { createHash, createSecretKey, type KeyObject } from 'node:crypto';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';

/**
 * `api_secret` signs User JWTs, on the integrator's servers. `signing_key` signs Project JWTs and links,
 * here.
 */
export type KeyKind = 'api_secret' | 'signing_key';

/** A key that verifies what was signed for a project. */
export interface ProjectKey {
  readonly projectId: string;
  /** Names the key without revealing it. */
  readonly id: string;
  readonly key: KeyObject;
  /** Tokens signed with it are valid until then: infinity for the current key, 0 for one that has ended. */
  readonly validUntilMs: number;
}

/** The purpose that a project's key is sealed for. It stays the same when the key becomes a former one. */
export function sealingPurpose(projectId: string, kind: KeyKind): string {
  return `project:${projectId}:${kind}`;
}

/** Opens a sealed key of a project. Throws `CannotOpen`. */
export function openKey(sealer: Sealer, { projectId, kind, sealed, validUntilMs }: SealedKey): ProjectKey {
  const bytes = sealer.open(sealed, sealingPurpose(projectId, kind));
  return { projectId, id: keyId(bytes), key: createSecretKey(bytes), validUntilMs };
}

/** The id of a sealed key. One that cannot be opened gets one too, by which it can be listed and removed. */
export function idOfSealed(sealer: Sealer, key: Omit<SealedKey, 'validUntilMs'>): string {
  try {
    return openKey(sealer, { ...key, validUntilMs: 0 }).id;
  } catch (error) {
    if (error instanceof CannotOpen) return keyId(key.sealed);
    throw error;
  }
}

export interface SealedKey {
  projectId: string;
  kind: KeyKind;
  sealed: Buffer;
  validUntilMs: number;
}

/**
 * Names a key: 12 hexadecimal digits of a digest. The keys are random, so nobody can find one by its digest.
 */
function keyId(key: Buffer): string {
  return createHash('sha256').update('belfry project key').update(key).digest('hex').slice(0, 12);
}

/** Whether tokens that this key has signed are valid now. */
export function isValidKey(keys: readonly ProjectKey[], id: string, nowMs: number): boolean {
  return keys.some((key) => key.id === id && key.validUntilMs > nowMs);
}

/** The keys that are valid now, the current one first. */
export function validKeys(keys: readonly ProjectKey[], nowMs: number): KeyObject[] {
  return keys.filter(({ validUntilMs }) => validUntilMs > nowMs).map(({ key }) => key);
}

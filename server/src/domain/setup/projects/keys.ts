import { createHash, createSecretKey, type KeyObject } from 'node:crypto';
import { ifOpened, type Sealer } from '../../../lib/seal.ts';

/**
 * The customer's servers sign User JWTs with `api_secret`; Belfry signs Project JWTs and links with
 * `signing_key`.
 */
export type KeyKind = 'api_secret' | 'signing_key';

/** A key that verifies tokens and links of a project. */
export interface ProjectKey {
  readonly projectId: string;
  /** Does not reveal the key. */
  readonly id: string;
  readonly key: KeyObject;
  /** When tokens signed with it become invalid: infinity for the current key, 0 for a key that has ended. */
  readonly validUntilMs: number;
}

/** Returns the sealing purpose of a project's key, which does not change when the key is replaced. */
export function sealingPurpose(projectId: string, kind: KeyKind): string {
  return `project:${projectId}:${kind}`;
}

/** Opens a sealed key of a project. Throws `CannotOpen`. */
export function openKey(sealer: Sealer, { projectId, kind, sealed, validUntilMs }: SealedKey): ProjectKey {
  const bytes = sealer.open(sealed, sealingPurpose(projectId, kind));
  return { projectId, id: keyId(bytes), key: createSecretKey(bytes), validUntilMs };
}

/**
 * Returns the id of a sealed key, also of one that cannot be opened, so that it can be listed and removed.
 */
export function idOfSealed(sealer: Sealer, key: Omit<SealedKey, 'validUntilMs'>): string {
  const [opened] = ifOpened(() => openKey(sealer, { ...key, validUntilMs: 0 }));
  return opened?.id ?? keyId(key.sealed);
}

export interface SealedKey {
  projectId: string;
  kind: KeyKind;
  sealed: Buffer;
  validUntilMs: number;
}

/** Returns 12 hexadecimal digits of a digest. Keys are random, so that the digest does not reveal them. */
function keyId(key: Buffer): string {
  return createHash('sha256').update('belfry project key').update(key).digest('hex').slice(0, 12);
}

/** Returns whether tokens signed with the key of this id are valid. */
export function isValidKey(keys: readonly ProjectKey[], id: string, nowMs: number): boolean {
  return keys.some((key) => key.id === id && key.validUntilMs > nowMs);
}

/** Returns the keys that are valid, the current one first. */
export function validKeys(keys: readonly ProjectKey[], nowMs: number): KeyObject[] {
  return keys.filter(({ validUntilMs }) => validUntilMs > nowMs).map(({ key }) => key);
}

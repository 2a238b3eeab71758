import { LRUCache } from 'lru-cache';
import type { Bus } from '../bus/messages.ts';

/** A user is identified by the project's own id or by e-mail address. */
export type IdentityKind = 'external_id' | 'email';

// For 200,000 identities of usual length. Others are looked up by primary key.
const MAX_BYTES = 30_000_000;
const BYTES_BESIDE_KEY = 90;
// Identities rarely move to another user. Other nodes are notified on the bus; if that message is lost, they
// notice within this time.
const TTL_MS = 60_000;

/**
 * Caches the user of each identity, so that a broadcast to known users needs no query. Holds committed data
 * only.
 */
export class Identities {
  readonly #unsubscribe: () => void;
  readonly #ids = new LRUCache<string, string>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_userId, key) => key.length + BYTES_BESIDE_KEY,
    ttl: TTL_MS,
    ttlResolution: 1_000,
  });
  #removals = 0;

  constructor(bus: Pick<Bus, 'subscribe'>) {
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'identities_changed') for (const key of message.keys) this.remove(key);
      if (message.type === 'missed') this.#clear();
    });
  }

  /** Ends the subscription to the bus. */
  close(): void {
    this.#unsubscribe();
  }

  /** How many removals there were. Do not `set` what was read before the latest removal: it may be stale. */
  get removals(): number {
    return this.#removals;
  }

  get(key: string): string | undefined {
    return this.#ids.get(key);
  }

  set(key: string, userId: string): void {
    this.#ids.set(key, userId);
  }

  remove(key: string): void {
    this.#removals += 1;
    this.#ids.delete(key);
  }

  #clear(): void {
    this.#removals += 1;
    this.#ids.clear();
  }
}

/** Returns the cache key of an identity. E-mail addresses are compared without regard to case. */
export function identityKey(projectId: string, kind: IdentityKind, value: string): string {
  return `${projectId}${kind === 'email' ? 'm' : 'x'}${identityValue(kind, value)}`;
}

/** Returns the value of user_keys.value. */
export function identityValue(kind: IdentityKind, value: string): string {
  return kind === 'email' ? value.trim().toLowerCase() : value;
}

/** The cache keys of a person's identities, computed once because each is looked up many times. */
export interface IdentityKeys {
  id: string | undefined;
  email: string | undefined;
}

/** Returns the cache keys of a person's identities. */
export function identityKeysOf(person: {
  projectId: string;
  externalId?: string | undefined;
  email?: string | undefined;
}): IdentityKeys {
  const { projectId, externalId, email } = person;
  return {
    id: externalId === undefined ? undefined : identityKey(projectId, 'external_id', externalId),
    email: email === undefined ? undefined : identityKey(projectId, 'email', email),
  };
}

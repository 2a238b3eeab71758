import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Bus } from '../bus/messages.ts';

/** How a user is named: by the project's own id, or by e-mail address. */
export type IdentityKind = 'external_id' | 'email';

// About 30 MB when full. A project's active users fit; what does not is looked up by primary key.
const MAX_ENTRIES = 200_000;
// An identity hardly ever moves to another user. Other nodes hear of it on the bus; where that message is
// lost, it is noticed after this long at the latest.
const TTL_MS = 60_000;

/**
 * Remembers which user an identity means, so that a broadcast to known users needs no look-up. Only committed
 * facts go in.
 */
export class Identities {
  readonly #unsubscribe: () => void;
  readonly #ids = new LRUCache<string, string>({
    ...cacheLimit(MAX_ENTRIES),
    ttl: TTL_MS,
    ttlResolution: 1_000,
  });
  #forgotten = 0;

  constructor(bus: Pick<Bus, 'subscribe'>) {
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'identities_changed') for (const key of message.keys) this.forget(key);
      if (message.type === 'missed') this.#forgetAll();
    });
  }

  /** Hears of nothing any more. */
  close(): void {
    this.#unsubscribe();
  }

  /** Counts what was forgotten: what was read before it changed is not to be remembered after. */
  get forgotten(): number {
    return this.#forgotten;
  }

  get(key: string): string | undefined {
    return this.#ids.get(key);
  }

  remember(key: string, userId: string): void {
    this.#ids.set(key, userId);
  }

  forget(key: string): void {
    this.#forgotten += 1;
    this.#ids.delete(key);
  }

  #forgetAll(): void {
    this.#forgotten += 1;
    this.#ids.clear();
  }
}

/**
 * The one spelling of an identity. E-mail addresses are compared without regard to case; external ids as they
 * are.
 */
export function identityKey(projectId: string, kind: IdentityKind, value: string): string {
  return `${projectId}${kind === 'email' ? 'm' : 'x'}${identityValue(kind, value)}`;
}

/** What stands in user_keys.value. */
export function identityValue(kind: IdentityKind, value: string): string {
  return kind === 'email' ? value.trim().toLowerCase() : value;
}

/**
 * The keys of both names of somebody: spelt once, because each is looked up many times on the way to a user.
 */
export interface Names {
  id: string | undefined;
  email: string | undefined;
}

/** The keys of somebody's names. */
export function namesOf(person: {
  projectId: string;
  externalId?: string | undefined;
  email?: string | undefined;
}): Names {
  const { projectId, externalId, email } = person;
  return {
    id: externalId === undefined ? undefined : identityKey(projectId, 'external_id', externalId),
    email: email === undefined ? undefined : identityKey(projectId, 'email', email),
  };
}

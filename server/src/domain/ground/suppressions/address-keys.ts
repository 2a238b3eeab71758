import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Logger } from '../../../lib/log.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';

const MAX_PROJECTS = 10_000;

/** The keys that hash the addresses of projects. Cached without expiry: a key never changes. */
export class AddressKeys {
  readonly #sealer: Sealer;
  readonly #log: Logger;
  readonly #known = new LRUCache<string, KeyObject>(cacheLimit(MAX_PROJECTS));
  /** The projects whose unreadable key was logged. */
  readonly #logged = new LRUCache<string, true>(cacheLimit(MAX_PROJECTS));

  constructor({ sealer, log }: { sealer: Sealer; log: Logger }) {
    this.#sealer = sealer;
    this.#log = log;
  }

  /**
   * Returns the keys of the projects that have one. A project without a key has no suppressions. Leaves out
   * keys that cannot be opened and logs an error, once per project.
   */
  async find(db: Queryable, projectIds: readonly string[]): Promise<Map<string, KeyObject>> {
    const found = new Map<string, KeyObject>();
    const missing = new Set<string>();
    for (const id of projectIds) {
      const key = this.#known.get(id);
      if (key === undefined) missing.add(id);
      else found.set(id, key);
    }
    if (missing.size === 0) return found;
    for (const { project_id, sealed_key, lasting } of await db.query<Row>(selectKeys, [
      uuidArray([...missing]),
    ])) {
      const key = this.#open(project_id, sealed_key);
      if (key === undefined) continue;
      found.set(project_id, key);
      if (lasting) this.#known.set(project_id, key);
    }
    return found;
  }

  /**
   * Returns the keys of all projects, except those that cannot be opened. Creates missing keys in the
   * caller's transaction.
   */
  async findOrCreate(tx: Queryable, projectIds: readonly string[]): Promise<Map<string, KeyObject>> {
    const found = await this.find(tx, projectIds);
    const missing = [...new Set(projectIds)].filter((id) => !found.has(id)).sort();
    if (missing.length === 0) return found;
    await tx.query(insertKeys, [
      missing,
      missing.map((id) => this.#sealer.seal(randomBytes(32), addressKeyPurpose(id))),
    ]);
    // A concurrent transaction may have created the key: read the one that was stored.
    for (const [id, key] of await this.find(tx, missing)) found.set(id, key);
    return found;
  }

  #open(projectId: string, sealedKey: Buffer): KeyObject | undefined {
    try {
      return createSecretKey(this.#sealer.open(sealedKey, addressKeyPurpose(projectId)));
    } catch (error) {
      if (!(error instanceof CannotOpen)) throw error;
      // Sealed with a key that this server lacks. The project's deliveries go on.
      if (!this.#logged.has(projectId))
        this.#log.error(
          { err: error, projectId },
          'cannot decrypt the key of a project’s suppressions: they are ignored and none is added until ' +
            'SECRET_KEY contains the key that encrypted it',
        );
      this.#logged.set(projectId, true);
      return undefined;
    }
  }
}

interface Row {
  project_id: string;
  sealed_key: Buffer;
  lasting: boolean;
}

/** Returns the purpose with which a project's key is sealed. */
export function addressKeyPurpose(projectId: string): string {
  return `project:${projectId}:address_key`;
}

// Primary key. Keys created by this transaction are not cached: it may roll back.
const selectKeys = sql(
  'select_suppression_keys',
  `select project_id, sealed_key, created_at < now() as lasting
  from suppression_keys
  where project_id = any ($1::uuid[])`,
);
// Primary key. A concurrent transaction that creates the same key waits for the commit.
const insertKeys = sql(
  'insert_suppression_keys',
  `insert into suppression_keys (project_id, sealed_key, created_at)
  select project_id, sealed_key, now()
  from unnest($1::uuid[], $2::bytea[]) as k (project_id, sealed_key)
  order by project_id
  on conflict do nothing`,
);

import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Logger } from '../../../lib/log.ts';
import { CannotOpen, type Sealer } from '../../../lib/seal.ts';

const MAX_PROJECTS = 10_000;

/** The keys with which projects' addresses are hashed, in memory once they are known: a key never changes. */
export class AddressKeys {
  readonly #sealer: Sealer;
  readonly #log: Logger;
  readonly #known = new LRUCache<string, KeyObject>(cacheLimit(MAX_PROJECTS));
  /** The projects whose key could not be opened, as the log says. */
  readonly #told = new LRUCache<string, true>(cacheLimit(MAX_PROJECTS));

  constructor({ sealer, log }: { sealer: Sealer; log: Logger }) {
    this.#sealer = sealer;
    this.#log = log;
  }

  /**
   * The keys of those of the projects that have one; who has none has never suppressed anything. Nor is one
   * here that cannot be opened: that is an error in the log, once.
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
   * The keys of all of the projects, but of those whose key cannot be opened; those that are new come with
   * the caller's transaction.
   */
  async findOrMake(tx: Queryable, projectIds: readonly string[]): Promise<Map<string, KeyObject>> {
    const found = await this.find(tx, projectIds);
    const missing = [...new Set(projectIds)].filter((id) => !found.has(id)).sort();
    if (missing.length === 0) return found;
    await tx.query(insertKeys, [
      missing,
      missing.map((id) => this.#sealer.seal(randomBytes(32), addressKeyPurpose(id))),
    ]);
    // What somebody else made at the same moment is theirs: read what counts.
    for (const [id, key] of await this.find(tx, missing)) found.set(id, key);
    return found;
  }

  #open(projectId: string, sealedKey: Buffer): KeyObject | undefined {
    try {
      return createSecretKey(this.#sealer.open(sealedKey, addressKeyPurpose(projectId)));
    } catch (error) {
      if (!(error instanceof CannotOpen)) throw error;
      // Sealed with a key that is gone. What the project sends must not stop for that.
      if (!this.#told.has(projectId))
        this.#log.error(
          { err: error, projectId },
          'the key of a project’s suppressions cannot be opened: none is heeded and none is added until SECRET_KEY has what it was sealed with',
        );
      this.#told.set(projectId, true);
      return undefined;
    }
  }
}

interface Row {
  project_id: string;
  sealed_key: Buffer;
  lasting: boolean;
}

/** What a project's key is sealed for. */
export function addressKeyPurpose(projectId: string): string {
  return `project:${projectId}:address_key`;
}

// Primary key. What this transaction itself has made has its time, and may yet be undone: it is not
// remembered.
const selectKeys = sql(
  'select_suppression_keys',
  `select project_id, sealed_key, created_at < now() as lasting
  from suppression_keys
  where project_id = any ($1::uuid[])`,
);
// Primary key: of two who make the same at once, the second waits here for the first one's commit.
const insertKeys = sql(
  'insert_suppression_keys',
  `insert into suppression_keys (project_id, sealed_key, created_at)
  select project_id, sealed_key, now()
  from unnest($1::uuid[], $2::bytea[]) as k (project_id, sealed_key)
  on conflict do nothing`,
);

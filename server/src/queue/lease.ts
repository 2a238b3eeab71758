import { type Database, type Queryable, sql } from '../db/client.ts';
import { newId } from '../lib/ids.ts';
import type { JobKind } from './jobs.ts';

// A worker says every 2 s that it lives; after 8 s of silence its jobs go to others. Shorter, and a pause of
// the event loop would give work away that is still being done; longer, and a crash would hold its deliveries
// up.
const BEAT_MS = 2_000;
const LIFETIME = '8 seconds';
// While it was renewed within this time no other worker can have taken its jobs; with a margin for the way to
// the database.
const FRESH_MS = 6_000;

/**
 * What a worker holds its jobs by. It is renewed while the worker lives; when it could not be renewed in time
 * it is given up for a new one, and whatever was done under the old is refused by `settle`.
 */
export class Lease {
  readonly #db: Database;
  readonly #node: string;
  readonly #keyIds: readonly string[] | undefined;
  readonly #onError: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #id = newId();

  constructor(options: {
    db: Database;
    node: string;
    /** With which keys the node opens secrets. */
    keyIds?: readonly string[] | undefined;
    onError: (error: unknown) => void;
  }) {
    this.#db = options.db;
    this.#node = options.node;
    this.#keyIds = options.keyIds;
    this.#onError = options.onError;
  }

  get id(): string {
    return this.#id;
  }

  /** Whether no other worker can have taken over its jobs. */
  get isFresh(): boolean {
    return performance.now() - this.#renewedMs < FRESH_MS;
  }

  /**
   * Renews it, unless it is fresh. Nothing may be claimed under one that is not: another worker could take it
   * over at once.
   */
  async refresh(): Promise<void> {
    if (this.isFresh) return;
    await this.#renewOnce();
    if (!this.isFresh) throw new Error('the lease could not be renewed');
  }

  async start(): Promise<void> {
    const beganMs = performance.now();
    await this.#insert(this.#id);
    this.#renewedMs = beganMs;
    this.#timer = setInterval(() => void this.#renewOnce(), BEAT_MS);
  }

  /** Ends the lease: jobs still held are ready again at once. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    // One that is under way would find the lease gone and take a new one, which nobody ends.
    await this.#renewing;
    await this.#db.query(endLease, [this.#id]);
  }

  async #insert(id: string): Promise<void> {
    await this.#db.query(insertLease, [id, this.#node, LIFETIME, this.#keyIds ?? null]);
  }

  #renewOnce(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #renew(): Promise<void> {
    const beganMs = performance.now();
    try {
      const rows = await this.#db.query<{ id: string }>(renewLease, [this.#id, LIFETIME]);
      if (rows.length === 0) {
        const id = newId();
        await this.#insert(id);
        this.#id = id;
      }
      this.#renewedMs = beganMs;
    } catch (error) {
      this.#onError(error);
    }
  }
}

/**
 * The running nodes that cannot open what is sealed with this key. Nodes of an earlier release do not say,
 * and are left out.
 */
export async function nodesWithoutKey(db: Queryable, keyId: string): Promise<string[]> {
  return (await db.query<{ node: string }>(selectNodesWithoutKey, [keyId])).map(({ node }) => node);
}

/**
 * Gives back the jobs of workers that are gone; answers the kinds of these jobs. `ownLeaseId` is spared:
 * whoever asks lives, however long the database could not be told so.
 */
export async function rescue(db: Queryable, ownLeaseId: string): Promise<Set<JobKind>> {
  const rows = await db.query<{ kind: JobKind }>(rescueJobs, [ownLeaseId]);
  return new Set(rows.map((row) => row.kind));
}

/**
 * Gives back every leased job, whoever has it. Only for the start of a server that alone uses its database:
 * then all leases are of processes that are gone, and there is nothing to wait for.
 */
export async function rescueAll(db: Queryable): Promise<void> {
  await db.query(rescueEverything);
}

const insertLease = sql(
  'lease_insert',
  `insert into leases (id, node, expires_at, key_ids)
  values ($1, $2, now() + $3::interval, $4::text[])`,
);
// The whole table: a row for each server.
const selectNodesWithoutKey = sql(
  'select_nodes_without_key',
  `select node
  from leases
  where expires_at > now() and not ($1 = any (key_ids))
  order by node`,
);
const renewLease = sql(
  'lease_renew',
  'update leases set expires_at = now() + $2::interval where id = $1 returning id',
);
// Index jobs_leased (lease_id).
const endLease = sql(
  'lease_end',
  `with ended as (delete from leases where id = $1 returning id)
  update jobs set lease_id = null from ended where jobs.lease_id = ended.id`,
);
// Index jobs_leased (lease_id). A lease that does not exist is one that was lost: a worker that had not
// noticed yet may have claimed under it afterwards. The lease is compared once more when the row is locked: a
// worker may meanwhile have claimed the job under a new lease, which this statement does not see.
const rescueJobs = sql(
  'rescue',
  `with dead as (delete from leases where expires_at < now() and id <> $1 returning id),
  stale as (
    select id, lease_id
    from jobs
    where lease_id is not null
      and (lease_id in (select id from dead) or not exists (select from leases where leases.id = jobs.lease_id))
  )
  update jobs
  set lease_id = null
  from stale
  where jobs.id = stale.id and jobs.lease_id = stale.lease_id
  returning kind`,
);
const rescueEverything = sql(
  'rescue_everything',
  `with dead as (delete from leases)
  update jobs set lease_id = null where lease_id is not null`,
);

import { type Database, type Queryable, sql } from '../db/client.ts';
import { newId } from '../lib/ids.ts';
import type { JobKind } from './jobs.ts';

// A worker says every 2 s that it lives; after 8 s of silence its jobs go to others. Shorter, and a pause of the event loop
// would give work away that is still being done; longer, and a crash would hold its deliveries up.
const BEAT_MS = 2_000;
const LIFETIME = '8 seconds';

/**
 * What a worker holds its jobs by. It is renewed while the worker lives; when it could not be renewed in time it is given up for a
 * new one, and whatever was done under the old is refused by `settle`.
 */
export class Lease {
  readonly #db: Database;
  readonly #node: string;
  readonly #onError: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #id = newId();

  constructor(options: { db: Database; node: string; onError: (error: unknown) => void }) {
    this.#db = options.db;
    this.#node = options.node;
    this.#onError = options.onError;
  }

  get id(): string {
    return this.#id;
  }

  async start(): Promise<void> {
    await this.#db.query(insertLease, [this.#id, this.#node, LIFETIME]);
    this.#timer = setInterval(() => void this.#renew(), BEAT_MS);
  }

  /** Ends the lease: jobs still held are ready again at once. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#db.query(endLease, [this.#id]);
  }

  async #renew(): Promise<void> {
    try {
      const rows = await this.#db.query<{ id: string }>(renewLease, [this.#id, LIFETIME]);
      if (rows.length > 0) return;
      const id = newId();
      await this.#db.query(insertLease, [id, this.#node, LIFETIME]);
      this.#id = id;
    } catch (error) {
      this.#onError(error);
    }
  }
}

/** Gives back the jobs of workers that are gone; answers the kinds of these jobs. */
export async function rescue(db: Queryable): Promise<Set<JobKind>> {
  const rows = await db.query<{ kind: JobKind }>(rescueJobs);
  return new Set(rows.map((row) => row.kind));
}

/**
 * Gives back every leased job, whoever has it. Only for the start of a server that alone uses its database: then all leases are of
 * processes that are gone, and there is nothing to wait for.
 */
export async function rescueAll(db: Queryable): Promise<void> {
  await db.query(expireLeases);
  await rescue(db);
}

const insertLease = sql(
  'lease_insert',
  'insert into leases (id, node, expires_at) values ($1, $2, clock_timestamp() + $3::interval)',
);
const renewLease = sql(
  'lease_renew',
  'update leases set expires_at = clock_timestamp() + $2::interval where id = $1 returning id',
);
const expireLeases = sql('lease_expire', "update leases set expires_at = '-infinity'");
// Index jobs_leased (lease_id).
const endLease = sql(
  'lease_end',
  `with ended as (delete from leases where id = $1 returning id)
  update jobs set lease_id = null from ended where jobs.lease_id = ended.id`,
);
const rescueJobs = sql(
  'rescue',
  `with dead as (delete from leases where expires_at < clock_timestamp() returning id)
  update jobs set lease_id = null from dead where jobs.lease_id = dead.id
  returning kind`,
);

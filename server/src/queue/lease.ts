import { textArray, uuidArray } from '../db/arrays.ts';
import { type Database, type Queryable, sql } from '../db/client.ts';
import { readJson } from '../lib/exact-numbers.ts';
import { newId } from '../lib/ids.ts';
import { backoff } from './backoff.ts';
import type { JobKind, JobPayloads } from './jobs.ts';

// A worker renews its lease every 2 s; after 8 s without a renewal its jobs go to others. If this were
// shorter, a pause of the event loop would release running jobs. If it were longer, a crash would delay the
// deliveries of its jobs for longer.
const RENEW_EVERY_MS = 2_000;
const LIFETIME = '8 seconds';
// A lease that was renewed within this time cannot have expired. Includes a margin for the network.
const FRESH_MS = 6_000;
// An expired lease is dead if it was not renewed for this long by the monotonic clock of the observer. If the
// clock of the database goes forward, all leases have expired at once, and their workers renew them.
const SILENT_MS = 2 * RENEW_EVERY_MS;
// Jobs of a worker that has ended are retried at once, but only this often: one of them may be the reason.
// After that, each waits for a random time of its own, so that the others complete between two crashes.
const CUT_OFFS_AT_ONCE = 3;

/**
 * The lease under which a worker holds its jobs, renewed while the worker lives. If it expired, a new one
 * replaces it, and `complete` throws for jobs of the old one.
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
    /** The ids of the keys with which the node opens secrets. */
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

  /** Whether no other worker can have claimed its jobs. */
  get isFresh(): boolean {
    return performance.now() - this.#renewedMs < FRESH_MS;
  }

  /**
   * Renews the lease unless it is fresh. Returns whether it is now: jobs claimed under an expired lease would
   * be released at once.
   */
  async refresh(): Promise<boolean> {
    if (!this.isFresh) await this.#renewOnce();
    return this.isFresh;
  }

  async start(): Promise<void> {
    const startedMs = performance.now();
    await this.#insert(this.#id);
    this.#renewedMs = startedMs;
    this.#timer = setInterval(() => void this.#renewOnce(), RENEW_EVERY_MS);
  }

  /** Ends the lease: jobs that it still holds are ready again immediately. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    // A renewal in flight would find no lease and insert a new one that never ends.
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
    const startedMs = performance.now();
    try {
      const rows = await this.#db.query<{ id: string }>(renewLease, [this.#id, LIFETIME]);
      if (rows.length === 0) {
        const id = newId();
        await this.#insert(id);
        this.#id = id;
      }
      this.#renewedMs = startedMs;
    } catch (error) {
      this.#onError(error);
    }
  }
}

/** The running nodes that do not have this key. Excludes nodes of releases that do not record their keys. */
export async function nodesWithoutKey(db: Queryable, keyId: string): Promise<string[]> {
  return (await db.query<{ node: string }>(selectNodesWithoutKey, [keyId])).map(({ node }) => node);
}

/** Releases the jobs of workers whose lease has expired. */
export class Rescuer {
  readonly #db: Queryable;
  readonly #monotonicMs: () => number;
  readonly #onDelayed: (jobs: readonly DelayedJob[]) => void;
  /** Other workers' leases, as this process read them last: when they end, and since when it knows that. */
  #seen: readonly SeenLease[] = [];
  #readMs = Number.NEGATIVE_INFINITY;

  /** `onDelayed` gets the jobs that wait because their workers have ended often. */
  constructor(
    db: Queryable,
    options: {
      /** Replaced only by tests. */
      monotonicMs?: () => number;
      onDelayed?: (jobs: readonly DelayedJob[]) => void;
    } = {},
  ) {
    this.#db = db;
    this.#monotonicMs = options.monotonicMs ?? (() => performance.now());
    this.#onDelayed = options.onDelayed ?? (() => {});
  }

  /**
   * Releases what it can, and returns the kinds of these jobs. Never ends `ownLeaseId`: the caller lives,
   * even if the database was unavailable for a long time. Call it about once a second: after a pause in which
   * leases may have expired because the database was unavailable, it observes them from the beginning.
   * `clockMs` is the time in unix milliseconds.
   */
  async rescue(ownLeaseId: string, clockMs: number): Promise<Set<JobKind>> {
    const nowMs = this.#monotonicMs();
    const seen = nowMs - this.#readMs < FRESH_MS ? this.#seen : [];
    const silent = seen.filter(({ sinceMs }) => nowMs - sinceMs >= SILENT_MS);
    const [row] = await this.#db.query<{ kinds: string; suspects: string; leases: string }>(rescueJobs, [
      ownLeaseId,
      LIFETIME,
      uuidArray(silent.map(({ id }) => id)),
      textArray(silent.map(({ endsAt }) => endsAt)),
    ]);
    const readMs = this.#monotonicMs();
    const known = new Map(seen.map((lease) => [lease.id, lease]));
    this.#readMs = readMs;
    const leases = JSON.parse(row?.leases ?? '[]') as { id: string; ends_at: string }[];
    this.#seen = leases.map(({ id, ends_at: endsAt }) => {
      const before = known.get(id);
      return before?.endsAt === endsAt ? before : { id, endsAt, sinceMs: readMs };
    });
    await this.#delay(JSON.parse(row?.suspects ?? '[]') as Suspect[], clockMs);
    return new Set(JSON.parse(row?.kinds ?? '[]') as JobKind[]);
  }

  async #delay(suspects: readonly Suspect[], clockMs: number): Promise<void> {
    if (suspects.length === 0) return;
    const rows = await this.#db.query<DelayedRow>(delayJobs, [
      suspects.map(({ id }) => id),
      uuidArray(suspects.map(({ lease_id: leaseId }) => leaseId)),
      suspects.map(({ cut_offs: cutOffs }) => new Date(clockMs + backoff(cutOffs + 1))),
    ]);
    const delayed = rows.map(({ id, kind, project_id: projectId, ...row }) => ({
      ...{ id, kind, projectId, partitionKey: row.partition_key ?? projectId },
      ...{
        dueAt: row.due_at,
        attempt: row.attempt,
        cutOffs: row.cut_offs,
        payload: readJson(row.payload) as DelayedJob['payload'],
      },
    }));
    if (delayed.length > 0) this.#onDelayed(delayed);
  }
}

/** A job that waits because its workers have ended often. */
export interface DelayedJob {
  id: number;
  kind: JobKind;
  projectId: string;
  partitionKey: string;
  dueAt: Date;
  attempt: number;
  cutOffs: number;
  payload: JobPayloads[JobKind];
}

interface DelayedRow {
  id: number;
  kind: JobKind;
  project_id: string;
  partition_key: string | null;
  due_at: Date;
  attempt: number;
  cut_offs: number;
  payload: string;
}

/** A job during which its worker has ended several times. */
interface Suspect {
  id: number;
  lease_id: string;
  cut_offs: number;
}

interface SeenLease {
  id: string;
  endsAt: string;
  sinceMs: number;
}

/**
 * Releases every leased job, but leaves those to `rescue` that it would delay. Only for the start of a server
 * that is the only one on its database: all leases belong to processes that have ended.
 */
export async function rescueAll(db: Queryable): Promise<void> {
  await db.query(rescueEverything);
}

/**
 * Releases the jobs of a node whose process has ended, and returns their kinds. Leaves those to `rescue` that
 * it would delay.
 */
export async function releaseNode(db: Queryable, node: string): Promise<Set<JobKind>> {
  const rows = await db.query<{ kind: JobKind }>(releaseJobsOfNode, [node]);
  return new Set(rows.map((row) => row.kind));
}

const insertLease = sql(
  'lease_insert',
  `insert into leases (id, node, expires_at, key_ids)
  values ($1, $2, now() + $3::interval, $4::text[])`,
);
// Reads the whole table: a row per server.
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
  `with ended as (delete from leases where id = $1)
  update jobs
  set lease_id = null
  where id = any (array(
    select id
    from jobs
    where id = any (array(select id from jobs where lease_id = $1)) and lease_id = $1
    order by id
    for update
  ))`,
);
// Index jobs_leased (lease_id). A lease that does not exist has expired before: a worker that had not noticed
// may have claimed under it afterwards. The lease is compared again when the row is locked: meanwhile another
// worker may have claimed the job under a new lease, which this statement does not see. A row that is locked
// belongs to a transaction that has not ended; it is released after that, and others do not wait for it.
//
// If the clock of the database has gone back, leases of before end much later than a new one would. They get
// the time of a new one: a worker that lives renews its lease in time, and a dead one is noticed.
const rescueJobs = sql(
  'rescue',
  `with ahead as (
    update leases
    set expires_at = now() + $2::interval
    where id = any (array(
      select id from leases where expires_at > now() + 2 * $2::interval for update skip locked
    ))
  ),
  dead as (
    delete from leases
    where id = any (array(
      select leases.id
      from unnest($3::uuid[], $4::timestamptz[]) as silent (id, ends_at)
      join leases on leases.id = silent.id and expires_at = silent.ends_at
      where expires_at < now() and leases.id <> $1
      for update of leases skip locked
    ))
    returning id
  ),
  stale as materialized (
    select id, lease_id
    from jobs
    where lease_id is not null
      and (
        lease_id in (select id from dead)
        or not exists (select from leases where leases.id = jobs.lease_id)
      )
  ),
  locked as materialized (
    select jobs.id, jobs.lease_id, jobs.cut_offs
    from jobs
    join stale on jobs.id = stale.id and jobs.lease_id = stale.lease_id
    where jobs.id = any (array(select id from stale))
    for update of jobs skip locked
  ),
  released as (
    update jobs
    set lease_id = null, cut_offs = cut_offs + 1
    where id = any (array(select id from locked where cut_offs < ${CUT_OFFS_AT_ONCE}))
    returning kind
  )
  select
    coalesce((select jsonb_agg(distinct kind) from released), '[]')::text as kinds,
    coalesce((
      select json_agg(locked) from locked where cut_offs >= ${CUT_OFFS_AT_ONCE}
    ), '[]')::text as suspects,
    coalesce((
      select json_agg(json_build_object('id', id, 'ends_at', expires_at)) from leases where id <> $1
    ), '[]')::text as leases`,
);
// Primary key.
const delayJobs = sql(
  'delay_jobs',
  `with suspect as (
    select jobs.id, s.due_at
    from unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) as s (id, lease_id, due_at)
    join jobs using (id, lease_id)
    where jobs.id = any ($1::bigint[])
    order by jobs.id
    for update of jobs
  )
  update jobs
  set lease_id = null, due_at = suspect.due_at, cut_offs = jobs.cut_offs + 1
  from suspect
  where jobs.id = any ($1::bigint[]) and jobs.id = suspect.id
  returning jobs.id, jobs.kind, jobs.project_id, jobs.partition_key, jobs.due_at, jobs.attempt,
    jobs.cut_offs, jobs.payload`,
);
// leases has a row per process. Index jobs_leased (lease_id).
const releaseJobsOfNode = sql(
  'release_node',
  `with ended as materialized (
    delete from leases
    where id = any (array(select id from leases where node = $1 order by id for update))
    returning id
  )
  update jobs
  set lease_id = null, cut_offs = cut_offs + 1
  where id = any (array(
    select id
    from jobs
    where id = any (array(select id from jobs where lease_id = any (array(select id from ended))))
      and lease_id = any (array(select id from ended)) and cut_offs < ${CUT_OFFS_AT_ONCE}
    order by id
    for update
  ))
  returning kind`,
);
const rescueEverything = sql(
  'rescue_everything',
  `with dead as (
    delete from leases where id = any (array(select id from leases order by id for update))
  )
  update jobs
  set lease_id = null, cut_offs = cut_offs + 1
  where id = any (array(
    select id
    from jobs
    where id = any (array(select id from jobs where lease_id is not null))
      and lease_id is not null and cut_offs < ${CUT_OFFS_AT_ONCE}
    order by id
    for update
  ))`,
);

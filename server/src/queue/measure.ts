import { textArray } from '../db/arrays.ts';
import { type Queryable, sql } from '../db/client.ts';
import { JOB_KINDS, type JobKind } from './jobs.ts';

/** How much work the queue has. */
export interface QueueSize {
  kind: JobKind;
  /** At most MAX_COUNTED of each kind. */
  ready: number;
  /** Of the next MAX_COUNTED scheduled jobs. */
  scheduled: number;
  /** Of MAX_COUNTED jobs at work. */
  leased: number;
  /** How long the oldest ready job has been waiting; 0 if there is none. */
  oldestSeconds: number;
}

/** More jobs are not counted, so that the measurement takes milliseconds also beside a million. */
export const MAX_COUNTED = 10_000;

/** Measures the queue of all nodes, by kind. */
export async function measureQueue(db: Queryable): Promise<QueueSize[]> {
  return db.query<QueueSize>(selectSizes, [textArray(JOB_KINDS), MAX_COUNTED]);
}

/** Counts the nodes whose workers hold a lease, and the shortest time until one of these leases expires. */
export async function measureLeases(db: Queryable): Promise<{ live: number; shortestSeconds: number }> {
  const [row] = await db.query<{ live: number; shortestSeconds: number }>(selectLeases);
  return row ?? { live: 0, shortestSeconds: 0 };
}

// Ready jobs by index jobs_oldest (kind, enqueued_at), whose condition is repeated; scheduled ones by
// jobs_scheduled (due_at), and those at work by jobs_leased (lease_id).
const selectSizes = sql(
  'measure_queue',
  `with scheduled as (
    select kind, count(*) as jobs
    from (select kind from jobs where due_at is not null and lease_id is null order by due_at limit $2) few
    group by kind
  ),
  leased as (
    select kind, count(*) as jobs
    from (select kind from jobs where lease_id is not null order by lease_id limit $2) few
    group by kind
  )
  select
    kinds.kind,
    ready.jobs as ready,
    coalesce(scheduled.jobs, 0) as scheduled,
    coalesce(leased.jobs, 0) as leased,
    coalesce(greatest(extract(epoch from clock_timestamp() - oldest.enqueued_at), 0), 0)::float8
      as "oldestSeconds"
  from unnest($1::text[]) as kinds (kind)
  cross join lateral (
    select count(*) as jobs
    from (
      select from jobs j
      where j.kind = kinds.kind and j.id > 0 and j.due_at is null and j.lease_id is null
      order by j.enqueued_at
      limit $2
    ) few
  ) ready
  left join lateral (
    select j.enqueued_at
    from jobs j
    where j.kind = kinds.kind and j.id > 0 and j.due_at is null and j.lease_id is null
    order by j.enqueued_at
    limit 1
  ) oldest on true
  left join scheduled on scheduled.kind = kinds.kind
  left join leased on leased.kind = kinds.kind`,
);

// Reads the whole table: a row per worker.
const selectLeases = sql(
  'measure_leases',
  `select
    count(*) as live,
    coalesce(extract(epoch from min(expires_at) - now()), 0)::float8 as "shortestSeconds"
  from leases
  where expires_at > now()`,
);

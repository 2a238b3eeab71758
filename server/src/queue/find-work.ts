import { textArray } from '../db/arrays.ts';
import { type Queryable, sql } from '../db/client.ts';
import { JOB_KINDS, type JobKind } from './jobs.ts';

/**
 * Returns the kinds that a poll has to look at: they have jobs that are ready, or held under this lease. Most
 * of the time there are none, and the poll ends with this statement.
 */
export async function findWork(db: Queryable, leaseId: string): Promise<ReadonlySet<JobKind>> {
  const rows = await db.query<{ kind: string }>(selectKinds, [textArray(JOB_KINDS), leaseId]);
  const found = new Set(rows.map(({ kind }) => kind));
  // Bytes can be damaged on their way. An unknown kind has no producer; the next poll finds the right one.
  return new Set(JOB_KINDS.filter((kind) => found.has(kind)));
}

// Indexes jobs_ready (kind, …) and jobs_leased (lease_id). With `exists` instead of a limit, the planner may
// choose a join that reads all ready jobs.
const selectKinds = sql(
  'find_work',
  `select one.kind
  from unnest($1::text[]) as one (kind)
  cross join lateral (
    select true as found
    from jobs
    where jobs.kind = one.kind and due_at is null and lease_id is null
    limit 1
  ) ready
  union
  select kind from jobs where lease_id = $2`,
);

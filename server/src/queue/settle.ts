import { type Queryable, sql } from '../db/client.ts';
import type { JobKind } from './jobs.ts';

/**
 * Thrown when a job is no longer ours: another worker has it, so what we did about it must not be recorded.
 */
export class LeaseLost extends Error {
  constructor(jobIds: readonly number[]) {
    super(`the lease of ${jobIds.length} jobs was lost`);
  }
}

/**
 * Deletes finished jobs in the caller's transaction. Throws `LeaseLost`, and so undoes the transaction,
 * unless all are still held.
 */
export async function settle(tx: Queryable, leaseId: string, jobIds: readonly number[]): Promise<void> {
  if (jobIds.length === 0) return;
  const rows = await tx.query(deleteJobs, [jobIds, leaseId]);
  assertSettled(jobIds, rows.length);
}

/**
 * The same as a part of a larger statement, with the places of its two values. Who uses it counts the rows
 * that it answers, and asks `assertSettled` before the commit.
 */
export function settled(jobIds: string, leaseId: string): string {
  // All by primary key. With `lease_id = ` the planner may take jobs_leased instead, which holds an entry for
  // every job that this worker has done since the last vacuum: 250 pages read for ten jobs.
  return `delete from jobs where id = any (${jobIds}::bigint[]) and lease_id is not distinct from ${leaseId}::uuid returning id`;
}

/** Throws `LeaseLost` unless all of the jobs were ended. */
export function assertSettled(jobIds: readonly number[], count: number): void {
  if (count !== jobIds.length) throw new LeaseLost(jobIds);
}

/**
 * Deletes those of these finished jobs that are still held, each under its lease, in the caller's
 * transaction. Returns their ids.
 */
export async function endHeldJobs(
  tx: Queryable,
  finished: readonly { jobId: number; leaseId: string }[],
): Promise<ReadonlySet<number>> {
  if (finished.length === 0) return new Set();
  const rows = await tx.query<{ id: number }>(deleteHeldJobs, [
    finished.map((job) => job.jobId),
    finished.map((job) => job.leaseId),
  ]);
  return new Set(rows.map((row) => row.id));
}

/**
 * Gives jobs back, to run again at `dueAtMs` (unix milliseconds) or at once. Jobs that are no longer ours are
 * left alone.
 */
export async function release(
  db: Queryable,
  leaseId: string,
  jobIds: readonly number[],
  dueAtMs?: number,
): Promise<void> {
  if (jobIds.length === 0) return;
  await db.query(releaseJobs, [jobIds, leaseId, dueAtMs === undefined ? null : new Date(dueAtMs)]);
}

/**
 * Gives back what is leased to us but is not in `knownIds`: claimed by a statement whose answer was lost.
 * Answers how many.
 */
export async function releaseStrays(
  db: Queryable,
  leaseId: string,
  kind: JobKind,
  knownIds: readonly number[],
): Promise<number> {
  return (await db.query(releaseUnknown, [leaseId, kind, knownIds])).length;
}

const deleteJobs = sql('settle', settled('$1', '$2'));
const deleteHeldJobs = sql(
  'end_jobs',
  `delete from jobs
  using unnest($1::bigint[], $2::uuid[]) as f (id, lease_id)
  where jobs.id = f.id and jobs.lease_id = f.lease_id
  returning jobs.id`,
);
const releaseJobs = sql(
  'release',
  'update jobs set lease_id = null, due_at = $3 where id = any ($1::bigint[]) and lease_id is not distinct from $2',
);
// Index jobs_leased (lease_id).
const releaseUnknown = sql(
  'release_strays',
  `update jobs
  set lease_id = null
  where lease_id = $1 and kind = $2 and id <> all ($3::bigint[])
  returning id`,
);

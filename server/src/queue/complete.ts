import { type Queryable, sql } from '../db/client.ts';

/** Thrown when another worker holds the job: the effect of this run must not be recorded. */
export class LeaseLost extends Error {
  constructor(jobIds: readonly number[]) {
    super(`the lease of ${jobIds.length} jobs was lost`);
  }
}

/**
 * Deletes completed jobs in the caller's transaction. Throws `LeaseLost`, and so rolls the transaction back,
 * unless all of them are still held.
 */
export async function complete(tx: Queryable, leaseId: string, jobIds: readonly number[]): Promise<void> {
  if (jobIds.length === 0) return;
  const rows = await tx.query(deleteJobs, [jobIds, leaseId]);
  assertCompleted(jobIds, rows.length);
}

/**
 * The same as a part of a larger statement, given the placeholders of its two values. Pass the number of its
 * rows to `assertCompleted` before the commit.
 */
export function completeSql(jobIds: string, leaseId: string): string {
  // All by primary key. With `lease_id = ` the planner may choose jobs_leased instead, which has an entry for
  // every job that this worker completed since the last vacuum: 250 pages read for ten jobs.
  return `delete from jobs
    where id = any (array(
      select id
      from jobs
      where id = any (${jobIds}::bigint[]) and lease_id is not distinct from ${leaseId}::uuid
      order by id
      for update
    ))
    returning id`;
}

/** Throws `LeaseLost` unless all of the jobs were completed. */
export function assertCompleted(jobIds: readonly number[], count: number): void {
  if (count !== jobIds.length) throw new LeaseLost(jobIds);
}

/**
 * Deletes those of these jobs that are still held, each under its own lease, in the caller's transaction.
 * Returns their ids.
 */
export async function completeHeld(
  tx: Queryable,
  jobs: readonly { jobId: number; leaseId: string }[],
): Promise<ReadonlySet<number>> {
  if (jobs.length === 0) return new Set();
  const rows = await tx.query<{ id: number }>(deleteHeldJobs, [
    jobs.map((job) => job.jobId),
    jobs.map((job) => job.leaseId),
  ]);
  return new Set(rows.map((row) => row.id));
}

/** Those of these jobs that are held under this lease and have not completed. */
export async function stillHeld<One extends { id: number }>(
  db: Queryable,
  leaseId: string,
  jobs: readonly One[],
): Promise<One[]> {
  const rows = await db.query<{ id: number }>(selectHeldJobs, [jobs.map((job) => job.id), leaseId]);
  const held = new Set(rows.map((row) => row.id));
  return jobs.filter((job) => held.has(job.id));
}

// Primary key, as in `completeSql`.
const selectHeldJobs = sql(
  'jobs_still_held',
  'select id from jobs where id = any ($1::bigint[]) and lease_id is not distinct from $2',
);
const deleteJobs = sql('complete_jobs', completeSql('$1', '$2'));
const deleteHeldJobs = sql(
  'complete_held_jobs',
  `delete from jobs
  where id = any (array(
    select jobs.id
    from unnest($1::bigint[], $2::uuid[]) as f (id, lease_id)
    join jobs using (id, lease_id)
    where jobs.id = any ($1::bigint[])
    order by jobs.id
    for update of jobs
  ))
  returning id`,
);

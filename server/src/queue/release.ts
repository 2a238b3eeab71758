import { type Queryable, sql } from '../db/client.ts';
import type { JobKind } from './jobs.ts';

/**
 * Makes jobs ready again, at `dueAtMs` (unix milliseconds) or immediately. Ignores jobs that are no longer
 * held under this lease.
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
 * Releases the jobs that are held under this lease but are not in `knownIds`: the response to the claim was
 * lost. Returns their number.
 */
export async function releaseUnknown(
  db: Queryable,
  leaseId: string,
  kind: JobKind,
  knownIds: readonly number[],
): Promise<number> {
  return (await db.query(releaseUnknownJobs, [leaseId, kind, knownIds])).length;
}

/** Jobs to release as soon as the database can be reached. */
export class ReleaseQueue {
  #waiting: { jobIds: number[]; leaseId: string; dueAtMs: number | undefined }[] = [];

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  get jobIds(): number[] {
    return this.#waiting.flatMap(({ jobIds }) => jobIds);
  }

  add(jobs: readonly { id: number }[], leaseId: string, dueAtMs?: number): void {
    this.#waiting.push({ jobIds: jobs.map((job) => job.id), leaseId, dueAtMs });
  }

  /** Releases all. What fails stays in the queue. */
  async flush(db: Queryable): Promise<void> {
    const all = this.#waiting.splice(0);
    try {
      for (let next = all[0]; next !== undefined; next = all[0]) {
        await release(db, next.leaseId, next.jobIds, next.dueAtMs);
        all.shift();
      }
    } finally {
      this.#waiting.push(...all);
    }
  }
}

// Primary key; see complete.ts for the comparison of the lease.
const releaseJobs = sql(
  'release_jobs',
  `update jobs
  set lease_id = null, due_at = $3
  where id = any ($1::bigint[]) and lease_id is not distinct from $2`,
);
// Index jobs_leased (lease_id).
const releaseUnknownJobs = sql(
  'release_unknown_jobs',
  `update jobs
  set lease_id = null
  where lease_id = $1 and kind = $2 and id <> all ($3::bigint[])
  returning id`,
);

import { type Queryable, sql } from '../db/client.ts';
import type { JobKind } from './jobs.ts';

/** Jobs of one lease to release. */
export interface Released {
  leaseId: string;
  jobIds: readonly number[];
  /** In unix milliseconds. Default: immediately. */
  dueAtMs?: number | undefined;
  /** The attempt does not count: the jobs did not fail. */
  interrupted?: boolean;
}

/** Makes jobs ready again. Ignores those that are no longer held under this lease. */
export async function release(
  db: Queryable,
  { leaseId, jobIds, dueAtMs, interrupted = false }: Released,
): Promise<void> {
  if (jobIds.length === 0) return;
  const dueAt = dueAtMs === undefined ? null : new Date(dueAtMs);
  await db.query(interrupted ? releaseInterrupted : releaseFailed, [jobIds, leaseId, dueAt]);
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
  #waiting: Released[] = [];

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  get jobIds(): number[] {
    return this.#waiting.flatMap(({ jobIds }) => jobIds);
  }

  /** Jobs that failed. */
  add(jobs: readonly { id: number }[], leaseId: string, dueAtMs: number): void {
    this.#waiting.push({ jobIds: jobs.map(({ id }) => id), leaseId, dueAtMs });
  }

  /** Jobs that did not fail, but were interrupted: the database or the lease was lost. */
  addInterrupted(jobs: readonly { id: number }[], leaseId: string, dueAtMs?: number): void {
    this.#waiting.push({ jobIds: jobs.map(({ id }) => id), leaseId, dueAtMs, interrupted: true });
  }

  /** Releases all. What fails stays in the queue. */
  async flush(db: Queryable): Promise<void> {
    const all = this.#waiting.splice(0);
    try {
      for (let next = all[0]; next !== undefined; next = all[0]) {
        await release(db, next);
        all.shift();
      }
    } finally {
      this.#waiting.push(...all);
    }
  }
}

// Primary key; see complete.ts for the comparison of the lease.
const releaseJobs = (set: string) => `update jobs
  set lease_id = null, due_at = $3${set}
  where id = any (array(
    select id
    from jobs
    where id = any ($1::bigint[]) and lease_id is not distinct from $2
    order by id
    for update
  ))`;
const releaseFailed = sql('release_jobs', releaseJobs(''));
// The next attempt is not the first one: parts may be done.
const releaseInterrupted = sql(
  'release_interrupted_jobs',
  releaseJobs(', attempt = greatest(attempt - 1, 1)'),
);
// Index jobs_leased (lease_id).
const releaseUnknownJobs = sql(
  'release_unknown_jobs',
  `update jobs
  set lease_id = null
  where id = any (array(
    select id
    from jobs
    where id = any (array(
        select id from jobs where lease_id = $1 and kind = $2 and id <> all ($3::bigint[])
      ))
      and lease_id = $1
    order by id
    for update
  ))
  returning id`,
);

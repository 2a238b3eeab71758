import type { Database, Queryable } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import { complete } from './complete.ts';
import { enqueue } from './enqueue.ts';
import { type Handler, ONE_JOB } from './handler.ts';
import type { Job, JobKind, JobPayloads } from './jobs.ts';

// A delivery that was decided before the change may be deferred after it, by a job that is committed behind
// the first pass. A second pass makes that job due.
const SECOND_PASS_MS = 3_000;

/** A chunk of jobs was made due. */
export interface MadeDue<Payload> {
  /** Whether it was the last of this pass. */
  isLast: boolean;
  /** The payload for the next chunk, or for the next pass. */
  next: Payload;
}

/** The kinds of jobs that make other jobs due. */
type Waking = 'cancel' | 'wake_waiting';

/**
 * Makes jobs due that need not wait any longer, a chunk in each transaction, in two passes. `dueKinds` are
 * the kinds of those jobs.
 */
export function makeDueHandler<Kind extends Waking>(
  { db, clock }: { db: Database; clock: Clock },
  dueKinds: readonly JobKind[],
  makeDue: (tx: Queryable, job: Job<Kind>) => Promise<MadeDue<JobPayloads[Kind]>>,
): Handler<Kind> {
  function runChunk(job: Job<Kind>, leaseId: string): Promise<void> {
    const { id, kind, projectId, priority, weight, payload } = job;
    return db.transaction(async (tx) => {
      await complete(tx, leaseId, [id]);
      const { isLast, next } = await makeDue(tx, job);
      const following = { kind, projectId, priority, weight };
      if (!isLast) await enqueue(tx, [{ ...following, payload: next }]);
      else if (!payload.second_pass) {
        const dueAtMs = clock.now() + SECOND_PASS_MS;
        await enqueue(tx, [{ ...following, payload: { ...next, second_pass: true }, dueAtMs }]);
      }
    });
  }
  return {
    slots: 1,
    slotsPerPartition: 1,
    ...ONE_JOB,
    async run(jobs, leaseId) {
      for (const job of jobs) await runChunk(job, leaseId);
      return [...dueKinds, ...jobs.map(({ kind }) => kind)];
    },
    discard: (job, leaseId) => complete(db, leaseId, [job.id]),
  };
}

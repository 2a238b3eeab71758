import { isDatabaseUnavailable } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { backoff } from './backoff.ts';
import { LeaseLost } from './complete.ts';
import type { Batch, Handler } from './handler.ts';
import type { Job, JobKind } from './jobs.ts';
import type { ReleaseQueue } from './release.ts';

// A job that fails because of a bug is retried for up to two and a quarter hours before it is discarded.
const MAX_ATTEMPTS = 8;
// A batch that failed because of the database is retried immediately, and then after a pause that grows up to
// this limit. So a full disk is not written to without end.
const MAX_PAUSE_MS = 5_000;

/**
 * Runs a batch, and decides what happens to its jobs if that fails: one that fails must not hold up the jobs
 * that were claimed with it. Never rejects.
 */
export async function execute(deps: Executor, batch: Batch, progress: () => void): Promise<void> {
  try {
    await deps.handler.run(batch.jobs, batch.leaseId, progress);
  } catch (error) {
    await afterFailure(deps, batch, progress, error);
  }
}

export interface Executor {
  handler: Handler;
  kind: JobKind;
  clock: Clock;
  log: Logger;
  releases: ReleaseQueue;
}

async function afterFailure(
  deps: Executor,
  { jobs, leaseId }: Batch,
  progress: () => void,
  error: unknown,
): Promise<void> {
  const { kind, log, releases } = deps;
  if (error instanceof LeaseLost) {
    log.warn({ kind, jobs: jobs.length }, 'a lease was lost; the worker that holds the jobs now does them');
    // Some jobs of the batch may still be held.
    releases.add(jobs, leaseId);
  } else if (isDatabaseUnavailable(error)) {
    log.warn({ err: error, kind, jobs: jobs.length }, 'the database failed during a batch, which is retried');
    for (const [isRetry, group] of Map.groupBy(jobs, ({ attempt }) => attempt > 1)) {
      const pauseMs = Math.min(backoff(Math.min(...group.map(({ attempt }) => attempt))), MAX_PAUSE_MS);
      releases.add(group, leaseId, isRetry ? deps.clock.now() + pauseMs : undefined);
    }
  } else if (jobs.length > 1) {
    for (const job of jobs)
      await execute(deps, { jobs: [{ ...job, attempt: job.attempt + 1 }], leaseId }, progress);
  } else {
    for (const job of jobs) await retryOrDiscard(deps, job, leaseId, error);
  }
}

async function retryOrDiscard(
  { handler, kind, clock, log, releases }: Executor,
  job: Job,
  leaseId: string,
  error: unknown,
): Promise<void> {
  const { id, attempt, projectId } = job;
  log.error({ err: error, kind, job: id, attempt, projectId }, 'a job failed');
  if (attempt >= MAX_ATTEMPTS) {
    try {
      await handler.discard(job, leaseId, error);
      return;
    } catch (discardError) {
      log.error({ err: discardError, kind, job: id }, 'a job could not be discarded');
    }
  }
  releases.add([job], leaseId, clock.now() + backoff(attempt));
}

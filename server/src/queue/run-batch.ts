import { isDatabaseUnavailable, type Queryable } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { backoff } from './backoff.ts';
import { LeaseLost, stillHeld } from './complete.ts';
import { WorkerEnded } from './discard-reason.ts';
import type { Batch, Handler } from './handler.ts';
import { jobFacts } from './job-facts.ts';
import type { Job, JobKind } from './jobs.ts';
import type { ReleaseQueue } from './release.ts';

// A job that fails because of a bug is retried for up to two and a quarter hours before it is discarded.
const MAX_ATTEMPTS = 8;
// A job that has ended this many processes is discarded: it would end each one that runs it.
const MAX_CUT_OFFS = 8;
// A batch that failed because of the database is retried immediately, and then after a pause of up to this
// limit. So a full disk is not written to without end.
const MAX_PAUSE_MS = 5_000;

export interface RunDeps {
  db: Queryable;
  handler: Handler;
  kind: JobKind;
  clock: Clock;
  log: Logger;
  releases: ReleaseQueue;
}

/**
 * Runs a batch, and decides what happens to the jobs that fail: they must not hold up those that were claimed
 * with them, nor make those run again that have completed. Returns what `Handler.run` returns. Never rejects.
 */
export async function runBatch(
  deps: RunDeps,
  { jobs, leaseId }: Batch,
  heartbeat: () => void,
): Promise<readonly JobKind[]> {
  const { handler } = deps;
  const batch = { jobs: jobs.filter(({ cutOffs }) => cutOffs < MAX_CUT_OFFS), leaseId };
  for (const job of jobs)
    if (job.cutOffs >= MAX_CUT_OFFS)
      // The attempt does not count, because it does not run.
      await discard(deps, { ...job, attempt: job.attempt - 1 }, leaseId, new WorkerEnded(job));
  if (batch.jobs.length === 0) return [];
  const running = handler.run(batch.jobs, leaseId, heartbeat);
  return running.catch((error: unknown) => afterFailure(deps, batch, heartbeat, error));
}

async function afterFailure(
  deps: RunDeps,
  { jobs, leaseId }: Batch,
  heartbeat: () => void,
  error: unknown,
): Promise<readonly JobKind[]> {
  const { handler, kind, clock, log, releases } = deps;
  const [job] = jobs;
  if (error instanceof LeaseLost) {
    log.warn({ kind, jobs: jobs.length }, 'a lease was lost; the worker that holds the jobs now does them');
    // Some jobs of the batch may still be held.
    releases.addInterrupted(jobs, leaseId);
  } else if (isDatabaseUnavailable(error)) {
    log.warn({ err: error, kind, jobs: jobs.length }, 'the database failed during a batch, which is retried');
    for (const [isRetry, group] of Map.groupBy(jobs, ({ attempt }) => attempt > 1)) {
      const pauseMs = Math.ceil(MAX_PAUSE_MS * Math.random());
      releases.addInterrupted(group, leaseId, isRetry ? clock.now() + pauseMs : undefined);
    }
  } else if (jobs.length > 1) {
    log.warn({ err: error, kind, jobs: jobs.length }, 'a batch failed; its jobs run one by one');
    // If the database cannot be read, all are released. That changes nothing for jobs that have completed.
    const held = await stillHeld(deps.db, leaseId, jobs).catch(() => undefined);
    if (held === undefined) releases.addInterrupted(jobs, leaseId);
    const queued: JobKind[] = [];
    for (const one of held ?? []) {
      const alone = { jobs: [{ ...one, attempt: one.attempt + 1 }], leaseId };
      const running = handler.run(alone.jobs, leaseId, heartbeat);
      queued.push(
        ...(await running.catch((failure: unknown) => afterFailure(deps, alone, heartbeat, failure))),
      );
    }
    return queued;
  } else if (job !== undefined) await retryOrDiscard(deps, job, leaseId, error);
  return [];
}

async function retryOrDiscard(deps: RunDeps, job: Job, leaseId: string, error: unknown): Promise<void> {
  const { clock, log, releases } = deps;
  // Those that ended with their worker say nothing about this error.
  const attempt = Math.max(job.attempt - job.cutOffs, 1);
  log.error({ err: error, ...attemptsOf(job) }, 'a job failed');
  if (attempt >= MAX_ATTEMPTS) await discard(deps, job, leaseId, error);
  else releases.add([job], leaseId, clock.now() + backoff(attempt));
}

async function discard(deps: RunDeps, job: Job, leaseId: string, error: unknown): Promise<void> {
  const { handler, clock, log, releases } = deps;
  try {
    await handler.discard(job, leaseId, error);
    log.error({ err: error, ...attemptsOf(job) }, 'a job was discarded');
  } catch (discardError) {
    log.error({ err: discardError, ...attemptsOf(job) }, 'a job could not be discarded');
    releases.add([job], leaseId, clock.now() + backoff(job.attempt));
  }
}

function attemptsOf(job: Job) {
  return { ...jobFacts(job), attempts: job.attempt, cutOffs: job.cutOffs };
}

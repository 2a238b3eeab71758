import { allEnded } from '../../../lib/all-ended.ts';
import { complete } from '../../../queue/complete.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import type { JobKind } from '../../../queue/jobs.ts';
import type { Call } from '../runs/jobs.ts';
import type { WorkflowContext } from '../steps/command.ts';
import { type Advanced, idleTurn } from './advance.ts';
import { closeDigest, closeDigests } from './digests.ts';
import { dateLateTurns, loadRuns, type RunJob } from './load.ts';
import { recordTurns } from './record.ts';
import { takeTurn } from './take-turn.ts';

/** What the handlers need. The acceptor is made after the worker. */
type Deps = Omit<WorkflowContext, 'acceptor'> & { acceptor: () => WorkflowContext['acceptor'] };

/** Continues runs, many with a few statements. */
export function runHandler(deps: Deps): Handler<'run_workflow'> {
  return {
    slots: 2,
    slotsPerPartition: 2,
    gatherBelow: 100,
    maxJobs: 128,
    maxWeight: 2_048,
    maxPartitions: 32,
    run: (jobs, leaseId) => continueRuns(deps, jobs, leaseId),
    discard: (job, leaseId, error) => discard(deps, job, leaseId, error),
  };
}

/**
 * Continues runs whose next step waits for another host, each on its own. The queue is fair over hosts, and a
 * request that waits for more than a second frees its slot: a host that hangs delays requests to itself only.
 */
export function callHandler(deps: Deps): Handler<'call_workflow'> {
  return {
    slots: 32,
    slotsPerPartition: 8,
    beyond: { maxWeight: 1_024, silentMs: 1_000, silentPerPartition: 24 },
    ...ONE_JOB,
    run: (jobs, leaseId) => continueRuns(deps, jobs, leaseId),
    discard: (job, leaseId, error) => discard(deps, job, leaseId, error),
  };
}

async function continueRuns(
  deps: Deps,
  jobs: readonly RunJob[],
  leaseId: string,
): Promise<readonly JobKind[]> {
  const context = { ...deps, acceptor: deps.acceptor() };
  const runs = await loadRuns(deps.db, jobs);
  await dateLateTurns(deps.db, leaseId, { jobs, runs, nowMs: deps.clock.now() });
  await closeDigests(deps.db, runs, deps.clock.now());
  // Runs that were cancelled, or whose turn was recorded before a crash, are left out. A run that an event
  // continued may be here twice, because the job of its timeout stays: each turn is for its own job.
  const turns = await allEnded(
    jobs.flatMap((job) => {
      const run = runs.get(job.payload.run_id);
      if (run?.turn !== job.payload.turn) return [];
      return [takeTurn(context, run, { calls: callsOf(job) }, job.payload.traceparent)];
    }),
  );
  return record(deps, leaseId, jobs, turns);
}

function callsOf({ payload, partitionKey }: RunJob): Call | undefined {
  return 'attempt' in payload ? { attempt: payload.attempt, partitionKey } : undefined;
}

async function record(
  { db, clock, acceptor }: Pick<Deps, 'db' | 'clock' | 'acceptor'>,
  leaseId: string,
  jobs: readonly RunJob[],
  turns: readonly Advanced[],
): Promise<readonly JobKind[]> {
  const broadcasts = turns.flatMap(({ broadcast }) => broadcast ?? []);
  return acceptor().acceptIn(broadcasts, { once: 'by id' }, (accept) =>
    db.transaction(async (tx) => {
      await complete(
        tx,
        leaseId,
        jobs.map(({ id }) => id),
      );
      return recordTurns(tx, { jobs, turns, nowMs: clock.now(), accept });
    }),
  );
}

/** Records that a run failed because of a bug. */
async function discard(deps: Deps, job: RunJob, leaseId: string, cause: unknown): Promise<void> {
  const error = discardReason(job, cause);
  const run = (await loadRuns(deps.db, [job])).get(job.payload.run_id);
  if (run !== undefined) await closeDigest(deps.db, run.id);
  const failed = run === undefined ? [] : [idleTurn(run, { kind: 'fail', error })];
  await record(deps, leaseId, [job], failed);
}

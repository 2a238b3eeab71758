import type { Database } from '../../../db/client.ts';
import { isTracing, traced } from '../../../lib/tracing.ts';
import { type Handler, ONE_JOB } from '../../../queue/handler.ts';
import type { JobKind } from '../../../queue/jobs.ts';
import type { WorkflowContext } from '../steps/command.ts';
import { type Advanced, advance, type Calls } from './advance.ts';
import { closeDigest, closeDigests } from './digests.ts';
import { dateLateTurns, type LoadedRun, loadRuns, type RunJob } from './load.ts';
import { markBroadcasts } from './mark-broadcasts.ts';
import { recordTurns } from './record.ts';

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
    discard: (job, leaseId) => discard(deps, job, leaseId),
  };
}

/** Continues runs whose next step waits for another host, each on its own. */
export function callHandler(deps: Deps): Handler<'call_workflow'> {
  return {
    slots: 32,
    slotsPerPartition: 8,
    ...ONE_JOB,
    run: (jobs, leaseId) => continueRuns(deps, jobs, leaseId),
    discard: (job, leaseId) => discard(deps, job, leaseId),
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
  await markBroadcasts(deps.db, [...runs.values()]);
  // Runs that were cancelled, or whose turn was recorded before a crash, are left out. A run that an event
  // continued may be here twice, because the job of its timeout stays: each turn is for its own job.
  const results = await Promise.allSettled(
    jobs.flatMap((job) => {
      const run = runs.get(job.payload.run_id);
      return run?.turn === job.payload.turn ? [takeTurn(context, run, job)] : [];
    }),
  );
  // The jobs may be claimed again at once, so no turn may still be running.
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  const turns = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  return record(deps, leaseId, jobs, turns);
}

/** One turn, as a part of the trace that started the run. */
function takeTurn(context: WorkflowContext, run: LoadedRun, job: RunJob): Promise<Advanced> {
  if (!isTracing()) return advance(context, run, callsOf(job));
  const { projectId, payload } = job;
  const attributes = {
    'belfry.project.id': projectId,
    'belfry.workflow.run.id': run.id,
    'belfry.workflow.run.turn': run.turn,
  };
  return traced(
    'run workflow',
    { kind: 'consumer', parent: payload.traceparent, attributes },
    async (span) => {
      const advanced = await advance(context, run, callsOf(job));
      if (advanced.next.kind === 'fail') span?.fail('failed');
      return advanced;
    },
  );
}

function callsOf({ payload }: RunJob): Calls {
  return 'attempt' in payload ? { attempt: payload.attempt } : undefined;
}

async function record(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Deps['clock'] },
  leaseId: string,
  jobs: readonly RunJob[],
  turns: readonly Advanced[],
): Promise<readonly JobKind[]> {
  await db.transaction((tx) => recordTurns(tx, leaseId, { jobs, turns, nowMs: clock.now() }));
  return ['run_workflow', 'call_workflow'];
}

/** Records that a run failed because of a bug. */
async function discard(deps: Deps, job: RunJob, leaseId: string): Promise<void> {
  const run = (await loadRuns(deps.db, [job])).get(job.payload.run_id);
  if (run !== undefined) await closeDigest(deps.db, run.id);
  const failed: Advanced[] =
    run === undefined
      ? []
      : [
          {
            ...{ run, place: run.place, stage: run.stage, steps: [], data: run.data },
            broadcastId: run.broadcast_id,
            added: 0,
            hasActed: false,
            prepared: null,
            next: { kind: 'fail', error: 'internal error' },
          },
        ];
  await record(deps, leaseId, [job], failed);
}

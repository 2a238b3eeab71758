import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { activeSpan } from '../../../lib/tracing.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import { deleteDigests } from './digests.ts';
import { type NewRunEvent, recordRunEvents } from './events.ts';
import { runJob } from './jobs.ts';

interface ChangeContext {
  db: Pick<Database, 'transaction'>;
  clock: Clock;
}

/** Aborts a run that has not ended. Throws `not_found`, and `validation_failed` for one that has. */
export function cancelRun(context: ChangeContext, projectId: string, id: string): Promise<void> {
  return change(
    context,
    { projectId, id, statement: abortRun, problem: 'the run has ended' },
    async (tx, run) => {
      const steps = await tx.query<AbortedStep>(abortWaitingStep, [id, new Date(context.clock.now())]);
      await deleteDigests(tx, [id]);
      const subject = subjectOf(run);
      await recordRunEvents(tx, [
        ...steps.map((payload) => ({ ...subject, type: 'workflow.run.step' as const, payload })),
        { ...subject, type: 'workflow.run.aborted', log: CANCELLED },
      ]);
    },
  );
}

/** Continues a run that is paused. Throws `not_found`, and `validation_failed` for one that is not. */
export function resumeRun(context: ChangeContext, projectId: string, id: string): Promise<void> {
  return change(
    context,
    { projectId, id, statement: resumePaused, problem: 'the run is not paused' },
    (tx, run) => continueRun(tx, run, 'workflow.run.resumed'),
  );
}

/** Continues a run that failed, with the step that failed. Throws as `resumeRun` does. */
export function rerunFailed(context: ChangeContext, projectId: string, id: string): Promise<void> {
  return change(
    context,
    { projectId, id, statement: continueFailed, problem: 'the run has not failed' },
    (tx, run) => continueRun(tx, run, 'workflow.run.rerun'),
  );
}

interface Changed {
  id: string;
  project_id: string;
  workflow_key: string;
  user_id: string | null;
  turn: number;
  size: number;
}

async function change(
  { db, clock }: ChangeContext,
  {
    projectId,
    id,
    statement,
    problem,
  }: { projectId: string; id: string; statement: typeof abortRun; problem: string },
  afterwards: (tx: Queryable, run: Changed) => Promise<void>,
): Promise<void> {
  await db.transaction(async (tx) => {
    const [run] = await tx.query<Changed>(statement, [id, projectId, new Date(clock.now())]);
    if (run !== undefined) return afterwards(tx, run);
    const [found] = await tx.query(runExists, [id, projectId]);
    if (found === undefined) throw new ClientError('not_found');
    throw new ClientError('validation_failed', [
      `Param 'run_id' names a run that cannot be changed: ${problem}`,
    ]);
  });
}

async function continueRun(tx: Queryable, changed: Changed, type: NewRunEvent['type']): Promise<void> {
  const { id, project_id: projectId, turn, size } = changed;
  const run = { id, projectId, turn, size, traceparent: activeSpan()?.traceparent };
  await recordRunEvents(tx, [{ ...subjectOf(changed), type }]);
  await enqueue(tx, [runJob(run, { priority: priorityFor(1) })]);
}

function subjectOf({ id: runId, project_id: projectId, workflow_key: key, user_id: userId }: Changed) {
  return { projectId, runId, key, userId };
}

/** The payload of the event of a step that waited when its run was cancelled. */
interface AbortedStep extends Record<string, unknown> {
  place: string;
  command: string;
  state: string;
}

const CANCELLED = 'cancelled';
const RETURNING = 'id, project_id, workflow_key, user_id, turn, size';

// Primary keys, all. A new turn makes the job of the former one void.
const abortRun = sql(
  'cancel_workflow_run',
  `update workflow_runs
  set state = 4, turn = turn + 1, due_at = null, waits_for = null, prepared = null,
    error = '${CANCELLED}', completed_at = $3
  where id = $1 and project_id = $2 and state < 3
  returning ${RETURNING}`,
);
const resumePaused = sql(
  'resume_workflow_run',
  `update workflow_runs
  set state = 1, turn = turn + 1, due_at = $3
  where id = $1 and project_id = $2 and state = 2 and due_at is null
  returning ${RETURNING}`,
);
const continueFailed = sql(
  'rerun_workflow_run',
  `update workflow_runs
  set state = 1, turn = turn + 1, due_at = $3, error = null, completed_at = null
  where id = $1 and project_id = $2 and state = 5
  returning ${RETURNING}`,
);
const abortWaitingStep = sql(
  'abort_workflow_step',
  `update workflow_run_steps
  set state = 'aborted', completed_at = $2
  where run_id = $1 and state = 'waiting'
  returning place, command, state`,
);
const runExists = sql('workflow_run_exists', 'select from workflow_runs where id = $1 and project_id = $2');

import { type Database, sql } from '../../src/db/client.ts';
import { runHandler } from '../../src/domain/workflows/engine/handlers.ts';
import { newId } from '../../src/lib/ids.ts';
import type { Job } from '../../src/queue/jobs.ts';
import type { ApiResponse, TestProject, TestService } from './service.ts';
import { until } from './service.ts';

/** The states of runs, as published clients number them. */
export const STATE = { enqueued: 0, running: 1, waiting: 2, completed: 3, aborted: 4, failed: 5 } as const;

export interface StepOfTest {
  command: string;
  if?: string | null;
  input?: Record<string, unknown> | null;
}

/** A run as the API shows it. */
export type ShownRun = ApiResponse['body'];

/** Saves a workflow and starts a run. Returns the id of the run. */
export async function startRun(
  project: TestProject,
  steps: readonly StepOfTest[],
  input: Record<string, unknown> = {},
  key = 'flow',
): Promise<string> {
  const saved = await project.call('PUT', '/workflows', { key, steps });
  if (saved.status !== 200) throw new Error(saved.text);
  const started = await project.call('POST', '/workflows/runs', { key, input });
  if (started.status !== 200) throw new Error(started.text);
  return started.body.id;
}

export const runOf = async ({ call }: TestProject, id: string): Promise<ShownRun> =>
  (await call('GET', `/workflows/runs/${id}`)).body;

/** Waits until a run is in one of these states, and returns it. */
export const inState = (project: TestProject, id: string, ...states: number[]): Promise<ShownRun> =>
  until(
    () => runOf(project, id),
    (run) => states.includes(run.status.state),
  );

/** Waits until a run has ended, and returns it. */
export const ended = (project: TestProject, id: string): Promise<ShownRun> =>
  inState(project, id, STATE.completed, STATE.aborted, STATE.failed);

/** The place, the command and the state of each step. */
export const stepsOf = (run: ShownRun): string[] =>
  run.steps.map(
    ({ place, command, state }: { place: string; command: string; state: string }) =>
      `${place} ${command} ${state}`,
  );

/** A turn of a run, as another server has claimed it. */
export interface ClaimedTurn {
  take(): Promise<unknown>;
  discard(): Promise<void>;
}

/**
 * Claims the job of a run that waits. `before` is called before each statement of the handler that is not
 * part of a transaction, with its name, and before each transaction, with the name `transaction`.
 */
export async function claimTurn(
  { http: { context } }: TestService,
  runId: string,
  before: (name: string) => Promise<unknown> = async () => {},
): Promise<ClaimedTurn> {
  const leaseId = newId();
  const query = <Row>(text: string, values: unknown[]) => context.db.query<Row>(sql('', text), values);
  await query("insert into leases (id, node, expires_at) values ($1, 'test', 'infinity')", [leaseId]);
  const [row] = await query<{ id: number; project_id: string; payload: string }>(
    `update jobs
    set lease_id = $1
    where kind = 'run_workflow' and payload ->> 'run_id' = $2
    returning id, project_id, payload`,
    [leaseId, runId],
  );
  if (row === undefined) throw new Error(`run ${runId} has no job`);
  const { id, project_id: projectId, payload } = row;
  const db: Database = {
    ...context.db,
    query: async (statement, values) => {
      await before(statement.name);
      return context.db.query(statement, values);
    },
    transaction: async (work) => {
      await before('transaction');
      return context.db.transaction(work);
    },
  };
  const handler = runHandler({ ...context, db, acceptor: () => context.acceptor });
  const job: Job<'run_workflow'> = {
    ...{ id, projectId, partitionKey: projectId, payload: JSON.parse(payload) },
    ...{ kind: 'run_workflow', priority: 0, weight: 1, attempt: 1, cutOffs: 0 },
  };
  return {
    take: () => handler.run([job], leaseId, () => {}),
    discard: () => handler.discard(job, leaseId, new Error('a bug')),
  };
}

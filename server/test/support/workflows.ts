import type { ApiResponse, TestProject } from './service.ts';
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

import type { NewJob } from '../../../queue/jobs.ts';

// So many characters weigh as much as another run.
const CHARACTERS_PER_WEIGHT = 4_096;

/** The run that a job is for. */
export interface RunToContinue {
  id: string;
  projectId: string;
  turn: number;
  /** Characters of its input and outputs. */
  size: number;
}

/** Returns the job of a turn of a run. `calls` is for a step that waits for another host. */
export function runJob(
  { id, projectId, turn, size }: RunToContinue,
  {
    priority,
    dueAtMs,
    calls,
  }: { priority: number; dueAtMs?: number | undefined; calls?: { attempt: number } },
): NewJob {
  const common = {
    projectId,
    priority,
    weight: 1 + Math.floor(size / CHARACTERS_PER_WEIGHT),
    ...(dueAtMs === undefined ? {} : { dueAtMs }),
  };
  return calls === undefined
    ? { ...common, kind: 'run_workflow', payload: { run_id: id, turn } }
    : { ...common, kind: 'call_workflow', payload: { run_id: id, turn, attempt: calls.attempt } };
}

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
  /** The trace context that the job continues. */
  traceparent?: string | undefined;
}

/** Returns the job of a turn of a run. `calls` is for a step that waits for another host. */
export function runJob(
  { id, projectId, turn, size, traceparent }: RunToContinue,
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
  const payload = { run_id: id, turn, ...(traceparent === undefined ? {} : { traceparent }) };
  return calls === undefined
    ? { ...common, kind: 'run_workflow', payload }
    : { ...common, kind: 'call_workflow', payload: { ...payload, attempt: calls.attempt } };
}

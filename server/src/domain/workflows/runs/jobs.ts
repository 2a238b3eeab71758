import { createHash } from 'node:crypto';
import type { NewJob } from '../../../queue/jobs.ts';

// This many characters weigh as much as another run.
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

/** A step that waits for another host. */
export interface Call {
  /** The attempts before this one. */
  attempt: number;
  partitionKey: string;
}

/** Returns the job of a turn of a run. */
export function runJob(
  { id, projectId, turn, size, traceparent }: RunToContinue,
  { priority, dueAtMs, calls }: { priority: number; dueAtMs?: number | undefined; calls?: Call | undefined },
): NewJob {
  const common = { projectId, priority, weight: 1 + Math.floor(size / CHARACTERS_PER_WEIGHT), dueAtMs };
  const payload = { run_id: id, turn, traceparent };
  return calls === undefined
    ? { ...common, kind: 'run_workflow', payload }
    : {
        ...common,
        kind: 'call_workflow',
        partitionKey: calls.partitionKey,
        payload: { ...payload, attempt: calls.attempt },
      };
}

/** Returns the partition key of the calls of a project to a host. The queue is fair over them. */
export function partitionOfCalls(projectId: string, origin: string): string {
  return createHash('sha256').update(`${projectId} ${origin}`).digest('hex').slice(0, 32);
}

/** What jobs there are, and what each is told. A job's payload is JSON: ids and numbers, never content or secrets. */
export interface JobPayloads {
  /** Turn a broadcast into notifications and deliveries. */
  fan_out: { broadcast_id: string };
  /** Bring a broadcast to these users over one channel. `attempt` counts the sends before this one. */
  deliver: {
    broadcast_id: string;
    channel: string;
    user_ids: readonly string[];
    attempt: number;
    first_attempt_ms: number;
  };
}

export type JobKind = keyof JobPayloads;

export const JOB_KINDS: readonly JobKind[] = ['fan_out', 'deliver'];

/** A job as a worker has claimed it. */
export interface Job<Kind extends JobKind = JobKind> {
  id: number;
  kind: Kind;
  projectId: string;
  priority: number;
  /** Recipients in it: the measure of how much work it is. */
  weight: number;
  /** How often it was claimed, this time included. */
  attempt: number;
  payload: JobPayloads[Kind];
}

/** A job to be. */
export interface NewJob<Kind extends JobKind = JobKind> {
  kind: Kind;
  projectId: string;
  priority: number;
  weight: number;
  payload: JobPayloads[Kind];
  /** When it may run, in unix milliseconds; at once when left out. */
  dueAtMs?: number;
}

/** Small work goes before bulk: one recipient's message never waits for a campaign of the same project. */
export function priorityFor(recipients: number): number {
  if (recipients <= 10) return 0;
  return recipients <= 100 ? 1 : 2;
}

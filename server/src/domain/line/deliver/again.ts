import type { Job, NewJob, Progress } from '../../../queue/jobs.ts';
import type { Again } from './conclude.ts';

/** What is left of a user's delivery. */
export type LeftOver = Again & { userId: string };

// Deliveries that wait for the same second are one job.
const HELD_UNTIL_MS = 1_000;

/**
 * The jobs that do what a job has left, one for all deliveries that are due at the same time after as many
 * attempts. Pure.
 */
export function again(
  job: Pick<Job<'deliver'>, 'projectId' | 'priority' | 'weight' | 'payload'>,
  leftOver: readonly LeftOver[],
  nowMs: number,
): NewJob<'deliver'>[] {
  const { progress: _done, awaited: _now, user_ids: all, ...payload } = job.payload;
  const waiting = leftOver.map((one) => waitingOf(one, nowMs));
  const groups = Map.groupBy(waiting, ({ attempt, dueAtMs }) => `${attempt} ${dueAtMs}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const progress = Object.fromEntries(group.map((one) => [one.userId, one.progress]));
    return {
      kind: 'deliver',
      projectId: job.projectId,
      priority: job.priority,
      weight: job.weight - all.length + group.length,
      dueAtMs: first.dueAtMs,
      payload: {
        ...payload,
        user_ids: group.map(({ userId }) => userId),
        attempt: first.attempt,
        back: 'begun',
        // An address or a number is no target by itself: the user's at that time counts.
        ...(payload.channel === 'email' || payload.channel === 'sms' ? {} : { progress }),
      },
    };
  });
}

interface Waiting {
  userId: string;
  attempt: number;
  dueAtMs: number;
  progress: Progress;
}

function waitingOf({ userId, attempt, left, ...figures }: LeftOver, nowMs: number): Waiting {
  const times = Object.fromEntries(
    Object.entries(left).map(([id, due]) => [
      id,
      'delayMs' in due ? nowMs + due.delayMs : Math.ceil(due.atMs / HELD_UNTIL_MS) * HELD_UNTIL_MS,
    ]),
  );
  return {
    userId,
    attempt,
    dueAtMs: Math.min(...Object.values(times)),
    progress: { left: times, ...figures },
  };
}

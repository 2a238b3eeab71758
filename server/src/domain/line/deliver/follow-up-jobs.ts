import type { Job, NewJob, Progress } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import { CLOSED_TEXTS, type Closed } from '../../setup/delivery-windows/closed-until.ts';
import type { Remaining } from './delivery.ts';

/** A job as far as its follow-up jobs are made of it. */
type Ended = Pick<Job<'deliver'>, 'projectId' | 'priority' | 'weight' | 'payload'>;

// Deliveries that are deferred to the same second are one job.
const DEFERRAL_GRAIN_MS = 1_000;
// Deliveries that wait for an opening are spread over the minutes after it. No window is shorter than twice
// that.
const SPREAD_MS = 300_000;

/**
 * The jobs that do what a job leaves to be done: one for all deliveries that are due at the same time after
 * as many attempts. Pure.
 */
export function retryJobs(
  job: Ended,
  remaining: readonly (Remaining & { userId: string })[],
  nowMs: number,
): NewJob<'deliver'>[] {
  const { progress: _done, awaited: _now, closed: _open, user_ids: all, ...payload } = job.payload;
  const due = remaining.map((one) => dueOf(one, nowMs));
  const groups = Map.groupBy(due, ({ attempt, dueAtMs }) => `${attempt} ${dueAtMs}`);
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
        // The address or the numbers are those that the user has when the job is due.
        ...(payload.channel === 'email' || payload.channel === 'sms' ? {} : { progress }),
      },
    };
  });
}

function dueOf({ userId, attempt, left, ...counts }: Remaining & { userId: string }, nowMs: number) {
  const times = Object.fromEntries(
    Object.entries(left).map(([id, due]) => [
      id,
      'delayMs' in due ? nowMs + due.delayMs : Math.ceil(due.atMs / DEFERRAL_GRAIN_MS) * DEFERRAL_GRAIN_MS,
    ]),
  );
  const progress: Progress = { left: times, ...counts };
  return { userId, attempt, dueAtMs: Math.min(...Object.values(times)), progress };
}

/**
 * The jobs for the deliveries that wait for a window or for the end of quiet hours, and their events: one for
 * all that wait for the same opening, due some time after it. Their time to live begins then. For deliveries
 * that were attempted before it continues then: otherwise they would be deferred from night to night without
 * end. Pure, apart from `random`.
 */
export function windowJobs(
  { projectId, priority, weight, payload }: Ended,
  /** By user. */
  openings: ReadonlyMap<string, Closed>,
  nowMs: number,
  random: () => number = Math.random,
): { jobs: NewJob<'deliver'>[]; events: NewEvent[] } {
  const jobs: NewJob<'deliver'>[] = [];
  const events: NewEvent[] = [];
  const {
    user_ids: all,
    progress,
    broadcast_id: broadcastId,
    channel,
    back = 'waited',
    traceparent,
  } = payload;
  const groups = Map.groupBy(openings, ([, { untilMs, code }]) => `${untilMs} ${code}`);
  for (const group of groups.values()) {
    const [[, { untilMs, code }]] = group as [[string, Closed]];
    const userIds = group.map(([userId]) => userId);
    const dueAtMs = untilMs + Math.floor(random() * SPREAD_MS);
    const attempted = userIds.flatMap((userId) => {
      const one = progress?.[userId];
      return one === undefined ? [] : [[userId, one] as const];
    });
    jobs.push({
      kind: 'deliver',
      projectId,
      priority,
      weight: weight - all.length + userIds.length,
      dueAtMs,
      payload: {
        broadcast_id: broadcastId,
        channel,
        user_ids: userIds,
        attempt: payload.attempt,
        first_attempt_ms: back === 'begun' ? payload.first_attempt_ms + dueAtMs - nowMs : dueAtMs,
        back,
        closed: code,
        ...(payload.replay === undefined ? {} : { replay: payload.replay }),
        ...(traceparent === undefined ? {} : { traceparent }),
        ...(attempted.length === 0 ? {} : { progress: Object.fromEntries(attempted) }),
      },
    });
    events.push({
      projectId,
      type: 'delivery.scheduled',
      broadcastId,
      userIds,
      details: {
        code,
        log: CLOSED_TEXTS[code],
        level: 'info',
        context: { channel },
        payload: { due_at: new Date(dueAtMs).toISOString() },
      },
    });
  }
  return { jobs, events };
}

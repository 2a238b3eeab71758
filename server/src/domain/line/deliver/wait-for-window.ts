import type { Job, NewJob } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';

/** What is to be written of deliveries that wait for their window. */
export interface Waiting {
  jobs: NewJob<'deliver'>[];
  events: NewEvent[];
}

// What opens at eight o'clock for all users of a zone comes within the minutes after it. No window is shorter
// than twice that.
const SPREAD_MS = 300_000;

/**
 * The deliveries of a job that have to wait, as jobs of their own: one for all that wait for the same
 * opening, due a while after it. Their time to live begins then; of those that were begun it goes on then, or
 * one night after another they would never end. `openings` are in unix milliseconds, by user. Pure but for
 * chance.
 */
export function waitForWindow(
  job: Pick<Job<'deliver'>, 'projectId' | 'priority' | 'weight' | 'payload'>,
  openings: ReadonlyMap<string, number>,
  nowMs: number,
  random: () => number = Math.random,
): Waiting {
  const waiting: Waiting = { jobs: [], events: [] };
  const { projectId, priority, weight, payload } = job;
  const { user_ids: all, progress, broadcast_id: broadcastId, channel, back = 'waited' } = payload;
  for (const [openingMs, group] of Map.groupBy(openings, ([, opening]) => opening)) {
    const userIds = group.map(([userId]) => userId);
    const dueAtMs = openingMs + Math.floor(random() * SPREAD_MS);
    const begun = userIds.flatMap((userId) => {
      const one = progress?.[userId];
      return one === undefined ? [] : [[userId, one] as const];
    });
    waiting.jobs.push({
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
        ...(payload.replay === undefined ? {} : { replay: payload.replay }),
        ...(begun.length === 0 ? {} : { progress: Object.fromEntries(begun) }),
      },
    });
    waiting.events.push({
      projectId,
      type: 'delivery.scheduled',
      broadcastId,
      userIds,
      details: {
        code: 'outside_window',
        log: 'it is held until the next delivery window opens',
        level: 'info',
        context: { channel },
        payload: { due_at: new Date(dueAtMs).toISOString() },
      },
    });
  }
  return waiting;
}

import { describe, expect, test } from 'vitest';
import { nextOpening } from '../../../lib/weekly-hours.ts';
import { windowJobs } from './follow-up-jobs.ts';

const NOW = Date.UTC(2026, 6, 15, 22);
const MORNING = Date.UTC(2026, 6, 16, 8);
const NOON = Date.UTC(2026, 6, 16, 12);
const HOUR_MS = 3_600_000;

type Job = Parameters<typeof windowJobs>[0];

const opens = (untilMs: number, code: 'outside_window' | 'quiet_hours' = 'outside_window') => ({
  untilMs,
  code,
});

/** A job for four users, whose text weighs 10. */
function job(payload: Partial<Job['payload']> = {}): Job {
  return {
    projectId: 'p',
    priority: 3,
    weight: 14,
    payload: {
      broadcast_id: 'b',
      channel: 'mobile_push',
      user_ids: ['u1', 'u2', 'u3', 'u4'],
      attempt: 2,
      first_attempt_ms: NOW - HOUR_MS,
      ...payload,
    },
  };
}

describe('what waits', () => {
  const LAST = 1 - Number.EPSILON; // Math.random never gives 1

  test.each([0, 0.5, LAST])(
    'is due while the shortest possible window is open, never before (%f)',
    (chance) => {
      // No shorter window can be saved.
      const shortest = [{ from: 8 * 60, to: 8 * 60 + 10 }];
      const opening = nextOpening(shortest, 'UTC', NOW) ?? Number.NaN;
      expect(opening).toBe(MORNING);
      const { jobs } = windowJobs(job(), new Map([['u1', opens(opening)]]), NOW, () => chance);
      const dueAtMs = jobs[0]?.dueAtMs ?? Number.NaN;
      expect(dueAtMs).toBeGreaterThanOrEqual(opening);
      expect(nextOpening(shortest, 'UTC', dueAtMs)).toBe(dueAtMs);
    },
  );

  test('is not due at the same moment for all', () => {
    const chances = [0, LAST].values();
    const openings = new Map([
      ['u1', opens(MORNING)],
      ['u2', opens(NOON)],
    ]);
    const { jobs } = windowJobs(job(), openings, NOW, () => chances.next().value ?? 0);
    expect(jobs.map(({ dueAtMs }) => dueAtMs)).toEqual([MORNING, NOON + 299_999]);
  });

  test('is one job for each opening, with the weight of its users, and one event', () => {
    const openings = new Map([
      ['u1', opens(MORNING)],
      ['u3', opens(NOON)],
      ['u4', opens(MORNING)],
    ]);
    const { jobs, events } = windowJobs(job(), openings, NOW, () => 0);
    expect(jobs).toEqual(
      [
        { userIds: ['u1', 'u4'], dueAtMs: MORNING, weight: 12 },
        { userIds: ['u3'], dueAtMs: NOON, weight: 11 },
      ].map(({ userIds, dueAtMs, weight }) => ({
        kind: 'deliver',
        projectId: 'p',
        priority: 3,
        weight,
        dueAtMs,
        payload: {
          broadcast_id: 'b',
          channel: 'mobile_push',
          user_ids: userIds,
          attempt: 2,
          first_attempt_ms: dueAtMs,
          back: 'waited',
          closed: 'outside_window',
        },
      })),
    );
    expect(events).toMatchObject([
      { userIds: ['u1', 'u4'], details: { payload: { due_at: '2026-07-16T08:00:00.000Z' } } },
      { userIds: ['u3'], details: { payload: { due_at: '2026-07-16T12:00:00.000Z' } } },
    ]);
  });

  test('is another job if it waits for the end of quiet hours, and says so', () => {
    const openings = new Map([
      ['u1', opens(MORNING)],
      ['u2', opens(MORNING, 'quiet_hours')],
    ]);
    const { jobs, events } = windowJobs(job({ closed: 'outside_window' }), openings, NOW, () => 0);
    expect(jobs.map(({ payload }) => [payload.user_ids, payload.closed])).toEqual([
      [['u1'], 'outside_window'],
      [['u2'], 'quiet_hours'],
    ]);
    expect(events.map(({ details }) => details)).toMatchObject([
      { code: 'outside_window', log: 'deferred until the next delivery window opens' },
      { code: 'quiet_hours', log: 'deferred until the quiet hours of the user end' },
    ]);
  });

  test('has the time to live from its opening; a started one has the rest of its time', () => {
    const openings = new Map([['u1', opens(MORNING)]]);
    const firstAttemptOf = (payload: Partial<Job['payload']>) =>
      windowJobs(job(payload), openings, NOW, () => 0).jobs[0]?.payload.first_attempt_ms;
    expect(firstAttemptOf({})).toBe(MORNING);
    expect(firstAttemptOf({ back: 'waited' })).toBe(MORNING);
    expect(firstAttemptOf({ back: 'begun' })).toBe(MORNING - HOUR_MS);
  });

  test('keeps the progress of its users, and nothing of the others', () => {
    const [u1, u2] = [1, 2].map((accepted) => ({ left: { t: NOW }, accepted, gone: 0, failed: 0 }));
    if (u1 === undefined || u2 === undefined) throw new Error('two');
    const original = job({ replay: 3, back: 'begun', progress: { u1, u2 } });
    const openings = new Map([
      ['u1', opens(MORNING)],
      ['u3', opens(NOON)],
    ]);
    const [first, second] = windowJobs(original, openings, NOW, () => 0).jobs;
    expect(first?.payload).toMatchObject({ replay: 3, back: 'begun', attempt: 2, progress: { u1 } });
    expect(Object.keys(first?.payload.progress ?? {})).toEqual(['u1']);
    expect(second?.payload).not.toHaveProperty('progress');
  });
});

test('if no delivery is deferred, there are no jobs and no events', () => {
  expect(windowJobs(job(), new Map(), NOW)).toEqual({ jobs: [], events: [] });
});

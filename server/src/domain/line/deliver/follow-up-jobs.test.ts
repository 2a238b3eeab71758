import { expect, test } from 'vitest';
import { retryJobs } from './follow-up-jobs.ts';

const job = (channel = 'mobile_push') => ({
  projectId: 'p',
  priority: 1,
  weight: 13,
  payload: {
    broadcast_id: 'b',
    channel,
    user_ids: ['ada', 'bob', 'cy'],
    attempt: 0,
    first_attempt_ms: 100,
    progress: { ada: { left: { old: 1 }, accepted: 9, gone: 9, failed: 9 } },
  },
});
const none = { accepted: 0, gone: 0, failed: 0 };

test('deliveries with the same due time and number of attempts are one job', () => {
  const jobs = retryJobs(
    job(),
    [
      { userId: 'ada', attempt: 1, left: { a: { delayMs: 500 } }, ...none, accepted: 1 },
      { userId: 'bob', attempt: 1, left: { b: { delayMs: 500 }, c: { delayMs: 900 } }, ...none },
    ],
    1_000,
  );
  expect(jobs).toEqual([
    {
      kind: 'deliver',
      projectId: 'p',
      priority: 1,
      weight: 12,
      dueAtMs: 1_500,
      payload: {
        broadcast_id: 'b',
        channel: 'mobile_push',
        user_ids: ['ada', 'bob'],
        attempt: 1,
        first_attempt_ms: 100,
        back: 'begun',
        progress: {
          ada: { left: { a: 1_500 }, ...none, accepted: 1 },
          bob: { left: { b: 1_500, c: 1_900 }, ...none },
        },
      },
    },
  ]);
});

test('a first attempt of a clock that was ahead extends the time to live no further', () => {
  const { payload, ...ended } = job();
  const ofFuture = { ...ended, payload: { ...payload, first_attempt_ms: 9_000 } };
  const [retry] = retryJobs(
    ofFuture,
    [{ userId: 'ada', attempt: 1, left: { a: { delayMs: 1 } }, ...none }],
    1_000,
  );
  expect(retry?.payload.first_attempt_ms).toBe(1_000);
});

test('a deferral ends at a whole second, never too early', () => {
  const jobs = retryJobs(
    job(),
    [
      { userId: 'ada', attempt: 0, left: { a: { atMs: 5_001 } }, ...none },
      { userId: 'bob', attempt: 0, left: { b: { atMs: 5_999 } }, ...none },
      { userId: 'cy', attempt: 0, left: { c: { atMs: 6_000 } }, ...none },
    ],
    1_000,
  );
  expect(jobs.map(({ dueAtMs, payload }) => [dueAtMs, payload.user_ids])).toEqual([
    [6_000, ['ada', 'bob', 'cy']],
  ]);
});

test('attempts that differ in number stay apart', () => {
  const left = { a: { atMs: 6_000 } };
  const jobs = retryJobs(
    job(),
    [
      { userId: 'ada', attempt: 0, left, ...none },
      { userId: 'bob', attempt: 1, left, ...none },
    ],
    1_000,
  );
  expect(jobs.map(({ payload }) => [payload.attempt, payload.user_ids])).toEqual([
    [0, ['ada']],
    [1, ['bob']],
  ]);
});

test.each(['email', 'sms'])('%s goes to the address that the user has then', (channel) => {
  const [one] = retryJobs(
    job(channel),
    [{ userId: 'ada', attempt: 1, left: { [channel]: { delayMs: 1 } }, ...none }],
    0,
  );
  expect(one?.payload).not.toHaveProperty('progress');
});

test('nothing left is no job', () => {
  expect(retryJobs(job(), [], 0)).toEqual([]);
});

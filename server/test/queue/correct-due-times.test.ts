import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { DueTimes } from '../../src/queue/correct-due-times.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { NewJob } from '../../src/queue/jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsOf } from '../support/rows.ts';

// What was scheduled while the clock was a year ahead, once it is right.

const DAY_MS = 24 * 3_600_000;
const YEAR_MS = 365 * DAY_MS;
const NOW_MS = Date.parse('2026-06-01T12:00:00Z');
const AHEAD_MS = NOW_MS + YEAR_MS;
const SECONDS = 30_000;

let testDatabase: TestDatabase;
let db: Database;
let nowMs = NOW_MS;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  db = openDatabase(testDatabase.connection, { size: 2, name: 'test' });
});
afterAll(async () => {
  await db?.close();
  await testDatabase?.drop();
});

const common = { projectId: newId(), priority: 0, weight: 1 };

/** Enqueues a job as at this time of the clock. */
async function enqueueAt(atMs: number, job: Omit<NewJob, keyof typeof common>): Promise<void> {
  await enqueue(db, [{ ...common, ...job }]);
  await rowsOf(db, 'update jobs set enqueued_at = $1 where id = (select max(id) from jobs)', [
    new Date(atMs),
  ]);
}

async function stored(): Promise<{ dueInMs: number; payload: object }[]> {
  const rows = await rowsOf<{ due_at: Date; payload: string }>(
    db,
    'select due_at, payload from jobs order by id',
  );
  return rows.map(({ due_at: dueAt, payload }) => ({
    dueInMs: dueAt.getTime() - NOW_MS,
    payload: JSON.parse(payload),
  }));
}

test('retries of a clock that was a year ahead are due as soon as they should be', async () => {
  const delivery = { broadcast_id: newId(), user_ids: ['ada'], attempt: 1 };
  const ofPush = (firstMs: number, leftMs: number) => ({
    ...delivery,
    channel: 'mobile_push',
    first_attempt_ms: firstMs,
    progress: { ada: { left: { phone: leftMs }, accepted: 0, gone: 0, failed: 0 } },
  });
  const ofWebhook = (sinceMs: number) => ({
    webhook_id: newId(),
    event_ids: [],
    attempt: 1,
    since_ms: sinceMs,
  });
  const dueAtMs = AHEAD_MS + SECONDS;
  await enqueueAt(AHEAD_MS, { kind: 'deliver', dueAtMs, payload: ofPush(AHEAD_MS - 1_000, dueAtMs) });
  await enqueueAt(AHEAD_MS, { kind: 'send_webhook', dueAtMs, payload: ofWebhook(AHEAD_MS) });
  // A request named the time of this one, and the next one was planned by the right clock.
  const scheduled = { broadcast_id: newId() };
  await enqueueAt(AHEAD_MS, { kind: 'fan_out', dueAtMs, payload: scheduled });
  const later = { ...delivery, channel: 'email', first_attempt_ms: NOW_MS + 40 * DAY_MS };
  await enqueueAt(NOW_MS - DAY_MS, { kind: 'deliver', dueAtMs: NOW_MS + 40 * DAY_MS, payload: later });
  const dueTimes = new DueTimes({ db, clock: { now: () => nowMs } });
  const corrected = [
    { dueInMs: SECONDS, payload: ofPush(NOW_MS - 1_000, NOW_MS + SECONDS) },
    { dueInMs: SECONDS, payload: expect.objectContaining({ since_ms: NOW_MS }) },
    { dueInMs: YEAR_MS + SECONDS, payload: scheduled },
    { dueInMs: 40 * DAY_MS, payload: later },
  ];
  const { signal } = new AbortController();
  await dueTimes.correct(signal);
  expect(await stored()).toEqual(corrected);
  // Once more after a jump while the process runs, and not without one.
  nowMs = AHEAD_MS;
  await dueTimes.correct(signal);
  await enqueueAt(AHEAD_MS, { kind: 'send_webhook', dueAtMs, payload: ofWebhook(AHEAD_MS) });
  await dueTimes.correct(signal);
  expect((await stored()).at(-1)?.dueInMs).toBe(YEAR_MS + SECONDS);
  nowMs = NOW_MS;
  await dueTimes.correct(signal);
  expect((await stored()).at(-1)?.dueInMs).toBe(SECONDS);
});

test('jobs of a project that has left its cell stay, and keep no other from being corrected', async () => {
  await rowsOf(db, 'delete from jobs');
  const dueAtMs = AHEAD_MS + SECONDS;
  const payload = { webhook_id: newId(), event_ids: [], attempt: 1, since_ms: AHEAD_MS };
  for (const kind of ['send_webhook', 'cancel'] as const)
    await enqueueAt(AHEAD_MS, {
      ...(kind === 'cancel' ? { kind, payload: { broadcast_id: newId() } } : { kind, payload }),
      dueAtMs,
    });
  // As a move marks them (db/move/capture.ts).
  await rowsOf(db, "update jobs set due_at = 'infinity' where kind = 'cancel'");
  await new DueTimes({ db, clock: { now: () => NOW_MS } }).correct(new AbortController().signal);
  const due = await rowsOf<{ due_at: Date | number }>(db, 'select due_at from jobs order by id');
  expect(due).toEqual([{ due_at: new Date(NOW_MS + SECONDS) }, { due_at: Number.POSITIVE_INFINITY }]);
});

/** Batches that wait for somebody who hangs, and the others of their worker. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { complete } from '../../src/queue/complete.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { Handler } from '../../src/queue/handler.ts';
import type { Job } from '../../src/queue/jobs.ts';
import type { Worker } from '../../src/queue/worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startWorker } from '../support/queue-worker.ts';

const SILENT_PER_PROJECT = 2;

let testDatabase: TestDatabase;
let db: Database;
let worker: Worker;
/** The projects of the batches that were begun, each of one job. */
let begun: string[];
/** What all batches wait for. */
let gate: PromiseWithResolvers<void>;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  db = openDatabase(testDatabase.connection, { size: 8, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await testDatabase.drop();
});
beforeEach(() => {
  begun = [];
  gate = Promise.withResolvers();
});
afterEach(async () => {
  gate.resolve();
  await worker.stop(5_000);
  await db.query(sql('', 'delete from jobs'));
});

async function start({ silentMs, pollMs = 20 }: { silentMs: number; pollMs?: number }): Promise<void> {
  const handler: Handler<'deliver'> = {
    slots: 2,
    slotsPerPartition: 1,
    gatherBelow: 0,
    beyond: { maxWeight: 100, silentMs, silentPerPartition: SILENT_PER_PROJECT },
    maxJobs: 1,
    maxWeight: 10,
    maxPartitions: 1,
    async run(jobs, leaseId) {
      begun.push(...jobs.map(({ projectId }) => projectId));
      await gate.promise;
      await db.transaction((tx) => complete(tx, leaseId, jobs.map(idOf)));
    },
    discard: async () => {},
  };
  worker = await startWorker(db, 'deliver', handler, { pollMs });
}

const idOf = ({ id }: Job) => id;
const countOf = (projectId: string) => begun.filter((id) => id === projectId).length;

async function add(projectId: string, { count = 1, dueAtMs = undefined as number | undefined } = {}) {
  await enqueue(
    db,
    Array.from({ length: count }, () => ({
      kind: 'deliver' as const,
      projectId,
      priority: 0,
      weight: 1,
      payload: { broadcast_id: newId(), channel: 'email', user_ids: [], attempt: 0, first_attempt_ms: 0 },
      ...(dueAtMs === undefined ? {} : { dueAtMs }),
    })),
  );
  worker.wake('deliver');
}

test('projects that have nothing at work begin at once, however many others hang in all slots', async () => {
  await start({ silentMs: 3_600_000 });
  const projects = Array.from({ length: 6 }, newId);
  for (const id of projects) {
    await add(id, { count: 3 });
    await expect.poll(() => countOf(id)).toBe(1);
  }
  // The last of them had looked at all that the others have left.
  expect(projects.map(countOf)).toEqual(projects.map(() => 1));
});

test('batches that hang let the next of their project begin, until so many do', async () => {
  await start({ silentMs: 20 });
  const [hanging, other] = [newId(), newId()];
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  // What is scheduled is found by a poll, which looks for all else that is ready, and for what a lost answer
  // has left.
  for (let polls = 1; polls <= 3; polls += 1) {
    await add(other, { dueAtMs: Date.now() });
    await expect.poll(() => countOf(other)).toBe(polls);
  }
  expect(countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  gate.resolve();
  await expect.poll(() => db.query(sql('', 'select id from jobs')), { timeout: 10_000 }).toEqual([]);
  expect(countOf(hanging)).toBe(10);
});

test('the next begins when one has given up its slot, and not only when somebody looks', async () => {
  await start({ silentMs: 20, pollMs: 3_600_000 });
  const hanging = newId();
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
});

test('a worker that stops waits for those that hang, and has them hurried at the end of its patience', async () => {
  await start({ silentMs: 20 });
  const hanging = newId();
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  await worker.stop(1, async () => gate.resolve());
  const left = await db.query(sql('', 'select attempt, lease_id from jobs'));
  expect(left).toEqual(Array(10 - SILENT_PER_PROJECT - 1).fill({ attempt: 0, lease_id: null }));
});

/** Batches whose sends hang, and the other batches of their worker. */
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
/** The projects of the batches that have started, one job each. */
let started: string[];
/** All batches wait for this promise. */
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
  started = [];
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
      started.push(...jobs.map(({ projectId }) => projectId));
      await gate.promise;
      await db.transaction((tx) => complete(tx, leaseId, jobs.map(idOf)));
      return [];
    },
    discard: async () => {},
  };
  worker = await startWorker(db, 'deliver', handler, { pollMs });
}

const idOf = ({ id }: Job) => id;
const countOf = (projectId: string) => started.filter((id) => id === projectId).length;

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
  worker.producer('deliver').wake();
}

test('projects without running batches start at once, whatever the number of hanging ones', async () => {
  await start({ silentMs: 3_600_000 });
  const projects = Array.from({ length: 6 }, newId);
  for (const id of projects) {
    await add(id, { count: 3 });
    await expect.poll(() => countOf(id)).toBe(1);
  }
  // The last one has looked at all the jobs that the others left.
  expect(projects.map(countOf)).toEqual(projects.map(() => 1));
});

test('batches that hang let the next one of their project start, up to a limit', async () => {
  await start({ silentMs: 20 });
  const [hanging, other] = [newId(), newId()];
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  // A poll finds scheduled jobs. It looks for all other ready jobs, and for those whose claim was not
  // confirmed.
  for (let polls = 1; polls <= 3; polls += 1) {
    await add(other, { dueAtMs: Date.now() });
    await expect.poll(() => countOf(other)).toBe(polls);
  }
  expect(countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  gate.resolve();
  await expect.poll(() => db.query(sql('', 'select id from jobs'))).toEqual([]);
  expect(countOf(hanging)).toBe(10);
});

test('the next one starts when a slot is released, without waiting for a poll', async () => {
  await start({ silentMs: 20, pollMs: 3_600_000 });
  const hanging = newId();
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
});

test('a worker that stops waits for hanging batches, and aborts them at its deadline', async () => {
  await start({ silentMs: 20 });
  const hanging = newId();
  await add(hanging, { count: 10 });
  await expect.poll(() => countOf(hanging)).toBe(SILENT_PER_PROJECT + 1);
  await worker.stop(1, async () => gate.resolve());
  const left = await db.query(sql('', 'select attempt, lease_id from jobs'));
  expect(left).toEqual(Array(10 - SILENT_PER_PROJECT - 1).fill({ attempt: 0, lease_id: null }));
});

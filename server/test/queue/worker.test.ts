import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createLogger, type Logger } from '../../src/lib/log.ts';
import { complete } from '../../src/queue/complete.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { Handler } from '../../src/queue/handler.ts';
import { BULK, type Job, type NewJob, type Work } from '../../src/queue/jobs.ts';
import type { Reservation } from '../../src/queue/producer.ts';
import type { Worker } from '../../src/queue/worker.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { startWorker } from '../support/queue-worker.ts';

// Longer than any test waits.
const NEVER_MS = 3_600_000;

let testDatabase: TestDatabase;
let db: Database;
let worker: Worker;
/** The batches that have started. */
let batches: Job[][];
/** The promise that a batch waits for before it completes. */
let gate: Promise<void>;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  db = openDatabase(testDatabase.connection, { size: 8, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await testDatabase.drop();
});
beforeEach(async () => {
  batches = [];
  gate = Promise.resolve();
  await start();
});
afterEach(async () => {
  await worker.stop(5_000);
  await db.query(sql('', 'delete from jobs')); // of a test that failed
});

async function start(
  limits: Partial<Handler> = {},
  { on = db, ...options }: { on?: Database; pollMs?: number; work?: Work; log?: Logger } = {},
): Promise<void> {
  worker = await startWorker(on, 'fan_out', handlerOf(limits), options);
  await expect.poll(() => reservation(1)).toBe(true);
}

function handlerOf(limits: Partial<Handler>): Handler<'fan_out'> {
  return {
    slots: 2,
    slotsPerPartition: 2,
    gatherBelow: 100,
    maxJobs: 5,
    maxWeight: 1_000,
    maxPartitions: 10,
    async run(jobs, leaseId) {
      batches.push([...jobs]);
      await gate;
      await completeAll(jobs, leaseId);
      return [];
    },
    discard: async () => {},
    ...limits,
  };
}

function completeAll(jobs: readonly Job[], leaseId: string): Promise<void> {
  const ids = jobs.map((job) => job.id);
  return db.transaction((tx) => complete(tx, leaseId, ids));
}

/** Reserves capacity for this many jobs. */
function reserve(count: number, priority = 0): Reservation | undefined {
  return worker.producer('fan_out').reserve(Array.from({ length: count }, () => ({ priority, weight: 1 })));
}

/** Whether this many jobs could be reserved; reserves none. */
function reservation(jobs: number, priority?: number): boolean {
  const room = reserve(jobs, priority);
  room?.end([]);
  return room !== undefined;
}

async function writeLeased(leaseId: string, count: number): Promise<Job<'fan_out'>[]> {
  const projectId = newId();
  const rows = await db.query<{ id: number; payload: string }>(
    sql(
      '',
      `insert into jobs (kind, project_id, lease_id, attempt, payload)
      select 'fan_out', $1, $2, 1, json_build_object('broadcast_id', gen_random_uuid())
             from generate_series(1, $3::int)
      returning id, payload`,
    ),
    [projectId, leaseId, count],
  );
  return rows.map(({ id, payload }) => ({
    id,
    kind: 'fan_out',
    projectId,
    partitionKey: projectId,
    priority: 0,
    weight: 1,
    attempt: 1,
    cutOffs: 0,
    payload: JSON.parse(payload) as { broadcast_id: string },
  }));
}

const ready = (count: number): NewJob<'fan_out'>[] =>
  Array.from({ length: count }, () => ({
    kind: 'fan_out',
    projectId: newId(),
    priority: 0,
    weight: 1,
    payload: { broadcast_id: newId() },
  }));

async function queueEmpty(): Promise<void> {
  await expect.poll(() => db.query(sql('', 'select id from jobs')), { interval: 20 }).toEqual([]);
}

test('jobs that were written under a reservation run without being claimed', async () => {
  const room = reserve(3);
  const jobs = await writeLeased(room?.leaseId ?? '', 3);
  room?.end(jobs);
  await queueEmpty();
  expect(batches).toEqual([jobs]);
});

test('jobs that arrive while a small batch runs form one batch, and no more are reserved', async () => {
  await worker.stop(5_000);
  // After a poll, nothing is reserved until lost jobs were looked for. So the first poll, which finds a job,
  // has to be over, and no other one may follow.
  await enqueue(db, ready(1));
  await start({}, { pollMs: NEVER_MS });
  await queueEmpty();
  await expect.poll(() => reservation(1)).toBe(true);
  batches = [];
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  const first = reserve(1);
  first?.end(await writeLeased(first.leaseId, 1));
  const second = reserve(2);
  second?.end(await writeLeased(second.leaseId, 2));
  const third = reserve(3);
  expect(third?.leaseId).toBe(first?.leaseId);
  expect(reservation(1)).toBe(false);
  third?.end(await writeLeased(third.leaseId, 3));
  expect(batches.map((jobs) => jobs.length)).toEqual([1]);
  open.resolve();
  await queueEmpty();
  expect(batches.map((jobs) => jobs.length)).toEqual([1, 5]);
});

test('new jobs do not overtake those that wait in the database', async () => {
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  await enqueue(db, ready(12));
  worker.producer('fan_out').wake();
  await expect.poll(() => batches.length).toBe(1);
  expect(reservation(1)).toBe(false);
  open.resolve();
  await queueEmpty();
  await expect.poll(() => reservation(1)).toBe(true);
});

test('small jobs have slots and batches of their own, if the handler wants that', async () => {
  await worker.stop(5_000);
  await start({ work: 'both', maxJobs: 2, maxWeight: 2_000 });
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  const bulk = ready(5).map((job) => ({ ...job, priority: BULK, weight: 1_000 }));
  await enqueue(db, [...bulk.slice(0, 4), ...ready(1)]);
  worker.producer('fan_out').wake();
  const priorities = () => batches.map((jobs) => jobs.map(({ priority }) => priority)).sort();
  const begun = [[0], [BULK, BULK], [BULK, BULK]];
  await expect.poll(priorities).toEqual(begun);
  // Both slots of bulk are taken, and the small batch gathers what arrives.
  await enqueue(db, [...bulk.slice(4), ...ready(2)]);
  worker.producer('fan_out').poll();
  expect(reservation(1)).toBe(false);
  expect(priorities()).toEqual(begun);
  open.resolve();
  await queueEmpty();
  expect(priorities()).toEqual([[0], [0, 0], [BULK], [BULK, BULK], [BULK, BULK]]);
});

test('a process runs its part of the jobs and leaves the rest to others', async () => {
  const ids = (jobs: readonly NewJob<'fan_out'>[]) => jobs.map(({ payload }) => payload.broadcast_id);
  const done = () => ids(batches.flat() as Job<'fan_out'>[]).sort();
  const small = ready(3);
  const bulk = ready(3).map((job) => ({ ...job, priority: BULK }));
  for (const [work, own, others] of [
    ['small', small, bulk],
    ['bulk', bulk, small],
  ] as const) {
    await worker.stop(5_000);
    await db.query(sql('', 'delete from jobs'));
    batches = [];
    worker = await startWorker(db, 'fan_out', handlerOf({ work: 'both' }), { work });
    await enqueue(db, [...others, ...own]);
    worker.producer('fan_out').poll();
    await expect.poll(done).toEqual(ids(own).sort());
    // When the batch has ended, which `done` counts from its start.
    await expect.poll(() => reservation(1, own[0]?.priority)).toBe(true);
    expect(reservation(1, others[0]?.priority)).toBe(false);
  }
  // Jobs that are all bulk.
  await worker.stop(5_000);
  batches = [];
  worker = await startWorker(db, 'fan_out', handlerOf({ work: 'bulk' }), { work: 'bulk' });
  await expect.poll(done).toEqual(ids(small).sort());
});

test('bulk is claimed beside small work that never stops', async () => {
  await worker.stop(5_000);
  let isEndless = false;
  const endless: Database = {
    ...db,
    async query(statement, values) {
      // Small jobs are committed during each claim.
      if (isEndless && statement.name.startsWith('claim')) worker.producer('fan_out').wake([{ priority: 0 }]);
      return db.query(statement, values);
    },
  };
  await start({ work: 'both', slots: 8, gatherBelow: 0 }, { on: endless, pollMs: NEVER_MS });
  const bulk = ready(1).map((job) => ({ ...job, priority: BULK }));
  await enqueue(db, bulk);
  isEndless = true;
  worker.producer('fan_out').wake();
  await queueEmpty();
  isEndless = false;
  expect(batches).toHaveLength(1);
});

test('no batch starts while the running ones of all sizes weigh as much as may run together', async () => {
  await worker.stop(5_000);
  await start({ work: 'both', maxRunningWeight: 50, maxJobs: 1, gatherBelow: 0 });
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  const [first, second, third] = ready(3).map((job) => ({ ...job, weight: 25 }));
  if (!first || !second || !third) throw new Error('three jobs are expected');
  await enqueue(db, [{ ...first, priority: BULK }, second]);
  worker.producer('fan_out').wake();
  await expect.poll(() => batches.length).toBe(2);
  await enqueue(db, [third]);
  worker.producer('fan_out').wake();
  expect(batches).toHaveLength(2);
  open.resolve();
  await queueEmpty();
  expect(batches).toHaveLength(3);
});

test('reserved jobs run in the batches of their size', async () => {
  await worker.stop(5_000);
  await start({ work: 'both' });
  const wanted = [BULK, 0, BULK].map((priority) => ({ priority, weight: 1 }));
  const room = worker.producer('fan_out').reserve(wanted);
  expect(wanted.map((job) => room?.includes(job))).toEqual([true, true, true]);
  const [small, ...others] = await writeLeased(room?.leaseId ?? '', 3);
  const bulk = others.map((job) => ({ ...job, priority: BULK }));
  room?.end([bulk[0], small, bulk[1]].filter((job) => job !== undefined));
  await queueEmpty();
  // Which of them is first depends on which was claimed last.
  expect(batches.toSorted(([a], [b]) => (a?.priority ?? 0) - (b?.priority ?? 0))).toEqual([[small], bulk]);
});

test('small jobs are reserved while bulk waits in the database', async () => {
  await worker.stop(5_000);
  await start({ work: 'both', maxJobs: 1 }, { pollMs: NEVER_MS });
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  await enqueue(
    db,
    ready(3).map((job) => ({ ...job, priority: BULK })),
  );
  worker.producer('fan_out').wake([{ priority: BULK }]);
  await expect.poll(() => batches.length).toBe(1);
  expect(reservation(1, BULK)).toBe(false);
  const room = worker.producer('fan_out').reserve([
    { priority: BULK, weight: 1 },
    { priority: 0, weight: 1 },
  ]);
  expect([room?.includes({ priority: BULK }), room?.includes({ priority: 0 })]).toEqual([false, true]);
  const small = await writeLeased(room?.leaseId ?? '', 1);
  room?.end(small);
  // At once, or when the claim that is running has found no more.
  await expect.poll(() => batches[1]).toEqual(small);
  open.resolve();
  await queueEmpty();
  expect(batches.flat().map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1]);
});

test('a job whose writer got no confirmation runs nevertheless', async () => {
  const room = reserve(1);
  const [lost] = await writeLeased(room?.leaseId ?? '', 1);
  room?.end([]);
  await queueEmpty();
  expect(batches.flat().map((job) => [job.id, job.attempt])).toEqual([[lost?.id, 2]]);
});

test('a reserved job does not count as lost while its writer is busy', async () => {
  const room = reserve(1);
  const jobs = await writeLeased(room?.leaseId ?? '', 1);
  // The worker has looked for lost jobs meanwhile: it ran a job that was scheduled for then.
  await enqueue(
    db,
    ready(1).map((job) => ({ ...job, dueAtMs: Date.now() })),
  );
  await expect.poll(() => batches.length).toBe(1);
  room?.end(jobs);
  await queueEmpty();
  expect(batches[1]).toEqual(jobs);
});

test('a job that is claimed again before its former run has ended is not released by its end', async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  gate = gates[0]?.promise ?? gate;
  const job: NewJob<'fan_out'> = {
    kind: 'fan_out',
    projectId: newId(),
    priority: 0,
    weight: 100, // so that other batches start beside it
    payload: { broadcast_id: newId() },
  };
  await enqueue(db, [job]);
  await expect.poll(() => batches.length).toBe(1);
  const before = await leaseIds();
  // As another server does when the lease has expired.
  await db.query(sql('', "update jobs set lease_id = null, due_at = now() + interval '1 hour'"));
  await db.query(sql('', 'delete from leases'));
  await expect.poll(async () => (await leaseIds()).some((id) => !before.includes(id))).toBe(true);
  gate = gates[1]?.promise ?? gate;
  await db.query(sql('', 'update jobs set due_at = null'));
  await expect.poll(() => batches.length).toBe(2);
  gate = Promise.resolve();
  gates[0]?.resolve();
  // Two jobs that only a poll can find, one after the other: a poll also looks for lost claims.
  for (const count of [3, 4]) {
    await enqueue(db, [{ ...job, payload: { broadcast_id: newId() } }]);
    await expect.poll(() => batches.length).toBe(count);
  }
  const [first] = batches;
  const runs = batches.filter(([one]) => one?.id === first?.[0]?.id);
  gates[1]?.resolve();
  expect(runs).toHaveLength(2);
  await expect.poll(() => db.query(sql('', 'select from jobs'))).toEqual([]);
});

test('a batch that failed runs again without the jobs that have completed', async () => {
  await worker.stop(5_000);
  let failing: number | undefined;
  await start({
    async run(jobs, leaseId) {
      batches.push([...jobs]);
      failing ??= jobs[1]?.id;
      const completed = jobs.filter(({ id }) => id !== failing);
      await completeAll(completed, leaseId);
      if (completed.length < jobs.length) throw new Error('a bug');
      return [];
    },
  });
  await enqueue(db, ready(3));
  worker.producer('fan_out').wake();
  const runsOfFailing = () => batches.filter((jobs) => jobs.some(({ id }) => id === failing)).length;
  await expect.poll(runsOfFailing).toBeGreaterThanOrEqual(2);
  expect(batches[0]?.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
  expect(batches[1]).toMatchObject([{ id: failing, attempt: 2 }]);
});

test('a job whose worker has ended in eight attempts is discarded, and the jobs beside it run', async () => {
  await worker.stop(5_000);
  const discarded: { id: number; message: string }[] = [];
  await start({
    async discard({ id }, leaseId, error) {
      discarded.push({ id, message: (error as Error).message });
      await db.transaction((tx) => complete(tx, leaseId, [id]));
    },
  });
  const setCutOffs = 'update jobs set cut_offs = 8 where id = (select max(id) from jobs) returning id';
  const [often] = await db.transaction(async (tx) => {
    await enqueue(tx, ready(3));
    return tx.query<{ id: number }>(sql('', setCutOffs));
  });
  worker.producer('fan_out').wake();
  await queueEmpty();
  expect(discarded).toEqual([{ id: often?.id, message: 'its worker has ended in 8 attempts' }]);
  expect(batches.flat().map(({ attempt }) => attempt)).toEqual([1, 1]);
});

/** A logger that keeps its lines. */
function keptLog(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const stream = { write: (line: string) => void lines.push(JSON.parse(line)) };
  return { log: createLogger({ level: 'warn', stream }), lines };
}

test('the log says of a discarded job whose work it was, and why it was discarded', async () => {
  await worker.stop(5_000);
  const { log, lines } = keptLog();
  const discard: Handler['discard'] = ({ id }, leaseId) =>
    db.transaction((tx) => complete(tx, leaseId, [id]));
  const run: Handler['run'] = async () => {
    throw new Error('a bug');
  };
  await start({ run, discard }, { log });
  const [broken, ending] = ready(2);
  const userIds = Array.from({ length: 12 }, newId);
  const more = { channel: 'email', user_ids: userIds, progress: { [newId()]: 'not shown' } };
  await db.transaction(async (tx) => {
    await enqueue(tx, [{ ...broken, payload: { ...broken?.payload, ...more } } as NewJob]);
    await tx.query(sql('', 'update jobs set attempt = 9, cut_offs = 2'));
    await enqueue(tx, [ending as NewJob]);
    await tx.query(sql('', 'update jobs set attempt = 8, cut_offs = 8 where attempt = 0'));
  });
  worker.producer('fan_out').wake();
  await queueEmpty();
  const discarded = () => lines.filter(({ msg }) => msg === 'a job was discarded');
  await expect.poll(() => discarded().length).toBe(2);
  const whole = { kind: 'fan_out', job: expect.any(Number), level: 'error' };
  expect(discarded().toSorted((a, b) => Number(a.job) - Number(b.job))).toMatchObject([
    {
      ...whole,
      ...{ projectId: broken?.projectId, attempts: 10, cutOffs: 2, err: { message: 'a bug' } },
      payload: {
        broadcast_id: broken?.payload.broadcast_id,
        channel: 'email',
        user_ids: [...userIds.slice(0, 10), 'and 2 more'],
        notification_ids: [
          ...userIds.slice(0, 10).map((id) => notificationId(broken?.payload.broadcast_id ?? '', id)),
          'and 2 more',
        ],
      },
    },
    {
      ...whole,
      ...{ projectId: ending?.projectId, attempts: 8, cutOffs: 8 },
      err: { message: 'its worker has ended in 8 attempts' },
      payload: { broadcast_id: ending?.payload.broadcast_id },
    },
  ]);
  expect(JSON.stringify(lines)).not.toContain('not shown');
});

test('the log says which jobs wait because their workers have ended, most ends first', async () => {
  await worker.stop(5_000);
  const jobs = ready(23);
  await enqueue(db, jobs);
  await db.query(sql('', 'update jobs set attempt = 4, cut_offs = 3, lease_id = gen_random_uuid()'));
  const last = 'update jobs set cut_offs = 5 where id = (select max(id) from jobs)';
  await db.query(sql('', last));
  const { log, lines } = keptLog();
  await start({}, { log });
  await expect.poll(() => lines.length).toBe(21);
  expect(lines[0]).toMatchObject({
    level: 'warn',
    msg: 'a job waits, because its workers have ended',
    kind: 'fan_out',
    job: expect.any(Number),
    projectId: jobs.at(-1)?.projectId,
    attempts: 4,
    cutOffs: 6,
    dueAt: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T/),
    payload: { broadcast_id: jobs.at(-1)?.payload.broadcast_id },
  });
  expect(lines[20]).toMatchObject({ jobs: 3, msg: 'more jobs wait, because their workers have ended' });
});

test('attempts that ended with their worker do not count against an error of the job', async () => {
  await worker.stop(5_000);
  const discarded: number[] = [];
  await start({
    run: async () => {
      throw new Error('a bug');
    },
    discard: async ({ id }) => void discarded.push(id),
  });
  await db.transaction(async (tx) => {
    await enqueue(tx, ready(1));
    await tx.query(sql('', 'update jobs set attempt = 7, cut_offs = 7'));
  });
  worker.producer('fan_out').wake();
  await expect.poll(() => db.query(sql('', 'select from jobs where due_at is not null'))).toHaveLength(1);
  expect(discarded).toEqual([]);
});

test('a batch that fails because of the database does not use up an attempt', async () => {
  await worker.stop(5_000);
  const unavailable = Object.assign(new Error('the database is away'), { code: '57P01' });
  await start({
    async run(jobs, leaseId) {
      batches.push([...jobs]);
      if (batches.length === 1) throw unavailable;
      await gate;
      await completeAll(jobs, leaseId);
      return [];
    },
  });
  await db.transaction(async (tx) => {
    await enqueue(tx, ready(1));
    await tx.query(sql('', 'update jobs set attempt = 7'));
  });
  worker.producer('fan_out').wake();
  const dueNow = sql('', 'update jobs set due_at = now() where due_at is not null returning id');
  await expect.poll(() => db.query(dueNow)).toHaveLength(1);
  await queueEmpty();
  expect(batches.flat().map(({ attempt }) => attempt)).toEqual([8, 8]);
});

test('a batch that fails while another one is released runs once again, not twice', async () => {
  await worker.stop(5_000);
  const unavailable = Object.assign(new Error('the database is away'), { code: '57P01' });
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  const gates = [Promise.reject(unavailable), first.promise];
  gates[0]?.catch(() => {});
  let hasFailed = false;
  const watched: Database = {
    ...db,
    async query(statement, values) {
      if (statement.name === 'release_interrupted_jobs' && !hasFailed) {
        hasFailed = true;
        first.reject(unavailable);
        await db.query(sql('', 'select')); // long enough for the failure to be handled
      }
      return db.query(statement, values);
    },
  };
  const oneByOne = { slots: 4, slotsPerPartition: 4, gatherBelow: 0, maxJobs: 1, maxWeight: 1 };
  const run: Handler['run'] = async (jobs, leaseId) => {
    batches.push([...jobs]);
    await gates[batches.length - 1];
    if (batches.length > 2) await second.promise;
    await completeAll(jobs, leaseId);
    return [];
  };
  await start({ ...oneByOne, run }, { on: watched, pollMs: 20 });
  await enqueue(db, ready(2));
  worker.producer('fan_out').wake();
  await expect.poll(() => batches.length).toBe(4);
  // Jobs that only a poll can find, one after the other: a poll also releases and claims.
  for (const count of [5, 6]) {
    await enqueue(db, ready(1));
    await expect.poll(() => batches.length).toBe(count);
  }
  second.resolve();
  await queueEmpty();
  const runs = Map.groupBy(batches.flat(), ({ id }) => id);
  expect([...runs.values()].map(({ length }) => length)).toEqual([2, 2, 1, 1]);
});

const leaseIds = async () =>
  (await db.query<{ id: string }>(sql('', 'select id from leases'))).map(({ id }) => id);

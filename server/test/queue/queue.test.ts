import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { backoff } from '../../src/queue/backoff.ts';
import { claim } from '../../src/queue/claim.ts';
import { complete, LeaseLost } from '../../src/queue/complete.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import {
  ALL_PRIORITIES,
  BULK_PRIORITIES,
  type JobKind,
  type NewJob,
  SMALL_PRIORITIES,
} from '../../src/queue/jobs.ts';
import { Lease, Rescuer, releaseNode, rescueAll } from '../../src/queue/lease.ts';
import { promote } from '../../src/queue/promote.ts';
import { release } from '../../src/queue/release.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const NIL = '00000000-0000-0000-0000-000000000000';
let testDatabase: TestDatabase;
let db: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  db = openDatabase(testDatabase.connection, { size: 8, name: 'test' });
});
afterAll(async () => {
  await db.close();
  await testDatabase.drop();
});
beforeEach(async () => {
  await db.query(sql('clear', 'truncate jobs, leases'));
});

const job = (projectId: string, extra: Partial<NewJob<'fan_out'>> = {}): NewJob<'fan_out'> => ({
  kind: 'fan_out',
  projectId,
  priority: 0,
  weight: 1,
  payload: { broadcast_id: newId() },
  ...extra,
});

const wanted = (extra: object = {}) => ({
  kind: 'fan_out' as const,
  leaseId: newId(),
  maxJobs: 100,
  maxWeight: 1_000_000,
  maxPartitions: 100,
  exceptPartitions: [],
  afterPartition: NIL,
  oldestFirst: false,
  priorities: ALL_PRIORITIES,
  ...extra,
});

test('a job is claimed by one worker only, however many claim at once', async () => {
  await enqueue(
    db,
    Array.from({ length: 500 }, () => job(newId())),
  );
  const claims = await Promise.all(
    Array.from({ length: 8 }, () => claim(db, wanted({ maxPartitions: 1000 }))),
  );
  const rest = await claim(db, wanted({ maxPartitions: 1000, maxJobs: 1000 }));
  const ids = [...claims.flat(), ...rest].map((one) => one.id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBe(500);
});

test("a claim alternates between projects: a campaign of one does not delay another's message", async () => {
  const [bulk, single] = [newId(), newId()];
  await enqueue(
    db,
    Array.from({ length: 200 }, () => job(bulk, { priority: 2, weight: 1000 })),
  );
  await enqueue(db, [job(single)]);
  const jobs = await claim(db, wanted({ maxWeight: 4000 }));
  expect(jobs.some((one) => one.projectId === single)).toBe(true);
  expect(jobs.filter((one) => one.projectId === bulk).length).toBeLessThanOrEqual(4);
});

test('jobs with a partition key alternate by it, whatever their project is', async () => {
  const [projectId, busy, other] = [newId(), newId(), newId()];
  const message = (webhookId: string): NewJob<'send_webhook'> => ({
    ...{ kind: 'send_webhook', projectId, partitionKey: webhookId, priority: 1, weight: 1 },
    payload: { webhook_id: webhookId, event_ids: [newId()], attempt: 0, since_ms: 0 },
  });
  await enqueue(
    db,
    Array.from({ length: 100 }, () => message(busy)),
  );
  await enqueue(db, [message(other)]);
  const jobs = await claim(db, { ...wanted({ maxJobs: 4 }), kind: 'send_webhook' });
  expect(jobs.filter((one) => one.partitionKey === busy)).toHaveLength(3);
  expect(jobs.filter((one) => one.partitionKey === other)).toHaveLength(1);
  expect(jobs.every((one) => one.projectId === projectId)).toBe(true);
});

test('within a project small work precedes bulk, unless the claim is for the oldest jobs', async () => {
  const project = newId();
  await enqueue(db, [job(project, { priority: 2 })]);
  await enqueue(db, [job(project, { priority: 0 })]);
  const [first] = await claim(db, wanted({ maxJobs: 1 }));
  expect(first?.priority).toBe(0);
  await enqueue(db, [job(project, { priority: 0 })]);
  const [oldest] = await claim(db, wanted({ maxJobs: 1, oldestFirst: true }));
  expect(oldest?.priority).toBe(2);
});

test('a claim for small work passes over projects that have only bulk', async () => {
  const projects = [newId(), newId(), newId()].sort();
  await enqueue(db, [
    job(projects[0] as string, { priority: 2 }),
    job(projects[1] as string, { priority: 2 }),
    job(projects[1] as string, { priority: 1 }),
    job(projects[2] as string, { priority: 0 }),
  ]);
  const small = { priorities: SMALL_PRIORITIES, maxPartitions: 1 };
  const [first] = await claim(db, wanted(small));
  expect(first).toMatchObject({ projectId: projects[1], priority: 1 });
  const [second] = await claim(db, wanted({ ...small, oldestFirst: true }));
  expect(second).toMatchObject({ projectId: projects[2], priority: 0 });
  expect(await claim(db, wanted(small))).toEqual([]);
  const bulk = await claim(db, wanted({ priorities: BULK_PRIORITIES }));
  expect(bulk.map(({ projectId }) => projectId)).toEqual(projects.slice(0, 2));
});

test('a batch ends with the job that fills it, and always has at least one whole job', async () => {
  const project = newId();
  await enqueue(db, [job(project, { weight: 5000 }), job(project, { weight: 10 })]);
  expect(await claim(db, wanted({ maxWeight: 100 }))).toHaveLength(1);
  expect(await claim(db, wanted({ maxWeight: 100 }))).toHaveLength(1);
});

test('projects with enough in flight are skipped, and the next claim continues after the last', async () => {
  const projects = [newId(), newId(), newId()].sort();
  await enqueue(
    db,
    projects.map((id) => job(id)),
  );
  const [second] = await claim(db, wanted({ maxPartitions: 1, exceptPartitions: [projects[0]] }));
  expect(second?.projectId).toBe(projects[1]);
  const [third] = await claim(db, wanted({ maxPartitions: 1, afterPartition: projects[1] }));
  expect(third?.projectId).toBe(projects[2]);
});

test('if more projects have bulk than fit into a batch, each gets one job before any gets two', async () => {
  const projects = Array.from({ length: 45 }, () => newId());
  for (let round = 0; round < 3; round += 1) {
    await enqueue(
      db,
      projects.map((id) => job(id, { priority: 2, weight: 1000 })),
    );
  }
  const late = newId();
  await enqueue(db, [job(late, { priority: 2, weight: 1000 })]);
  const served: string[] = [];
  while (served.length < projects.length + 1) {
    const jobs = await claim(
      db,
      wanted({ maxWeight: 4000, maxPartitions: 32, afterPartition: served.at(-1) ?? NIL }),
    );
    served.push(...jobs.map((one) => one.projectId));
  }
  expect(new Set(served.slice(0, 46))).toEqual(new Set([...projects, late]));
});

test('after the last project the claim continues with the first, in the same batch', async () => {
  const projects = [newId(), newId(), newId()].sort();
  await enqueue(
    db,
    projects.map((id) => job(id)),
  );
  const jobs = await claim(db, wanted({ afterPartition: projects[1] }));
  expect(jobs.map((one) => one.projectId)).toEqual([projects[2], projects[0], projects[1]]);
});

test('a claim locks hardly more rows than it takes', async () => {
  const projects = Array.from({ length: 32 }, () => newId());
  for (const id of projects) {
    await enqueue(
      db,
      Array.from({ length: 100 }, () => job(id, { priority: 2, weight: 1000 })),
    );
  }
  await db.transaction(async (tx) => {
    expect(await claim(tx, wanted({ maxJobs: 256, maxWeight: 4000 }))).toHaveLength(4);
    const [free] = await db.query<{ count: number }>(
      sql('', 'select count(*) from (select from jobs for update skip locked) free'),
    );
    expect(free?.count).toBeGreaterThanOrEqual(32 * 100 - 32 * 8);
  });
});

test('a job with a due time is ready only when it has come', async () => {
  const now = Date.now();
  await enqueue(db, [job(newId(), { dueAtMs: now + 60_000 })]);
  expect(await claim(db, wanted())).toHaveLength(0);
  expect((await promote(db, now)).kinds.size).toBe(0);
  expect((await promote(db, now + 60_000)).kinds).toEqual(new Set(['fan_out']));
  expect(await claim(db, wanted())).toHaveLength(1);
});

test('completing a job that another worker holds rolls the whole transaction back', async () => {
  const mine = newId();
  await enqueue(db, [job(newId())]);
  const [held] = await claim(db, wanted({ leaseId: mine }));
  if (held === undefined) throw new Error('nothing was claimed');
  await release(db, { leaseId: mine, jobIds: [held.id] });
  await claim(db, wanted());
  const work = db.transaction(async (tx) => {
    await tx.query(sql('mark', "insert into leases (id, node, expires_at) values ($1, 'mark', now())"), [
      newId(),
    ]);
    await complete(tx, mine, [held.id]);
  });
  await expect(work).rejects.toThrow(LeaseLost);
  const rows = await db.query<{ count: number }>(
    sql('marks', "select count(*) from leases where node = 'mark'"),
  );
  expect(rows[0]?.count).toBe(0);
});

/** Releases jobs as a server that has observed the leases for four seconds. */
async function rescueAs(ownLeaseId: string): Promise<Set<JobKind>> {
  let nowMs = 0;
  const rescuer = new Rescuer(db, { monotonicMs: () => nowMs });
  const kinds = await rescuer.rescue(ownLeaseId, Date.now());
  for (nowMs of [2_000, 4_000])
    for (const kind of await rescuer.rescue(ownLeaseId, Date.now())) kinds.add(kind);
  return kinds;
}

test('jobs of a worker with an expired lease are released, those of a living one are not', async () => {
  const living = new Lease({ db, node: 'living', onError: () => {} });
  await living.start();
  const dead = newId();
  await db.query(
    sql('dead', "insert into leases (id, node, expires_at) values ($1, 'dead', now() - interval '1 second')"),
    [dead],
  );
  await enqueue(db, [job(newId()), job(newId())]);
  await claim(db, wanted({ leaseId: dead, maxJobs: 1 }));
  await claim(db, wanted({ leaseId: living.id, maxJobs: 1 }));
  expect(await rescueAs('ffffffff-ffff-ffff-ffff-ffffffffffff')).toEqual(new Set(['fan_out']));
  const again = await claim(db, wanted());
  expect(again.map((one) => one.attempt)).toEqual([2]);
  await living.stop();
  expect(await claim(db, wanted())).toHaveLength(1);
});

test('a lease that is ahead of the clock, which went back, lasts no longer than a new one', async () => {
  const living = new Lease({ db, node: 'living', onError: () => {} });
  await living.start();
  const dead = newId();
  await db.query(
    sql('', "insert into leases (id, node, expires_at) values ($1, 'dead', now() + interval '1 hour')"),
    [dead],
  );
  await enqueue(db, [job(newId())]);
  await claim(db, wanted({ leaseId: dead }));
  const ends = async () =>
    db.query<{ node: string; ahead: boolean }>(
      sql(
        'leases_ahead',
        `select node, expires_at > now() + interval '8 seconds' as ahead from leases order by node`,
      ),
    );
  // Its worker may live, and renew it.
  expect(await rescueAs(living.id)).toEqual(new Set());
  expect(await ends()).toEqual([
    { node: 'dead', ahead: false },
    { node: 'living', ahead: false },
  ]);
  await db.query(sql('', "update leases set expires_at = expires_at - interval '9 seconds' where id = $1"), [
    dead,
  ]);
  expect(await rescueAs(living.id)).toEqual(new Set(['fan_out']));
  await living.stop();
});

test('when the clock goes forward, the leases of workers that renew them do not end', async () => {
  const [living, dead] = [newId(), newId()];
  const insert = "insert into leases (id, node, expires_at) values ($1, $2, now() - interval '1 hour')";
  await db.query(sql('', insert), [living, 'living']);
  await db.query(sql('', insert), [dead, 'dead']);
  await enqueue(db, [job(newId()), job(newId())]);
  await claim(db, wanted({ leaseId: living, maxJobs: 1 }));
  await claim(db, wanted({ leaseId: dead, maxJobs: 1 }));
  let nowMs = 0;
  const rescuer = new Rescuer(db, { monotonicMs: () => nowMs });
  const nodes = () => db.query<{ node: string }>(sql('lease_nodes', 'select node from leases order by node'));
  for (const after of [0, 1_000, 2_000, 3_000, 3_999]) {
    nowMs = after;
    expect(await rescuer.rescue(NIL, Date.now())).toEqual(new Set());
    // Another jump follows each renewal.
    await db.query(sql('', "update leases set expires_at = expires_at - interval '1 minute' where id = $1"), [
      living,
    ]);
  }
  // No lease was observed meanwhile: perhaps the database was unavailable.
  nowMs = 60_000;
  expect(await rescuer.rescue(NIL, Date.now())).toEqual(new Set());
  nowMs = 62_000;
  expect(await rescuer.rescue(NIL, Date.now())).toEqual(new Set());
  await db.query(sql('', "update leases set expires_at = expires_at - interval '1 minute' where id = $1"), [
    living,
  ]);
  expect(await nodes()).toEqual([{ node: 'dead' }, { node: 'living' }]);
  nowMs = 64_000;
  expect(await rescuer.rescue(NIL, Date.now())).toEqual(new Set(['fan_out']));
  expect(await nodes()).toEqual([{ node: 'living' }]);
});

test('an expired lease is released beside a job that an open transaction holds', async () => {
  const dead = newId();
  await db.query(
    sql('', "insert into leases (id, node, expires_at) values ($1, 'dead', now() - interval '1 second')"),
    [dead],
  );
  await enqueue(db, [job(newId()), job(newId())]);
  const [held, other] = await claim(db, wanted({ leaseId: dead }));
  const living = new Lease({ db, node: 'living', onError: () => {} });
  await living.start();
  const leaseId = living.id;
  await db.transaction(async (tx) => {
    await tx.query(sql('', 'select from jobs where id = $1 for update'), [held?.id]);
    expect(await rescueAs(NIL)).toEqual(new Set(['fan_out']));
    expect((await claim(db, wanted({ leaseId }))).map(({ id }) => id)).toEqual([other?.id]);
  });
  expect(await rescueAs(NIL)).toEqual(new Set(['fan_out']));
  expect((await claim(db, wanted({ leaseId }))).map(({ id }) => id)).toEqual([held?.id]);
  await living.stop();
});

test('jobs of a node whose process has ended are released at once, those of others are not', async () => {
  const [ended, running] = ['ended', 'running'].map((node) => new Lease({ db, node, onError: () => {} })) as [
    Lease,
    Lease,
  ];
  await Promise.all([ended.start(), running.start()]);
  await enqueue(db, [job(newId()), job(newId())]);
  await claim(db, wanted({ leaseId: ended.id, maxJobs: 1 }));
  await claim(db, wanted({ leaseId: running.id, maxJobs: 1 }));
  expect(await releaseNode(db, 'ended')).toEqual(new Set(['fan_out']));
  expect(await releaseNode(db, 'ended')).toEqual(new Set());
  expect((await claim(db, wanted())).map((one) => one.attempt)).toEqual([2]);
  await Promise.all([ended.stop(), running.stop()]);
});

test('a job is delayed when its worker has ended in more than three attempts', async () => {
  await enqueue(db, [job(newId()), job(newId())]);
  const [often] = await db.query<{ id: number }>(
    sql('', 'update jobs set cut_offs = 3 where id = (select max(id) from jobs) returning id'),
  );
  for (const cutOffs of [[0, 3], [1]]) {
    expect((await claim(db, wanted())).map((one) => one.cutOffs)).toEqual(cutOffs);
    await rescueAs(NIL);
  }
  const delayed = sql(
    '',
    'select id, lease_id, due_at > now() as is_later from jobs where due_at is not null',
  );
  expect(await db.query(delayed)).toEqual([{ id: often?.id, lease_id: null, is_later: true }]);
  const inTwoMinutes = Date.now() + 121_000;
  expect((await promote(db, inTwoMinutes)).kinds).toEqual(new Set(['fan_out']));
  expect((await claim(db, wanted())).map((one) => one.cutOffs)).toEqual([2, 4]);
});

test.each([
  ['of a node whose process has ended', (): Promise<unknown> => releaseNode(db, 'ended')],
  ['of all workers before the start', () => rescueAll(db)],
])('releasing the jobs %s leaves those to be delayed whose workers have ended often', async (_, end) => {
  const ended = new Lease({ db, node: 'ended', onError: () => {} });
  await ended.start();
  await enqueue(db, [job(newId()), job(newId())]);
  await db.query(sql('', 'update jobs set cut_offs = 3 where id = (select max(id) from jobs)'));
  await claim(db, wanted({ leaseId: ended.id }));
  await end();
  expect((await claim(db, wanted())).map((one) => one.cutOffs)).toEqual([1]);
  await rescueAs(NIL);
  expect(await db.query(sql('', 'select cut_offs from jobs where due_at > now()'))).toEqual([
    { cut_offs: 4 },
  ]);
  await ended.stop();
});

test('an attempt that was interrupted does not count, but the next one is not the first', async () => {
  const leaseId = newId();
  await enqueue(db, [job(newId()), job(newId())]);
  await db.query(sql('', 'update jobs set attempt = 5 where id = (select max(id) from jobs)'));
  const attempts: number[][] = [];
  for (let turn = 1; turn <= 3; turn += 1) {
    const claimed = await claim(db, wanted({ leaseId }));
    attempts.push(claimed.map(({ attempt }) => attempt));
    await release(db, { leaseId, jobIds: claimed.map(({ id }) => id), interrupted: true });
  }
  expect(attempts).toEqual([
    [1, 6],
    [2, 6],
    [2, 6],
  ]);
});

test('each retry waits longer, at most an hour, but as long as the other side requires', () => {
  const longest = [1, 2, 3, 4, 5, 6, 7, 50].map((attempt) => backoff(attempt, { random: () => 1 }));
  expect(longest).toEqual([1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000, 3_600_000, 3_600_000]);
  expect(backoff(3, { random: () => 0.5 })).toBe(15_000);
  expect(backoff(1, { retryAfterMs: 42_000 })).toBe(42_000);
  expect(backoff(1, { retryAfterMs: 10 * 3_600_000 })).toBe(3_600_000);
  expect(backoff(5, { retryAfterMs: 0, random: () => 0.5 })).toBe(300_000);
});

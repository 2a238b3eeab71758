import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { isDatabaseUnavailable, openDatabase, sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { findWork } from '../../src/queue/find-work.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { load } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { unlessThorough } from '../support/rounds.ts';
import { startTestService, until } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

let database: TestDatabase;
let proxy: TcpProxy;
let url: string;
beforeAll(async () => {
  database = await createTestDatabase();
  const { host, port } = inject('testServer');
  const target = host?.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port: Number(port) };
  proxy = await startTcpProxy(target);
  url = `postgres://belfry@127.0.0.1:${proxy.port}/${database.connection.database}`;
});
afterAll(async () => {
  await proxy.close();
  await database.drop();
});
beforeEach(() => {
  proxy.onReply = () => {};
});

const SEEDS = 100;
const SECRET_KEY = randomBytes(32).toString('hex'); // a second attempt uses the same database
const BYTES = 1_500; // more than the responses to a connection start and the statements below

const seed = newSeed();

test(`one changed byte from the database ends at most its connection (FAULT_SEED=${seed})`, async () => {
  const random = randomFrom(seed);
  let ended = 0;
  for (let round = 0; round < SEEDS; round += 1) {
    const at = Math.floor(random() * BYTES);
    const flip = 1 + Math.floor(random() * 255);
    let seen = 0;
    proxy.onReply = (bytes) => {
      const index = at - seen;
      if (index >= 0 && index < bytes.length) bytes[index] = (bytes[index] ?? 0) ^ flip;
      seen += bytes.length;
    };
    const db = openDatabase({ connectionString: url }, { size: 1, name: 'corrupted' });
    const statements = Array.from({ length: 4 }, (_, number) =>
      db.query(sql(`rows_${number % 2}`, 'select n, n::text, now() as at from generate_series(1, 3) n'), []),
    );
    const listener = db.connect().then((client) => client.query('select 1').finally(() => client.end()));
    const settled = Promise.allSettled([...statements, listener]);
    // A changed length makes the driver wait for bytes that the server never sends.
    const finished = await Promise.race([settled, quiet(() => seen)]);
    if (finished === undefined) proxy.cut();
    ended += (await settled).filter(({ status }) => status === 'rejected').length;
    await db.close();
  }
  expect(ended).toBeGreaterThan(SEEDS / 10);
});

test('an unreadable message fails the connection as a broken one does', async () => {
  proxy.onReply = (bytes) => {
    // A data row with far more columns than bytes.
    const row = bytes.indexOf(Buffer.from([0x44, 0, 0, 0, 11, 0, 1]));
    if (row >= 0) bytes[row + 5] = 0x7f;
  };
  const db = openDatabase({ connectionString: url }, { size: 1, name: 'corrupted' });
  const error: unknown = await db.query(sql('one', 'select 1 as n')).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: '08P01' });
  expect(isDatabaseUnavailable(error)).toBe(true);
  proxy.onReply = () => {};
  expect(await db.query(sql('one', 'select 1 as n'))).toEqual([{ n: 1 }]);
  await db.close();
});

test('an error without its end fails the connection as a broken one does', async () => {
  proxy.onReply = (bytes) => {
    if (bytes.includes('SFATAL')) bytes[bytes.length - 1] = 0x53;
  };
  // The rejected login is the last message of its connection.
  const db = openDatabase({ connectionString: `${url}_missing` }, { size: 1, name: 'corrupted' });
  const error: unknown = await db.query(sql('one', 'select 1 as n')).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: '08P01' });
  await db.close();
});

test('a kind of jobs that does not exist is ignored until the next poll', async () => {
  const db = openDatabase({ connectionString: url }, { size: 1, name: 'corrupted' });
  const project = newId();
  const broadcast = { broadcast_id: newId() };
  await enqueue(db, [{ kind: 'fan_out', projectId: project, priority: 0, weight: 1, payload: broadcast }]);
  proxy.onReply = (bytes) => {
    const kind = bytes.indexOf('fan_out');
    if (kind >= 0) bytes[kind] = 0x46;
  };
  expect(await findWork(db, newId())).toEqual(new Set());
  proxy.onReply = () => {};
  expect(await findWork(db, newId())).toEqual(new Set(['fan_out']));
  await db.query(sql('', 'delete from jobs'));
  await db.close();
});

const random = randomFrom(seed);

test(`a service that receives changed bytes continues and loses no accepted broadcast (FAULT_SEED=${seed})`, {
  repeats: unlessThorough(0, 50),
}, async ({ signal }) => {
  const settings = { DATABASE_URL: url, SECRET_KEY };
  const service = await startTestService({ settings });
  let changed = 0;
  let replies = 0;
  try {
    const running = load(service.project, { clients: 4 });
    await running.accepted(5);
    proxy.onReply = (bytes) => {
      replies += 1;
      if (random() > 0.04) return;
      const index = Math.floor(random() * bytes.length);
      bytes[index] = (bytes[index] ?? 0) ^ (1 + Math.floor(random() * 255));
      changed += 1;
    };
    while (changed <= 30 && !signal.aborted) {
      await quiet(() => (changed > 30 ? 0 : replies), 300);
      proxy.cut(); // ends connections that wait because a length was changed
    }
    proxy.onReply = () => {};
    const before = running.responses.filter(({ status }) => status === 201).length;
    await running.accepted(before + 10);
    await running.stop();
    const rows = await service.rows<{ topic: string }>('select topic from broadcasts');
    const stored = new Set(rows.map(({ topic }) => topic));
    const lost = running.responses.filter(({ status, tag }) => status === 201 && !stored.has(tag));
    expect(lost).toEqual([]);
  } finally {
    await service.stop();
  }
});

/** Resolves when the count has not changed for a moment. */
async function quiet(count: () => number, everyMs = 100): Promise<undefined> {
  let before = -1;
  await until(
    () => {
      const same = before === count();
      before = count();
      return same;
    },
    (same) => same,
    { everyMs },
  );
}

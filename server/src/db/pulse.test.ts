import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../test/support/database.ts';
import { startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts';
import { type Database, openDatabase, sql } from './client.ts';
import { DatabaseSilent, Pulse } from './pulse.ts';

let database: TestDatabase;
let proxy: TcpProxy;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  const { host, port } = inject('testServer');
  proxy = await startTcpProxy(
    host?.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port: Number(port) },
  );
  const connectionString = `postgres://belfry@127.0.0.1:${proxy.port}/${database.connection.database}`;
  db = openDatabase({ connectionString }, { size: 2, name: 'pulse' });
});
afterEach(async () => {
  await proxy.close();
  await db.close();
});

const run = <Row>(text: string) => db.query<Row>(sql('', text));

/** Blocks the event loop without using the processor, as SIGSTOP does. */
function stopFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test('a statement may pause in the middle of a row, when PostgreSQL has sent a full buffer', async () => {
  const rows = await run<{ a: string }>("select repeat('x', 9000) as a union all select pg_sleep(6)::text");
  expect(rows.map(({ a }) => a.length)).toEqual([9000, 0]);
});

describe('a process that was stopped does not conclude that the database is silent', () => {
  test('while it received the rows of a statement', async () => {
    let bytes = 0;
    proxy.onReply = (part) => {
      bytes += part.length;
      if (bytes - part.length < 500_000 && bytes >= 500_000) stopFor(4_000);
    };
    expect(await run("select repeat('x', 1000) from generate_series(1, 20000)")).toHaveLength(20_000);
  });

  test('while it probed the database', async () => {
    await run('select 1');
    let stops = 0;
    // Only the probe opens a connection meanwhile.
    proxy.onReply = (part) => {
      if (part[0] !== 0x52 || stops > 0) return;
      stops += 1;
      stopFor(2_500);
    };
    await run('select pg_sleep(6)');
    expect(stops).toBe(1);
  });

  test('while a statement ran longer than its limit', async () => {
    const pulse = new Pulse(database.connection, 500);
    const failures: Error[] = [];
    const wait = pulse.begin((error) => failures.push(error));
    const looked = new Promise((resolve) => setTimeout(resolve, 1_000));
    stopFor(4_500);
    await looked;
    expect(failures).toEqual([]);
    pulse.end(wait, { response: true });
    pulse.close();
  });
});

test('statements whose response was lost end when the server has ended them', async () => {
  const pulse = new Pulse(database.connection, 500);
  const lost = [1, 2].map(() => new Promise((resolve) => pulse.begin(resolve)));
  for (const failure of await Promise.all(lost)) expect(failure).toBeInstanceOf(DatabaseSilent);
  pulse.close();
});

test('a transaction that gets no response ends, and its connection is replaced', async () => {
  const { port } = proxy;
  const connectionString = `postgres://belfry@127.0.0.1:${port}/${database.connection.database}`;
  const options = { size: 1, name: 'lost', statementTimeoutMs: 500 };
  const one = openDatabase({ connectionString }, options);
  const silent = one.transaction(async (tx) => {
    await tx.query(sql('', 'select 1'));
    let isLost = false;
    proxy.onReply = () => {
      if (isLost) return true;
      isLost = true;
      return false;
    };
    await tx.query(sql('', 'select 2'));
  });
  await expect(silent).rejects.toThrow(DatabaseSilent);
  expect(await one.query(sql('', 'select 3 as a'))).toEqual([{ a: 3 }]);
  await one.close();
});

test('a rollback that gets no response ends, and its connection is replaced', async () => {
  const connectionString = `postgres://belfry@127.0.0.1:${proxy.port}/${database.connection.database}`;
  const one = openDatabase({ connectionString }, { size: 1, name: 'lost', statementTimeoutMs: 500 });
  const closed = Promise.withResolvers<void>();
  const failure = new Error('the work failed');
  const failed = one.transaction(async (tx) => {
    await tx.query(sql('', 'select 1'));
    let isLost = false;
    proxy.onReply = (_bytes, connection) => {
      if (isLost) return true;
      connection.once('close', () => closed.resolve());
      isLost = true;
      return false;
    };
    throw failure;
  });
  await expect(failed).rejects.toBe(failure);
  await closed.promise;
  expect(await one.query(sql('', 'select 3 as a'))).toEqual([{ a: 3 }]);
  await one.close();
});

test('a statement that was sent behind another one has its time from the end of that', async () => {
  const pulse = new Pulse(database.connection, 500);
  const failures: Error[] = [];
  const [first, second] = [1, 2].map(() => pulse.begin((error) => failures.push(error)));
  if (first === undefined || second === undefined) throw new Error('two waits were begun');
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  pulse.end(first, { response: true });
  pulse.restart(second);
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  expect(failures).toEqual([]);
  pulse.end(second, { response: true });
  pulse.close();
});

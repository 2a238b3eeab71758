import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Database, isDatabaseUnavailable, openDatabase, sql } from '../../src/db/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let testDatabase: TestDatabase;
/** With one connection, so that all statements are on it. */
let db: Database;
beforeAll(async () => {
  testDatabase = await createTestDatabase();
  db = openDatabase(testDatabase.connection, { size: 1, name: 'test' });
  await db.query(sql('', 'create table marks (mark text primary key)'));
});
afterAll(async () => {
  await db.close();
  await testDatabase.drop();
});
afterEach(() => db.query(sql('', 'delete from marks')));

const insert = sql('', 'insert into marks values ($1) returning mark');
const marks = async () =>
  (await db.query<{ mark: string }>(sql('', 'select mark from marks order by 1'))).map(({ mark }) => mark);

test('a transaction is committed with all of its statements, and their results are their own', async () => {
  const results = await db.transaction(async (tx) => [
    await tx.query(insert, ['a']),
    await tx.query(sql('', `insert into marks values ('b')`)),
    await tx.query(sql('', 'select count(*)::int as count from marks')),
  ]);
  expect(results).toEqual([[{ mark: 'a' }], [], [{ count: 2 }]]);
  expect(await marks()).toEqual(['a', 'b']);
});

test('its first statement is a part of it, whatever it returns', async () => {
  const failure = new Error('not today');
  for (const [text, result] of [
    [`insert into marks values ('x')`, []],
    [`insert into marks values ('x') returning mark`, [{ mark: 'x' }]],
  ] as const) {
    let first: unknown;
    const failed = db.transaction(async (tx) => {
      first = await tx.query(sql('', text));
      throw failure;
    });
    await expect(failed).rejects.toBe(failure);
    expect(first).toEqual(result);
    expect(await marks()).toEqual([]);
  }
});

test('a transaction without a statement does nothing', async () => {
  expect(await db.transaction(async () => 'done')).toBe('done');
  await expect(db.transaction(() => Promise.reject(new Error('early')))).rejects.toThrow('early');
});

test('after a failed first statement the connection is usable, also for the same statement', async () => {
  const later = sql('first_of_later', 'select mark from later');
  const read = () => db.transaction((tx) => tx.query(later));
  await expect(read()).rejects.toMatchObject({ code: '42P01' }); // it could not be prepared
  await db.query(sql('', 'create table later as select 1 as mark'));
  expect(await read()).toEqual([{ mark: 1 }]);
  const named = sql('first_insert', 'insert into marks values ($1)');
  const write = (mark: string) => db.transaction((tx) => tx.query(named, [mark]));
  await db.query(insert, ['a']);
  for (let count = 0; count < 2; count += 1)
    await expect(write('a')).rejects.toMatchObject({ code: '23505' }); // it could be prepared
  await write('b');
  expect(await marks()).toEqual(['a', 'b']);
});

test('statements that are sent together run in their order, and the first failure is reported', async () => {
  const [a, b] = await db.transaction((tx) =>
    Promise.all([
      tx.query(insert, ['a']),
      tx.query(sql('', 'select count(*)::int as count from marks')),
      tx.query(insert, ['b']),
    ]),
  );
  expect([a, b]).toEqual([[{ mark: 'a' }], [{ count: 1 }]]);
  const failed = db.transaction(async (tx) => {
    await Promise.all([tx.query(insert, ['c']), tx.query(insert, ['a']), tx.query(insert, ['d'])]);
  });
  await expect(failed).rejects.toMatchObject({ code: '23505' });
  expect(await marks()).toEqual(['a', 'b']);
});

test('a lost connection fails every statement that was sent', async () => {
  let results: PromiseSettledResult<unknown>[] = [];
  const failed = db.transaction(async (tx) => {
    const die = tx.query(sql('', 'select pg_terminate_backend(pg_backend_pid())'));
    results = await Promise.allSettled([die, tx.query(insert, ['a']), tx.query(insert, ['b'])]);
    await die;
  });
  // The socket may be closed before the server's own error is read.
  expect(isDatabaseUnavailable(await failed.catch((error: unknown) => error))).toBe(true);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(await marks()).toEqual([]);
});

test('a statement after the end of its transaction is not run', async () => {
  let late: (() => Promise<unknown>) | undefined;
  await db.transaction(async (tx) => {
    await tx.query(insert, ['a']);
    late = () => tx.query(insert, ['b']);
  });
  await expect(late?.()).rejects.toThrow('has ended');
  expect(await marks()).toEqual(['a']);
});

test('nothing is run beside a first statement that fails', async () => {
  const failed = db.transaction((tx) => Promise.all([tx.query(sql('', 'begun')), tx.query(insert, ['a'])]));
  await expect(failed).rejects.toMatchObject({ code: '42601' });
  expect(await marks()).toEqual([]);
});

test('a statement that waits for the first is not run after the end of its transaction', async () => {
  const failure = new Error('not today');
  let waiting: Promise<unknown> | undefined;
  const failed = db.transaction(async (tx) => {
    void tx.query(insert, ['a']);
    waiting = tx.query(insert, ['b']);
    waiting.catch(() => {});
    throw failure;
  });
  await expect(failed).rejects.toBe(failure);
  await expect(waiting).rejects.toThrow('has ended');
  expect(await marks()).toEqual([]);
});

test('a transaction whose failed statement is ignored does not count as committed', async () => {
  const failed = db.transaction(async (tx) => {
    await tx.query(insert, ['a']);
    await tx.query(insert, ['a']).catch(() => {});
  });
  await expect(failed).rejects.toThrow('was rolled back');
  expect(await marks()).toEqual([]);
  await db.query(insert, ['b']);
  expect(await marks()).toEqual(['b']);
});

test('a connection to a server that became read-only is replaced', async () => {
  for (const write of [
    () => db.query(insert, ['a']),
    () => db.transaction((tx) => tx.query(insert, ['a'])),
    () => db.transaction(async (tx) => [await tx.query(sql('', 'select')), await tx.query(insert, ['a'])]),
  ]) {
    await db.query(sql('', 'set default_transaction_read_only = on'));
    await expect(write()).rejects.toMatchObject({ code: '25006' });
    await write();
    await db.query(sql('', 'delete from marks'));
  }
});

test('a statement of its own is repeated after a deadlock, a transaction is not', async () => {
  await db.query(sql('', 'create sequence tries'));
  const raise = "raise exception using errcode = 'deadlock_detected'";
  await db.query(
    sql(
      '',
      `create function mark_third_time() returns text language plpgsql as $$ begin
        if nextval('tries') < 3 then ${raise}; end if;
        insert into marks values ('third');
        return 'done';
      end $$`,
    ),
  );
  const third = sql('', 'select mark_third_time() as done');
  expect(await db.query(third)).toEqual([{ done: 'done' }]);
  expect(await marks()).toEqual(['third']);
  await db.query(sql('', 'alter sequence tries restart'));
  await expect(db.transaction((tx) => tx.query(third))).rejects.toMatchObject({ code: '40P01' });
  await db.query(sql('', 'alter sequence tries restart'));
  await db.query(sql('', 'alter sequence tries increment by -1 no minvalue'));
  await expect(db.query(third)).rejects.toMatchObject({ code: '40P01' });
});

import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { eraseContent } from '../../src/domain/after/erasure/erase-content.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsOf } from '../support/rows.ts';
import { rowsRead } from '../support/rows-read.ts';
import { until } from '../support/service.ts';

const PAGES = 12;
const USERS_PER_PAGE = 200;
const projectId = newId();
const sealer = createSealer([randomBytes(32)]);

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 3, name: 'erasure plans', isDistributed: false });
  // Other broadcasts, so that the tables are not small.
  await rowsOf(
    db,
    `with others as (
      insert into broadcasts (id, project_id, message, status)
      select gen_random_uuid(), gen_random_uuid(), 'other', 'processed' from generate_series(1, 2000)
      returning id
    )
    insert into broadcast_users (broadcast_id, page, user_ids)
    select id, 0, array[gen_random_uuid()] from others`,
  );
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

async function createUsers(count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId()).sort();
  await rowsOf(
    db,
    `insert into users (id, project_id, created_at, updated_at)
    select id, $2, now(), now() from unnest($1::uuid[]) as u (id)`,
    [ids, projectId],
  );
  return ids;
}

/** Creates a broadcast that reached these users, page by page. */
async function createBroadcast(pages: readonly string[][]): Promise<string> {
  const id = newId();
  await rowsOf(
    db,
    `insert into broadcasts (id, project_id, message, topic, status)
    values ($1, $2, 'text', 'all', 'processed')`,
    [id, projectId],
  );
  for (const [page, userIds] of pages.entries()) await addPage(id, page, userIds);
  return id;
}

const addPage = (id: string, page: number, userIds: readonly string[]) =>
  rowsOf(db, 'insert into broadcast_users (broadcast_id, page, user_ids) values ($1, $2, $3::uuid[])', [
    id,
    page,
    userIds,
  ]);
const beginErasing = (userIds: readonly string[]) =>
  rowsOf(db, "update users set deleted_at = '-infinity' where id = any ($1::uuid[])", [userIds]);
const hasContent = async (id: string) =>
  (await rowsOf<{ topic: string | null }>(db, 'select topic from broadcasts where id = $1', [id]))[0]
    ?.topic === 'all';
const inPages = (userIds: readonly string[], size = USERS_PER_PAGE) =>
  Array.from({ length: userIds.length / size }, (_, page) => userIds.slice(page * size, (page + 1) * size));

test('the cost of an erasure does not depend on the number of users that were erased before', async () => {
  const pages = inPages(await createUsers(PAGES * USERS_PER_PAGE));
  const id = await createBroadcast(pages);
  await db.query(sql('', 'analyze users, broadcasts, broadcast_users'));
  const half = USERS_PER_PAGE / 2;
  const read: number[] = [];
  for (const batch of inPages(pages.flat(), half)) {
    expect(await hasContent(id)).toBe(true);
    await beginErasing(batch);
    read.push(await rowsRead(db, (tx) => eraseContent(tx, [id])));
  }
  expect(await hasContent(id)).toBe(false);
  // A page is read again as long as one of its users is left.
  expect(Math.max(...read)).toBeLessThanOrEqual(USERS_PER_PAGE + 50);
});

test('a broadcast keeps its content until the last of its users is erased, on any page', async () => {
  for (const order of [
    [2, 0, 1],
    [1, 2, 0],
    [0, 2, 1],
  ]) {
    const pages = inPages(await createUsers(9), 3);
    const id = await createBroadcast(pages);
    const erase = () => db.transaction((tx) => eraseContent(tx, [id]));
    for (const page of order)
      for (const userId of pages[page] ?? []) {
        expect(await hasContent(id)).toBe(true);
        await beginErasing([userId]);
        await erase();
        await erase();
      }
    expect(await hasContent(id)).toBe(false);
  }
});

test('erased pages are not counted while pages of the broadcast are still written', async () => {
  const [first, empty, last] = inPages(await createUsers(3), 1) as [string[], string[], string[]];
  const id = await createBroadcast([first]);
  await rowsOf(db, "update broadcasts set status = 'enqueued' where id = $1", [id]);
  await rowsOf(db, "insert into jobs (kind, project_id, payload) values ('fan_out', $1, $2)", [
    projectId,
    JSON.stringify({ broadcast_id: id, page: 1 }),
  ]);
  const erase = () => db.transaction((tx) => eraseContent(tx, [id]));
  await beginErasing([...first, ...empty]);
  await erase();
  await addPage(id, 1, empty);
  await addPage(id, 2, last);
  await erase();
  await rowsOf(db, 'delete from jobs');
  await erase();
  expect(await hasContent(id)).toBe(true);
  await beginErasing(last);
  await erase();
  expect(await hasContent(id)).toBe(false);
});

test('an erasure with an older snapshot keeps the content and the count of erased pages', async () => {
  const pages = inPages(await createUsers(3), 1) as [string[], string[], string[]];
  const id = await createBroadcast(pages);
  await beginErasing(pages[0]);
  let other: Promise<void> | undefined;
  await db.transaction(async (tx) => {
    await eraseContent(tx, [id]);
    await beginErasing(pages[1]);
    other = db.transaction((second) => eraseContent(second, [id]));
    await until(
      () =>
        rowsOf(
          db,
          "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        ),
      (waiting) => waiting.length > 0,
    );
  });
  await other;
  expect(await hasContent(id)).toBe(true);
  const erasedPages = 'select erased_pages from broadcasts where id = $1';
  expect(await rowsOf(db, erasedPages, [id])).toEqual([{ erased_pages: 2 }]);
  await beginErasing(pages[2]);
  await db.transaction((tx) => eraseContent(tx, [id]));
  expect(await hasContent(id)).toBe(false);
});

test('rows that remain of erased users are not read repeatedly', async () => {
  const users = 3;
  const each = 5_000;
  const userIds = await createUsers(users);
  const owners = userIds.flatMap((userId) => Array.from({ length: each }, () => userId));
  await rowsOf(
    db,
    `insert into deliveries
      (user_id, notification_id, channel, broadcast_id, state, attempts, reason, first_attempt_at,
        last_attempt_at)
    select user_id, id, 'email', id, 'failed', 1, 'no such user', now(), now()
    from unnest($1::uuid[], $2::uuid[]) as d (user_id, id)`,
    [owners, owners.map((userId) => notificationId(newId(), userId))],
  );
  await rowsOf(
    db,
    `insert into events (project_id, id, type, user_ids, details)
    select $3, id, 'delivery.clicked', array[user_id],
      '{"code": "clicked", "payload": {"url": "https://a.example"}}'
    from unnest($1::uuid[], $2::uuid[]) as e (user_id, id)`,
    [owners, owners.map(() => newId()), projectId],
  );
  await rowsOf(db, `update users set deleted_at = now() where id = any ($1::uuid[])`, [userIds]);
  await rowsOf(db, 'analyze deliveries, events, users');
  let read = 0;
  const counted = async <Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result> => {
    let result: Result | undefined;
    read += await rowsRead(db, async (tx) => {
      result = await work(tx);
    });
    return result as Result;
  };
  const watched = {
    query: ((statement, values) => counted((tx) => tx.query(statement, values))) as Database['query'],
    transaction: counted as Database['transaction'],
  };
  const clock = { now: () => Date.now() + GRACE_MS + 1_000 };
  // A server that stops leaves the rest to the next one.
  expect(await purgeUsers({ db: watched, clock, sealer, signal: AbortSignal.abort() })).toBe(true);
  expect(await rowsOf(db, 'select user_id from deliveries where reason is null limit 1')).toEqual([]);
  while (await purgeUsers({ db: watched, clock, sealer }));
  expect(await rowsOf(db, 'select id from users where id = any ($1::uuid[])', [userIds])).toEqual([]);
  expect(await rowsOf(db, 'select user_id from deliveries where reason is not null limit 1')).toEqual([]);
  expect(await rowsOf(db, "select id from events where details -> 'payload' is not null limit 1")).toEqual(
    [],
  );
  expect(read).toBeLessThanOrEqual(6 * 2 * owners.length);
});

test('a user with many notifications is erased in as large steps beside others as alone', async () => {
  const userIds = await createUsers(100);
  const [long = ''] = userIds;
  const owners = [...userIds, ...Array.from({ length: 2_000 }, () => long)];
  await rowsOf(
    db,
    `insert into notifications (user_id, id, broadcast_id, sent_at)
    select user_id, id, id, now() from unnest($1::uuid[], $2::uuid[]) as n (user_id, id)`,
    [owners, owners.map((userId) => notificationId(newId(), userId))],
  );
  await rowsOf(db, 'update users set deleted_at = now() where id = any ($1::uuid[])', [userIds]);
  const clock = { now: () => Date.now() + GRACE_MS + 1_000 };
  let steps = 0;
  while (await purgeUsers({ db, clock, sealer })) steps += 1;
  expect(await rowsOf(db, 'select id from users where id = any ($1::uuid[])', [userIds])).toEqual([]);
  expect(await rowsOf(db, 'select 1 from notifications where user_id = $1 limit 1', [long])).toEqual([]);
  // 500 rows at a time, and the rest of the users.
  expect(steps).toBeLessThanOrEqual(10);
});

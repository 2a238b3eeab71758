import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { type BulkAction, changeAllNotifications } from '../../src/domain/line/notifications/change-all.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { rowsOf } from '../support/rows.ts';

// What happens to "mark all" while others change the same notifications, and with more than one batch.

let database: TestDatabase;
let db: Database;
let other: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'mark all', isDistributed: false });
  other = new pg.Client(database.connection);
  await other.connect();
});
afterAll(async () => {
  await other?.end();
  await db?.close();
  await database?.drop();
});

/** A user with this many unread notifications. */
async function userWith(count: number): Promise<string> {
  const userId = newId();
  const ids = Array.from({ length: count }, () => newId());
  await rowsOf(
    db,
    'insert into users (id, project_id, created_at, updated_at) values ($1, $1, now(), now())',
    [userId],
  );
  await rowsOf(
    db,
    `insert into notifications (user_id, id, broadcast_id, sent_at)
    select $1, id, id, now() from unnest($2::uuid[]) as n (id)`,
    [userId, ids],
  );
  return userId;
}

const changeAll = (action: BulkAction, userId: string) =>
  changeAllNotifications({ db, bus: { publish: () => undefined } as never }, action, {
    projectId: newId(),
    userId,
    filter: {},
  });

/** How many notifications the events of such changes count. */
async function counted(state: 'read' | 'seen', userId: string): Promise<number> {
  const events = await rowsOf<{ count: number }>(
    db,
    `select (details -> 'payload' ->> 'count')::int as count
    from events
    where type = 'notification.' || $1 and user_ids = array[$2::uuid]`,
    [state, userId],
  );
  return events.reduce((sum, { count }) => sum + count, 0);
}

async function states(userId: string) {
  const [row] = await rowsOf<Record<'all' | 'read' | 'seen' | 'archived' | 'times', number>>(
    db,
    `select count(*)::int as all, count(read_at)::int as read, count(seen_at)::int as seen,
      count(archived_at)::int as archived, count(distinct updated_at)::int as times
    from notifications
    where user_id = $1`,
    [userId],
  );
  return row;
}

test('a notification that another transaction changes meanwhile is marked with the others', async () => {
  const userId = await userWith(3);
  await other.query('begin');
  await other.query(
    `update notifications set seen_at = '2020-01-01', updated_at = now()
    where id = (select id from notifications where user_id = $1 order by id limit 1 offset 1)`,
    [userId],
  );
  const marking = changeAll('read', userId);
  const waiting = `select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  await expect.poll(() => rowsOf(db, waiting)).toHaveLength(1);
  await other.query('commit');
  await marking;
  expect(await states(userId)).toMatchObject({ read: 3, seen: 3 });
  expect(
    await rowsOf(db, "select from notifications where user_id = $1 and seen_at = '2020-01-01'", [userId]),
  ).toHaveLength(1);
});

test('more than a batch is marked with one time, and counted by the events', async () => {
  const userId = await userWith(12_000);
  await changeAll('read', userId);
  expect(await states(userId)).toEqual({ all: 12_000, read: 12_000, seen: 12_000, archived: 0, times: 1 });
  expect([await counted('read', userId), await counted('seen', userId)]).toEqual([12_000, 12_000]);
});

test('reading counts as seen what was not seen before', async () => {
  const userId = await userWith(3);
  await rowsOf(
    db,
    `update notifications set seen_at = '2020-01-01'
    where id = (select id from notifications where user_id = $1 order by id limit 1)`,
    [userId],
  );
  await changeAll('read', userId);
  expect([await counted('read', userId), await counted('seen', userId)]).toEqual([3, 2]);
});

test('two changes of all notifications at the same time both take effect', async () => {
  const userId = await userWith(6_000);
  await Promise.all([changeAll('read', userId), changeAll('archive', userId), changeAll('seen', userId)]);
  expect(await states(userId)).toMatchObject({ read: 6_000, seen: 6_000, archived: 6_000 });
});

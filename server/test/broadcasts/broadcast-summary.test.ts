import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { getBroadcast, listBroadcasts } from '../../src/domain/line/broadcasts/get.ts';
import { addPending, countDown } from '../../src/domain/line/ledger/finish.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// The summary of a broadcast: how many users failed and why, how many deliveries are pending, and when the
// broadcast is processed. A user counts once, however many deliveries failed.

let database: TestDatabase;
let db: Database;
let id: string;
const projectId = newId();
const users = Array.from({ length: 6 }, newId).sort();

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 3, name: 'summaries' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});
beforeEach(async () => {
  id = newId();
  await db.query(
    sql(
      '',
      `insert into broadcasts (id, project_id, message, status, total, failures, pending, awaited)
      values ($1, $2, $3, 'processing', 8, 2, 4, 3)`,
    ),
    [id, projectId, packJson('{"title":"Hello"}')],
  );
});

const keyOf = (user: string | undefined) => ({
  userId: user ?? '',
  notificationId: notificationId(id, user ?? ''),
});
const write = (tx: Queryable, user: string | undefined, channel: string, state: string) =>
  tx.query(
    sql(
      '',
      `insert into deliveries (
        user_id, notification_id, channel, broadcast_id, state, attempts, reason, 
first_attempt_at, last_attempt_at
      )
      values ($1, $2, $3, $4, $5, 1, 'no more ' || $3, now(), now())
      on conflict (user_id, notification_id, channel) do update set state = excluded.state`,
    ),
    [user, keyOf(user).notificationId, channel, id, state],
  );

/** Ends these deliveries in one transaction that reports this many first attempts. */
const end = (ends: [user: string | undefined, channel: string, state: string][], attempted = ends.length) =>
  db.transaction(async (tx) => {
    for (const [user, channel, state] of ends) await write(tx, user, channel, state);
    const failed = ends.filter(([, , state]) => state === 'failed').map(([user]) => keyOf(user));
    await countDown(tx, new Map([[id, { ended: ends.length, attempted, failed }]]));
  });

async function status() {
  const json = JSON.parse(String((await getBroadcast(db, projectId, id)) ?? '{}')) as {
    status: { status: string; summary: object; errors: { message: string }[] | null };
  };
  return {
    ...json.status,
    errors: json.status.errors?.map(({ message }) => message) ?? null,
  };
}

async function processedEvents() {
  const rows = await db.query<{ details: string }>(
    sql(
      '',
      `select details::text as details from events where broadcast_id = $1
        and type = 'broadcast.processed' order by id`,
    ),
    [id],
  );
  return rows.map(({ details }) => (JSON.parse(details) as { payload: object }).payload);
}

test('a user who failed on several channels counts once, with an error for each channel', async () => {
  await end([
    [users[3], 'sms', 'failed'],
    [users[1], 'slack', 'failed'],
    [users[1], 'email', 'failed'],
  ]);
  expect(await status()).toEqual({
    status: 'processed',
    // Includes the two recipients that the fan-out could not resolve.
    summary: { total: 8, failures: 4, pending: 1 },
    errors: [
      `email to user ${users[1]} failed: no more email`,
      `slack to user ${users[1]} failed: no more slack`,
      `sms to user ${users[3]} failed: no more sms`,
    ],
  });
  expect(await processedEvents()).toEqual([{ total: 8, failures: 4, pending: 1 }]);
});

test('the errors found before sending come first, and any text is escaped', async () => {
  const { userId, notificationId } = keyOf(users[0]);
  const reason = 'a "quoted" \\ and\ta tab, ü';
  await db.query(
    sql(
      '',
      `update broadcasts set errors = '[{"index":7,"message":"[no] user"}]', failed_users = 1 where id = $1`,
    ),
    [id],
  );
  await write(db, userId, 'email', 'failed');
  await db.query(sql('', 'update deliveries set reason = $2 where notification_id = $1'), [
    notificationId,
    reason,
  ]);
  const json = (await getBroadcast(db, projectId, id))?.toString() ?? '';
  const failure = JSON.stringify(`email to user ${userId} failed: ${reason}`);
  expect(json).toContain(`"errors":[{"index": 7, "message": "[no] user"}, {"message": ${failure}}]`);
});

test('a list names ten failures of each broadcast, and the broadcast itself a thousand', async () => {
  const failed = (count: number) =>
    db.query(
      sql(
        '',
        `insert into deliveries
          (user_id, notification_id, channel, broadcast_id, state, attempts, reason, first_attempt_at,
            last_attempt_at)
        select uuidv7(), uuidv7(), 'sms', $1, 'failed', 1, 'no more sms', now(), now()
        from generate_series(1, $2::int)`,
      ),
      [id, count],
    );
  await db.query(
    sql('', `update broadcasts set errors = '[{"message":"[no] user"}]', failed_users = 10 where id = $1`),
    [id],
  );
  const more = `more deliveries failed: GET /v2/broadcasts/${id}/deliveries?state=failed`;
  const messages = (json: unknown) =>
    (JSON.parse(String(json)) as { status: { errors: { message: string }[] } }).status.errors.map(
      ({ message }) => message,
    );
  const listed = async () => {
    const { items } = await listBroadcasts(db, projectId, { direction: 'older', id: NEWEST, limit: 1 });
    return messages(items[0]);
  };
  const one = async () => messages(await getBroadcast(db, projectId, id));

  await failed(10);
  expect(await listed()).toEqual(await one());
  expect(await listed()).toHaveLength(11);

  await failed(1);
  expect(await listed()).toEqual([...(await one()).slice(0, 11), more]);
  expect(await one()).toHaveLength(12);

  await failed(990);
  const all = await one();
  expect(all).toHaveLength(1002);
  expect(all.slice(0, 2)).toEqual([
    '[no] user',
    expect.stringMatching(/^sms to user \S+ failed: no more sms$/),
  ]);
  expect(all.at(-1)).toBe(more);
});

test('failures count while other deliveries of the broadcast have had no attempt', async () => {
  await end([[users[1], 'web_push', 'failed']]);
  expect(await status()).toEqual({
    status: 'processing',
    summary: { total: 8, failures: 3, pending: 3 },
    errors: [`web_push to user ${users[1]} failed: no more web_push`],
  });
  await end([[users[1], 'slack', 'failed']]);
  expect((await status()).summary).toEqual({ total: 8, failures: 3, pending: 2 });
  expect(await processedEvents()).toEqual([]);
});

test('it is processed when nothing is awaited, whatever is pending, and records it once', async () => {
  await end([], 2);
  expect(await status()).toMatchObject({ status: 'processing' });
  await end([], 1);
  expect(await status()).toMatchObject({ status: 'processed', summary: { pending: 4 } });
  await end([[users[0], 'email', 'sent']], 0);
  // Also by a worker that had lost its lease.
  await end([[users[1], 'email', 'sent']], 1);
  expect(await status()).toMatchObject({ status: 'processed', summary: { pending: 2 } });
  expect(await processedEvents()).toEqual([{ total: 8, failures: 2, pending: 4 }]);
});

test('columns of the previous release remain, because both releases run during an update', async () => {
  const [column] = await db.query(
    sql(
      '',
      `select 1 from information_schema.columns where table_name = 'broadcasts'
        and column_name = 'failed_errors'`,
    ),
  );
  expect(column).toBeDefined();
});

test('a user whose delivery was sent, skipped or of another broadcast has not failed', async () => {
  await end([
    [users[0], 'email', 'sent'],
    [users[1], 'email', 'skipped'],
  ]);
  const own = id;
  id = newId();
  await write(db, users[2], 'email', 'failed');
  id = own;
  expect(await status()).toEqual({
    status: 'processing',
    summary: { total: 8, failures: 2, pending: 2 },
    errors: null,
  });
});

test('two channels of a user that fail in concurrent transactions are one failure', async () => {
  const both = ['email', 'sms'].map((channel) => {
    const written = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const done = db.transaction(async (tx) => {
      await write(tx, users[0], channel, 'failed');
      written.resolve();
      await go.promise;
      await countDown(tx, new Map([[id, { ended: 1, attempted: 1, failed: [keyOf(users[0])] }]]));
    });
    return { written: written.promise, go: go.resolve, done };
  });
  await Promise.all(both.map(({ written }) => written));
  for (const { go } of both) go();
  await Promise.all(both.map(({ done }) => done));
  expect((await status()).summary).toEqual({ total: 8, failures: 3, pending: 2 });
});

test('a replayed delivery has not failed, unless the user failed elsewhere; it stays processed', async () => {
  await end([
    [users[0], 'email', 'failed'],
    [users[0], 'sms', 'failed'],
    [users[1], 'email', 'failed'],
  ]);
  const replay = (...some: [user: string | undefined, channel: string][]) =>
    db.transaction(async (tx) => {
      for (const [user, channel] of some) await write(tx, user, channel, 'retrying');
      const failed = some.map(([user]) => keyOf(user));
      await addPending(tx, id, { deliveries: some.length, failed });
    });
  await replay([users[0], 'email'], [users[1], 'email']);
  expect(await status()).toMatchObject({
    status: 'processed',
    summary: { total: 8, failures: 3, pending: 3 },
    errors: [`sms to user ${users[0]} failed: no more sms`],
  });
  await end(
    [
      [users[0], 'email', 'failed'],
      [users[1], 'email', 'sent'],
    ],
    0,
  );
  expect((await status()).summary).toEqual({ total: 8, failures: 3, pending: 1 });
  await replay([users[0], 'email'], [users[0], 'sms']);
  expect(await status()).toMatchObject({ summary: { failures: 2 }, errors: null });
  expect(await processedEvents()).toHaveLength(1);
});

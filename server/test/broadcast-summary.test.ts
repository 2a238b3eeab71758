import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../src/db/client.ts';
import { countDown } from '../src/domain/broadcasts/finish.ts';
import { newId } from '../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from './support/database.ts';

// What is said of a broadcast at its end: users who have failed, however many of their deliveries did, and why.

let database: TestDatabase;
let db: Database;
let id: string;
const users = Array.from({ length: 6 }, newId).sort();

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'summaries' });
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
      `insert into broadcasts (id, project_id, message, status, total, failures, pending)
      values ($1, $2, '\\x', 'processing', 8, 2, 1)`,
    ),
    [id, newId()],
  );
});

const deliver = (user: string | undefined, channel: string, state: string) =>
  db.query(
    sql(
      '',
      `insert into deliveries (
        user_id, notification_id, channel, broadcast_id, state, attempts, reason, first_attempt_at, last_attempt_at
      )
      values ($1, gen_random_uuid(), $2, $3, $4, 1, 'no more ' || $2, now(), now())`,
    ),
    [user, channel, id, state],
  );

/** Ends it; answers what is kept of it, and what is told. */
async function end() {
  await db.transaction((tx) => countDown(tx, new Map([[id, 1]])));
  const [kept] = await db.query<{ failed_users: number; errors: string | null; status: string }>(
    sql('', 'select status, failed_users, failed_errors::text as errors from broadcasts where id = $1'),
    [id],
  );
  const told = await db.query<{ details: string }>(
    sql(
      '',
      "select details::text as details from events where broadcast_id = $1 and type = 'broadcast.processed' order by id",
    ),
    [id],
  );
  const errors = kept?.errors == null ? null : (JSON.parse(kept.errors) as { message: string }[]);
  return {
    status: kept?.status,
    failedUsers: kept?.failed_users,
    messages: errors?.map(({ message }) => message) ?? null,
    told: told.map(({ details }) => (JSON.parse(details) as { payload: object }).payload),
  };
}

test('a user who failed on several channels is one, and each of the failures is told, by user and channel', async () => {
  await deliver(users[3], 'sms', 'failed');
  await deliver(users[1], 'slack', 'failed');
  await deliver(users[1], 'email', 'failed');
  expect(await end()).toEqual({
    status: 'processed',
    failedUsers: 2,
    messages: [
      `email to user ${users[1]} failed: no more email`,
      `slack to user ${users[1]} failed: no more slack`,
      `sms to user ${users[3]} failed: no more sms`,
    ],
    // With the two whom the fan-out could make nothing of.
    told: [{ total: 8, failures: 4 }],
  });
});

test('who was reached, left out or belongs to another broadcast has not failed', async () => {
  await deliver(users[0], 'email', 'sent');
  await deliver(users[1], 'email', 'skipped');
  const own = id;
  id = newId();
  await deliver(users[2], 'email', 'failed');
  id = own;
  expect(await end()).toEqual({
    status: 'processed',
    failedUsers: 0,
    messages: null,
    told: [{ total: 8, failures: 2 }],
  });
});

test('at its second end it says what is so then', async () => {
  await deliver(users[0], 'email', 'failed');
  await deliver(users[1], 'email', 'failed');
  expect(await end()).toMatchObject({ failedUsers: 2 });
  await db.query(sql('', "update broadcasts set status = 'processing', pending = 1 where id = $1"), [id]);
  await db.query(sql('', "update deliveries set state = 'sent' where broadcast_id = $1 and user_id = $2"), [
    id,
    users[0],
  ]);
  expect(await end()).toMatchObject({
    failedUsers: 1,
    messages: [`email to user ${users[1]} failed: no more email`],
    told: [
      { total: 8, failures: 4 },
      { total: 8, failures: 3 },
    ],
  });
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, isDatabaseUnavailable, openDatabase, sql } from '../../src/db/client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Citus reports errors of its workers as XX000. These are its texts, raised by a single PostgreSQL.

let database: TestDatabase;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'worker-errors' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

async function raised(message: string): Promise<unknown> {
  const text = `do $$ begin raise exception using errcode = 'XX000', message = '${message}'; end $$`;
  return db.query(sql('', text)).catch((error: unknown) => error);
}

test.each([
  ['duplicate key value violates unique constraint "users_key_1080"', '23505'],
  ['deadlock detected', '40P01'],
  ['canceling statement due to lock timeout', '55P03'],
])('"%s" has the code %s', async (message, code) => {
  expect(await raised(message)).toMatchObject({ code });
});

test.each([
  'server closed the connection unexpectedly',
  'failure on connection marked as essential: 127.0.0.1:7701',
  'SSL SYSCALL error: EOF detected',
  'could not commit transaction for shard broadcasts on at least one replica',
])('"%s" is a database that is not available', async (message) => {
  expect(isDatabaseUnavailable(await raised(message))).toBe(true);
});

test('another internal error remains one', async () => {
  const error = await raised('tuple concurrently updated');
  expect(error).toMatchObject({ code: 'XX000' });
  expect(isDatabaseUnavailable(error)).toBe(false);
});

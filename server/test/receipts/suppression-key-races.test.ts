import { type KeyObject, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { AddressKeys } from '../../src/domain/ground/suppressions/address-keys.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

// Two servers create the first suppression of a project concurrently. Each must find what the other has
// hashed.

let database: TestDatabase;
let db: Database;
const log = createLogger({ level: 'silent' });
const [secret, another] = [randomBytes(32), randomBytes(32)];
/** A separate server with an empty cache. */
const server = (key = secret) => new AddressKeys({ sealer: createSealer([key]), log });

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'suppression keys' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

/**
 * The first creates the key in a transaction that ends when the second waits for it to create one, too.
 * Returns the key that each of them uses.
 */
async function race(
  first: AddressKeys,
  second: AddressKeys,
  projectId: string,
  end: (tx: Queryable) => Promise<void> = async () => {},
): Promise<[KeyObject | undefined, KeyObject | undefined]> {
  let waiting: Promise<KeyObject | undefined> | undefined;
  const made = db.transaction(async (tx) => {
    const key = (await first.findOrCreate(tx, [projectId])).get(projectId);
    waiting = db.transaction(async (other) => (await second.findOrCreate(other, [projectId])).get(projectId));
    await until(
      () =>
        db.query(
          sql(
            '',
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
          ),
        ),
      (blocked) => blocked.length === 1,
    );
    await end(tx);
    return key;
  });
  const [one] = await Promise.allSettled([made]);
  return [one?.status === 'fulfilled' ? one.value : undefined, await waiting];
}

const keyOf = async (keys: AddressKeys, projectId: string) =>
  (await keys.find(db, [projectId])).get(projectId);
const bytes = (key: KeyObject | undefined) => key?.export().toString('hex');

test('one of two servers creates the key, and both use it', async () => {
  const projectId = newId();
  const [first, second] = [server(), server()];
  const [made, found] = await race(first, second, projectId);
  expect(made).toBeDefined();
  expect(bytes(found)).toBe(bytes(made));
  for (const keys of [first, second, server()]) expect(bytes(await keyOf(keys, projectId))).toBe(bytes(made));
});

test('the second creates the key if the first rolls back', async () => {
  const projectId = newId();
  const [first, second] = [server(), server()];
  const [, made] = await race(first, second, projectId, () => Promise.reject(new Error('undone')));
  expect(made).toBeDefined();
  for (const keys of [first, second]) expect(bytes(await keyOf(keys, projectId))).toBe(bytes(made));
});

test('a server that cannot open the key of the other works without it, and keeps it', async () => {
  const projectId = newId();
  const [first, second] = [server(), server(another)];
  const [made, found] = await race(first, second, projectId);
  expect(found).toBeUndefined();
  // Nor does it replace the key later.
  await db.transaction((tx) => second.findOrCreate(tx, [projectId]));
  expect(await keyOf(second, projectId)).toBeUndefined();
  expect(bytes(await keyOf(server(), projectId))).toBe(bytes(made));
});

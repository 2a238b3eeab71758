import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { Identities, identityKey } from '../../src/domain/ground/identities/identities.ts';
import type { Person } from '../../src/domain/people/users/plan.ts';
import { resolveUsers } from '../../src/domain/people/users/resolve.ts';
import { saveUser } from '../../src/domain/people/users/save.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { heapUsed } from '../support/garbage.ts';
import { until } from '../support/service.ts';

// Two concurrent transactions about the same user: the second writes before the first has committed.

let database: TestDatabase;
let db: Database;
let bus: NodeBus;
const projectId = newId();

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'races' });
  bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: true });
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

const upsert = (tx: Queryable, person: Omit<Person, 'projectId'>) =>
  resolveUsers(tx, new Identities(bus), [{ projectId, ...person }]);

const isWaiting = async () =>
  (
    await db.query<{ waiting: boolean }>(
      sql(
        '',
        `select count(*) > 0 as waiting from pg_stat_activity where datname = current_database()
          and wait_event_type = 'Lock'`,
      ),
    )
  )[0]?.waiting === true;

/** Runs both concurrently: the second starts after the first has written and before it commits. */
async function atOnce(first: Omit<Person, 'projectId'>, second: Omit<Person, 'projectId'>) {
  const written = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const one = db.transaction(async (tx) => {
    const resolved = await upsert(tx, first);
    written.resolve();
    await mayCommit.promise;
    return resolved;
  });
  await written.promise;
  const two = db.transaction((tx) => upsert(tx, second));
  await until(isWaiting, (waiting) => waiting);
  mayCommit.resolve();
  return { one: await one, two: await two };
}

async function stored(userId: string | undefined) {
  const [user] = await db.query<Record<string, unknown>>(
    sql('', 'select external_id, email, first_name, last_name, phone_numbers from users where id = $1'),
    [userId],
  );
  const keys = await db.query<{ value: string }>(
    sql('', 'select value from user_keys where user_id = $1 order by kind desc, value'),
    [userId],
  );
  return { ...user, keys: keys.map((key) => key.value) };
}

test('concurrent writes of different names do not undo each other', async () => {
  await db.transaction((tx) => upsert(tx, { externalId: 'names', firstName: 'Old', lastName: 'Old' }));
  const { two } = await atOnce(
    { externalId: 'names', firstName: 'New' },
    { externalId: 'names', lastName: 'New' },
  );
  expect(await stored(two.userIds[0])).toMatchObject({ first_name: 'New', last_name: 'New' });
});

test('two external ids saved for one address do not become one user', async () => {
  await db.transaction((tx) => upsert(tx, { email: 'shared@example.com' }));
  const { one, two } = await atOnce(
    { externalId: 'shared-1', email: 'shared@example.com' },
    { externalId: 'shared-2', email: 'shared@example.com' },
  );
  expect(two.userIds[0]).not.toBe(one.userIds[0]);
  expect(two.conflicts).toEqual([
    { person: 0, message: 'the e-mail address shared@example.com belongs to another user' },
  ]);
  expect(await stored(one.userIds[0])).toMatchObject({
    external_id: 'shared-1',
    keys: ['shared-1', 'shared@example.com'],
  });
  expect(await stored(two.userIds[0])).toMatchObject({ external_id: 'shared-2', keys: ['shared-2'] });
});

test('concurrent saves of two new addresses leave the user one address', async () => {
  await db.transaction((tx) => upsert(tx, { externalId: 'moves', email: 'before@example.com' }));
  const { two } = await atOnce(
    { externalId: 'moves', email: 'first@example.com' },
    { externalId: 'moves', email: 'second@example.com' },
  );
  expect(await stored(two.userIds[0])).toMatchObject({
    email: 'second@example.com',
    keys: ['moves', 'second@example.com'],
  });
});

test('an address that is released while a broadcast looks it up is not cached as taken', async () => {
  const identities = new Identities(bus);
  const people = [{ projectId, email: 'freed@example.com' }];
  const [owner] = (await db.transaction((tx) => resolveUsers(tx, new Identities(bus), people))).userIds;
  const resolved = await db.transaction((tx) => resolveUsers(tx, identities, people));
  expect(resolved.userIds).toEqual([owner]);
  // The commit of the release is still pending.
  await saveUser({ db, identities, bus }, projectId, { external_id: 'freed', email: 'freed@example.com' });
  await saveUser({ db, identities, bus }, projectId, { external_id: 'freed', email: null });
  resolved.remember();
  const after = await db.transaction((tx) => resolveUsers(tx, identities, people));
  expect(after.userIds).not.toEqual([owner]);
});

test('the cache of identities has a limited size, however long they are', () => {
  const identities = new Identities(bus);
  const before = heapUsed();
  for (let number = 0; number < 200_000; number += 1) {
    const externalId = `${'長'.repeat(248)}${number}`;
    identities.set(Buffer.from(identityKey(projectId, 'external_id', externalId)).toString(), projectId);
  }
  expect(heapUsed() - before).toBeLessThan(70_000_000);
  identities.close();
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../src/db/client.ts';
import { createBus, type PostgresBus } from '../src/domain/realtime/bus.ts';
import { Identities } from '../src/domain/users/identities.ts';
import { resolveUsers } from '../src/domain/users/resolve.ts';
import { newId } from '../src/lib/ids.ts';
import { createLogger } from '../src/lib/log.ts';
import { createTestDatabase, type TestDatabase } from './support/database.ts';

let database: TestDatabase;
let db: Database;
let bus: PostgresBus;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'plans' });
  bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: false });
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

test('a plan that was made while its table was empty still serves when there are a million rows', async () => {
  const projectId = newId();
  // Often enough for PostgreSQL to settle on one plan for all values.
  for (let count = 0; count < 12; count += 1) {
    const people = [{ projectId, externalId: 'ada', email: 'ada@example.com', firstName: `Ada ${count}` }];
    await db.transaction((tx) => resolveUsers(tx, new Identities(bus), people));
  }
  const statements = await db.query<{ name: string; places: number }>(
    sql(
      '',
      `select name, cardinality(parameter_types) as places
      from pg_prepared_statements
      where statement ~* '(join|update|from) (users|user_keys)'`,
    ),
  );
  expect(statements.map((one) => one.name)).toEqual(
    expect.arrayContaining(['select_owners', 'update_users']),
  );
  await db.query(sql('', 'set plan_cache_mode = force_generic_plan'));
  for (const { name, places } of statements) {
    const values = Array.from({ length: places }, () => 'null').join(', ');
    const plan = await db.query<Record<'QUERY PLAN', string>>(sql('', `explain execute ${name}(${values})`));
    expect(plan.map((line) => line['QUERY PLAN']).join('\n')).not.toContain('Seq Scan');
  }
});

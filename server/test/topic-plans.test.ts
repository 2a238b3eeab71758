import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../src/db/client.ts';
import { countDown } from '../src/domain/broadcasts/finish.ts';
import { nextSubscribers } from '../src/domain/topics/subscribers.ts';
import { newId } from '../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from './support/database.ts';

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'plans' });
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

async function planOf(name: string, values: string[]): Promise<string> {
  const plan = await db.query<Record<'QUERY PLAN', string>>(
    sql('', `explain (analyze, buffers off, timing off) execute ${name}(${values.join(', ')})`),
  );
  return plan.map((line) => line['QUERY PLAN']).join('\n');
}

test('a page of subscribers is read by index and no further than it reaches, by a plan that was made while there were none', async () => {
  const projectId = newId();
  const wanted = {
    broadcastId: newId(),
    projectId,
    topic: 'news',
    category: null,
    critical: false,
    after: undefined,
  };
  // Often enough for PostgreSQL to settle on one plan for all values.
  for (let count = 0; count < 12; count += 1) await nextSubscribers(db, [wanted]);
  await db.query(
    sql(
      '',
      `with made as (
        insert into users (id, project_id, created_at, updated_at)
        select gen_random_uuid(), $1, now(), now() from generate_series(1, 5000)
        returning id
      )
      insert into subscriptions (user_id, topic, id, project_id, categories)
      select id, 'news', gen_random_uuid(), $1, '{"*": {"status": "subscribed"}}' from made`,
    ),
    [projectId],
  );
  const plan = await planOf('next_subscribers', [
    `'{${wanted.broadcastId}}'`,
    `'{${projectId}}'`,
    `'{news}'`,
    'null',
    `'{${newId(0)}}'`,
    '10000',
    '1000',
    `'{false}'`,
  ]);
  expect(plan).not.toMatch(/Seq Scan|Sort/);
  expect(plan).toMatch(
    /Index Scan using subscriptions_of_topic on subscriptions \S+ .*actual rows=1000\.?0* /,
  );
});

test('what failed of a broadcast is found by index, whoever else got it', async () => {
  const id = newId();
  const insert = sql(
    '',
    `insert into broadcasts (id, project_id, message, status, pending) values ($1, $1, '', 'processing', 1)`,
  );
  for (let count = 0; count < 12; count += 1) {
    await db.query(insert, [id]);
    expect(await countDown(db, new Map([[id, 1]]))).toBe(1);
    await db.query(sql('', 'delete from broadcasts'));
  }
  await db.query(insert, [id]);
  await db.query(
    sql(
      '',
      `insert into deliveries (user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at)
      select gen_random_uuid(), gen_random_uuid(), 'email', $1, 'failed', 1, now(), now() from generate_series(1, 3000)`,
    ),
    [id],
  );
  const plan = await planOf('finish_broadcasts', [`'{${id}}'`, '1000']);
  // The users are counted in the index, and no more deliveries are read than are told of.
  expect(plan).toMatch(/Index Only Scan using deliveries_failed .*actual rows=3000/);
  expect(plan).toMatch(/Index Scan using deliveries_failed .*actual rows=1000/);
  expect(plan).not.toContain('Seq Scan');
  expect(plan).toContain('deliveries_failed');
});

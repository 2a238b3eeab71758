import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { getBroadcast } from '../../src/domain/line/broadcasts/get.ts';
import { countDown } from '../../src/domain/line/ledger/finish.ts';
import { nextSubscribers } from '../../src/domain/people/topics/subscribers.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

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

test('a page of subscribers reads only its rows, with a plan that is made while there are none', async () => {
  const projectId = newId();
  const wanted = {
    broadcastId: newId(),
    projectId,
    topic: 'news',
    category: null,
    critical: false,
    after: undefined,
  };
  // After some calls, PostgreSQL uses one plan for all values.
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

test('failed deliveries of a broadcast are found by index, and only those shown are read', async () => {
  const id = newId();
  await db.query(
    sql(
      '',
      `insert into broadcasts (id, project_id, message, status, pending, failed_users)
      select case when n = 1 then $1 else gen_random_uuid() end, $1, '', 'processed', 1, 1
      from generate_series(1, 50) n`,
    ),
    [id],
  );
  await db.query(
    sql(
      '',
      `insert into deliveries (
        user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
      )
      select gen_random_uuid(), gen_random_uuid(), 'email', $1, 'failed', 1, now(), now()
      from generate_series(1, 3000)`,
    ),
    [id],
  );
  const failed = `select array_agg(d.user_id) as users, array_agg(d.notification_id) as notifications from (
    select * from deliveries where broadcast_id = '${id}' order by user_id limit 500) d`;
  const [some] = await db.query<{ users: string[]; notifications: string[] }>(sql('', failed));
  const { users = [], notifications = [] } = some ?? {};
  // After some calls, PostgreSQL uses the generic plans.
  const same = {
    ended: 0,
    attempted: 0,
    failed: users.map((userId, index) => ({ userId, notificationId: notifications[index] ?? '' })),
  };
  for (let count = 0; count < 12; count += 1) {
    await countDown(db, new Map([[id, same]]));
    await getBroadcast(db, id, id).catch(() => undefined);
  }
  const list = (ids: readonly string[]) => `'{${ids.join(',')}}'`;
  const counted = await planOf('count_down_broadcasts', [
    list([id]),
    list(['0']),
    list(['0']),
    list(users.map(() => id)),
    list(users),
    list(notifications),
  ]);
  expect(counted).toMatch(/Index (Only )?Scan using deliveries_pkey/);
  expect(counted).not.toContain('Seq Scan on deliveries');
  const read = await planOf('select_broadcast', [`'${id}'`, `'${id}'`]);
  expect(read).toMatch(/Index Scan using deliveries_failed .*actual rows=1000\.?0* /);
  expect(read).not.toContain('Seq Scan');
});

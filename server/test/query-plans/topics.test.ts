import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { getBroadcast } from '../../src/domain/line/broadcasts/get.ts';
import { countDown } from '../../src/domain/line/ledger/finish.ts';
import { removeSubscribers } from '../../src/domain/people/topics/change-subscribers.ts';
import { listSubscribers } from '../../src/domain/people/topics/list-subscribers.ts';
import { listTopics } from '../../src/domain/people/topics/list-topics.ts';
import { nextSubscribers } from '../../src/domain/people/topics/subscribers.ts';
import { writeSubscriptions } from '../../src/domain/people/topics/write-subscriptions.ts';
import { nextUsers } from '../../src/domain/people/users/next-users.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'plans', isDistributed: false });
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
  expect(plan).toMatch(/Index Scan using subscribers_of_topic on subscriptions \S+ .*actual rows=1000\.?0* /);
});

test('the lists of topics and subscribers read only what they show or count', async () => {
  const projectId = newId();
  const first = { direction: 'older', id: NEWEST, limit: 51 } as const;
  const last = { direction: 'newer', id: '=t-100', limit: 51 } as const;
  const of = { projectId, topic: 't-150' };
  // After some calls, PostgreSQL uses one plan for all values.
  for (let count = 0; count < 12; count += 1)
    for (const cursor of [first, last]) {
      await listTopics(db, projectId, cursor);
      await listSubscribers(db, of, { ...cursor, id: NEWEST });
    }
  // 120 topics with 50 subscribers each, as many who left, and a second project with the same.
  await db.query(
    sql(
      '',
      `with made as (
        insert into users (id, project_id, created_at, updated_at)
        select gen_random_uuid(), project_id, now(), now()
        from unnest(array[$1::uuid, gen_random_uuid()]) as p (project_id), generate_series(1, 100)
        returning id, project_id
      )
      insert into subscriptions (user_id, topic, id, project_id, categories)
      select id, 't-' || (100 + topic), gen_random_uuid(), project_id,
        json_build_object('*', json_build_object(
          'status', case row_number() over (partition by project_id, topic) % 2
            when 0 then 'subscribed' else 'unsubscribed' end
        ))
      from made, generate_series(0, 119) as topic`,
    ),
    [projectId],
  );
  await db.query(sql('', 'vacuum subscriptions'));
  const read = (plan: string) =>
    [...plan.matchAll(/using \w+ on subscriptions .*actual rows=(\d+)\S* loops=(\d+)/g)].reduce(
      (sum, [, rows, loops]) => sum + Number(rows) * Number(loops),
      0,
    );
  for (const [name, from] of [
    ['list_topics_older', "''"],
    ['list_topics_newer', "'t-219'"],
  ] as const) {
    const plan = await planOf(name, [`'${projectId}'`, from, '51']);
    expect(plan).not.toMatch(/Seq Scan|Sort|Bitmap/);
    expect(plan).toMatch(/Index Only Scan (Backward )?using subscribers_of_topic/);
    expect(read(plan)).toBeLessThanOrEqual(51 * 51 + 2);
  }
  for (const [name, from] of [
    ['list_subscribers_older', NEWEST],
    ['list_subscribers_newer', newId(0)],
  ] as const) {
    const plan = await planOf(name, [`'${projectId}'`, "'t-150'", `'${from}'`, '41']);
    expect(plan).not.toMatch(/Seq Scan|Sort|Bitmap/);
    expect(read(plan)).toBe(41);
  }
});

test('many subscriptions are changed by primary key, also with plans made for none', async () => {
  const [projectId, users] = [newId(), Array.from({ length: 40 }, () => newId()).sort()];
  const given = (status: 'subscribed' | 'unsubscribed') => ({
    topic: 'many',
    categories: [{ slug: '*', status }],
  });
  const write = (status: 'subscribed' | 'unsubscribed') =>
    db.transaction((tx) => writeSubscriptions(tx, { projectId, userIds: users, given: given(status) }));
  const create = (ids: string[]) =>
    db.query(
      sql(
        '',
        `insert into users (id, project_id, created_at, updated_at)
        select id, $1, now(), now() from unnest($2::uuid[]) as made (id)`,
      ),
      [projectId, ids],
    );
  await create(users.slice(0, 1));
  for (let count = 0; count < 12; count += 1) {
    await write('subscribed');
    await write('unsubscribed');
    await removeSubscribers({ db }, { projectId, topic: 'many' }, { users: [{ id: users[0] ?? '' }] });
  }
  await create([...users.slice(1), ...Array.from({ length: 5_000 }, () => newId())]);
  await write('subscribed');
  const ids = `'{${users.join(',')}}'`;
  const values = [ids, ids, "'other'", `'${projectId}'`, "'{}'"];
  const inserted = await planOf('insert_subscriptions', [...values, 'null']);
  const limited = await planOf('insert_subscriptions', [...values, '10000']);
  expect(inserted).toMatch(/Index Scan using users_(pkey|of_project) on users .*loops=40/);
  const locked = await planOf('lock_subscriptions', [ids, "'many'"]);
  const deleted = await planOf('delete_subscriptions', [ids, "'many'"]);
  for (const plan of [inserted, limited, locked, deleted]) expect(plan).not.toMatch(/Seq Scan/);
  for (const plan of [locked, deleted]) expect(plan).toMatch(/(using|on) subscriptions_pkey/);
  // Both indexes begin with the user, and both count a user's subscriptions without their rows.
  expect(limited).toMatch(/Index Only Scan using subscriptions_(pkey|listed) on subscriptions/);
});

test('a page of all users reads only its rows, and none of other projects', async () => {
  const [projectId, other] = [newId(), newId()];
  const wanted = { broadcastId: newId(), projectId, after: undefined };
  for (let count = 0; count < 12; count += 1) await nextUsers(db, [wanted]);
  await db.query(
    sql(
      '',
      `insert into users (id, project_id, created_at, updated_at, deleted_at)
      select gen_random_uuid(), case when n % 3 = 0 then $1::uuid else $2::uuid end, now(), now(),
        case when n % 30 = 0 then now() end
      from generate_series(1, 9000) n`,
    ),
    [projectId, other],
  );
  const values = [wanted.broadcastId, projectId, newId(0)].map((id) => `'{${id}}'`);
  const plan = await planOf('next_users', [...values, '1000']);
  expect(plan).not.toMatch(/Seq Scan|Sort/);
  expect(plan).toMatch(/Index (Only )?Scan using users_of_project on users \S+ .*actual rows=1000\.?0* /);
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
      select gen_random_uuid(), $1, 'email', $1, 'failed', 1, now(), now()
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
  expect(counted).toMatch(/Index (Only )?Scan using deliveries_first_(pkey|failed) /);
  expect(counted).not.toContain('Seq Scan on deliveries');
  const read = await planOf('select_broadcast', [`'${id}'`, `'${id}'`]);
  expect(read).toMatch(/Index Scan using deliveries_first_failed .*actual rows=1001\.?0* /);
  expect(read).not.toContain('Seq Scan');
});

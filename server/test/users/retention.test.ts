import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { recordEvents } from '../../src/domain/ground/events/record.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';

const DAY_MS = 24 * 3_600_000;
let service: TestService;

beforeAll(async () => {
  service = await startTestService({
    settings: { EVENTS_RETENTION_DAYS: '90', NOTIFICATIONS_RETENTION_DAYS: '365' },
  });
});
afterAll(() => service?.stop());

/** The time after this many days. */
const purgeAfter = (days: number, settings: Partial<Parameters<typeof purgeExpired>[0]['config']> = {}) =>
  purgeExpired(
    {
      ...service.context,
      clock: { now: () => Date.now() + days * DAY_MS },
      config: { ...service.context.config, ...settings },
    },
    new AbortController().signal,
  );
const count = async (table: string, condition = 'true', values: readonly unknown[] = []) => {
  const [row] = await service.rows<{ count: number }>(
    `select count(*)::int as count from ${table} where ${condition}`,
    values,
  );
  return row?.count;
};
const eventsOf = async (of: TestProject) => (await of.call('GET', '/events?limit=100')).body.data.length;

test('events are purged when their retention is over, and not before', async () => {
  const [of, other] = [await service.createProject('events'), await service.createProject('other events')];
  for (const { id } of [of, other]) {
    await recordEvents(
      service.context.db,
      Array.from({ length: 1_050 }, () => ({
        projectId: id,
        type: 'user.updated' as const,
        userIds: [newId(), newId()],
      })),
    );
  }
  await purgeAfter(89);
  expect(await count('events', 'project_id = $1', [of.id])).toBe(1_050);
  await purgeAfter(91, { EVENTS_RETENTION_DAYS: 0 });
  expect(await count('events', 'project_id = $1', [of.id])).toBe(1_050);
  await purgeAfter(91);
  expect([await eventsOf(of), await eventsOf(other)]).toEqual([0, 0]);
});

test('discarded tokens are purged after 30 days; active ones stay', async () => {
  const of = await service.createProject('tokens');
  const user = of.as('ada');
  const path = '/channels/mobile_push/fcm/tokens';
  for (const letter of ['a', 'b']) await user('PUT', path, { device_token: letter.repeat(64) });
  const [active, gone] = (await user('GET', path)).body.data;
  expect((await user('DELETE', `${path}/${gone.id}`)).status).toBe(200);
  await purgeAfter(29);
  expect(await count('tokens', 'project_id = $1', [of.id])).toBe(2);
  await purgeAfter(31);
  expect(await count('tokens', 'project_id = $1', [of.id])).toBe(1);
  expect((await user('GET', path)).body.data).toEqual([active]);
});

test('a failed purge does not stop the others, and is reported', async () => {
  const of = await service.createProject('failing');
  await recordEvents(service.context.db, [{ projectId: of.id, type: 'user.updated', userIds: [newId()] }]);
  const { db } = service.context;
  let transactions = 0;
  const broken: Pick<typeof db, 'query' | 'transaction'> = {
    query: db.query,
    transaction: (work) => {
      transactions += 1; // users come first
      return transactions === 1 ? Promise.reject(new Error('users cannot be purged')) : db.transaction(work);
    },
  };
  const purging = purgeExpired(
    { ...service.context, db: broken, clock: { now: () => Date.now() + 91 * DAY_MS } },
    new AbortController().signal,
  );
  await expect(purging).rejects.toMatchObject({ errors: [new Error('users cannot be purged')] });
  expect(await eventsOf(of)).toBe(0);
});

test('a broadcast is purged with all its rows; one that is not processed stays', async () => {
  const of = await service.createProject('broadcasts');
  const send = async (recipients: object[]) =>
    (await of.call('POST', '/broadcasts', { title: 'Old', recipients })).body.id;
  const many = await send(Array.from({ length: 1_000 }, (_, index) => ({ external_id: `u${index}` })));
  const few = await send([{ external_id: 'u1' }, { external_id: 'u2' }]);
  await processed(of.call, many);
  await processed(of.call, few);
  const waiting = newId();
  await service.context.db.query(
    sql(
      'test_waiting',
      `insert into broadcasts (id, project_id, message, status)
        select $1, project_id, message, 'processing' from broadcasts where id = $2`,
    ),
    [waiting, few],
  );
  await service.context.db.query(
    sql(
      'test_delivery',
      `insert into deliveries (user_id, notification_id, channel, broadcast_id, state, attempts,
                                first_attempt_at, last_attempt_at)
      select user_id, id, 'email', broadcast_id, 'sent', 1, now(), now()
         from notifications where broadcast_id = $1`,
    ),
    [few],
  );
  await purgeAfter(364);
  expect(await count('notifications', 'broadcast_id = any ($1)', [[many, few]])).toBe(1_002);
  await purgeAfter(366);
  for (const table of ['notifications', 'deliveries', 'broadcast_users'])
    expect([table, await count(table, 'broadcast_id = any ($1)', [[many, few]])]).toEqual([table, 0]);
  expect((await of.call('GET', `/broadcasts/${many}`)).status).toBe(404);
  expect((await of.call('GET', `/broadcasts/${waiting}`)).status).toBe(200);
  expect((await of.as('u1')('GET', '/notifications')).body.data).toEqual([]);
  expect((await of.call('GET', '/users?query=u1&limit=1')).body.data).toHaveLength(1);
});

test('broadcasts to one user are purged hundreds at a time, and large ones in parts', async () => {
  const of = await service.createProject('sizes');
  const { db } = service.context;
  // As many as their pages of users: 400 with one user, and one with 12 pages of a thousand.
  await db.query(sql('test_old_broadcasts', insertOld), [of.id, 400, 1, 1]);
  await db.query(sql('test_old_broadcasts', insertOld), [of.id, 1, 12, 1_000]);
  const deleted: number[] = [];
  const counting: Pick<typeof db, 'query' | 'transaction'> = {
    query: db.query,
    async transaction(work) {
      const before = await count('broadcast_users');
      const result = await db.transaction(work);
      deleted.push((before ?? 0) - ((await count('broadcast_users')) ?? 0));
      return result;
    },
  };
  await purgeExpired(
    { ...service.context, db: counting, clock: { now: () => Date.now() + 366 * DAY_MS } },
    new AbortController().signal,
  );
  expect(await count('broadcasts', 'project_id = $1', [of.id])).toBe(0);
  const pages = deleted.filter((number) => number > 0);
  expect(pages.reduce((sum, number) => sum + number, 0)).toBeGreaterThanOrEqual(412);
  expect(Math.max(...pages)).toBeGreaterThanOrEqual(400);
  expect(pages.length).toBeGreaterThanOrEqual(3);
});

/** SQL: $2 broadcasts of the project $1 with $3 pages of $4 users. */
const insertOld = `with old as (
    insert into broadcasts (id, project_id, message, status)
    select lpad(to_hex($3::int * 100000 + n), 32, '0')::uuid, $1, '', 'processed'
    from generate_series(1, $2::int) as n
    returning id
  )
  insert into broadcast_users (broadcast_id, page, user_ids)
  select id, page, (select array_agg(gen_random_uuid()) from generate_series(1, $4::int) where page > 0)
  from old, generate_series(1, $3::int) as page`;

test('two nodes that purge at the same time do not block each other', async () => {
  const of = await service.createProject('two nodes');
  const sent = await Promise.all(
    Array.from(
      { length: 12 },
      async () =>
        (
          await of.call('POST', '/broadcasts', {
            title: 'Old',
            recipients: [{ external_id: 'a' }, { external_id: 'b' }],
          })
        ).body.id,
    ),
  );
  for (const id of sent) await processed(of.call, id);
  await Promise.all(Array.from({ length: 4 }, () => purgeAfter(400)));
  expect(await count('notifications', 'broadcast_id = any ($1)', [sent])).toBe(0);
  await purgeAfter(400);
  expect(await count('broadcasts', 'id = any ($1)', [sent])).toBe(0);
});

test('webhook messages are purged after thirty days, and with their webhook', async () => {
  const of = await service.createProject('webhooks');
  const make = async () =>
    (await of.call('PUT', '/webhooks', { url: 'https://example.com', disabled: true })).body.id;
  const [kept, deleted] = [await make(), await make()];
  for (const id of [kept, deleted]) {
    await service.context.db.query(
      sql(
        'test_messages',
        `insert into webhook_messages (webhook_id, id, type, state, attempts)
        select $1, id, 'user.updated', state, 1 from unnest($2::uuid[], $3::text[]) as m (id, state)`,
      ),
      [id, [newId(), newId(), newId()], ['sent', 'failed', 'retrying']],
    );
  }
  await of.call('DELETE', `/webhooks/${deleted}`);
  await purgeAfter(29);
  expect(await count('webhook_messages', 'webhook_id = $1', [kept])).toBe(3);
  expect(await count('webhook_messages', 'webhook_id = $1', [deleted])).toBe(0);
  expect(await count('webhooks', 'id = $1', [deleted])).toBe(0);
  await purgeAfter(31);
  expect(await count('webhook_messages', "webhook_id = $1 and state = 'retrying'", [kept])).toBe(1);
  expect(await count('webhook_messages', 'webhook_id = $1', [kept])).toBe(1);
});

test('is interrupted when the server stops', async () => {
  const of = await service.createProject('stopped');
  await recordEvents(service.context.db, [{ projectId: of.id, type: 'user.updated' }]);
  const now = () => Date.now() + 1_000 * DAY_MS;
  await purgeExpired({ ...service.context, clock: { now } }, AbortSignal.abort());
  expect(await eventsOf(of)).toBe(1);
});

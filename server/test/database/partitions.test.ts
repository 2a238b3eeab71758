import { randomUUID } from 'node:crypto';
import { PassThrough } from 'node:stream';
import pg from 'pg';
import { beforeEach, expect, test } from 'vitest';
import { backup } from '../../src/db/backup.ts';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { createPartitions, dropPartitions } from '../../src/db/partitions.ts';
import { WriteFailures } from '../../src/db/write-failures.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { listEvents } from '../../src/domain/ground/events/list.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { firstIdAt, newId, notificationId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// The database was migrated in this month, so the first partition ends with the third month after it.

const sealer = createSealer([Buffer.alloc(32, 1)]);
let database: TestDatabase;
let db: Database;
let other: Database;
let projectId: string;

beforeEach(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 3, name: 'partitions' });
  other = openDatabase(database.connection, { size: 3, name: 'other node' });
  projectId = (await createProject({ db, sealer }, 'partitions'))?.id ?? '';
  return async () => {
    await Promise.all([db.close(), other.close()]);
    await database.drop();
  };
});

/** The start of the month that is this many months after the current one, in unix milliseconds. */
function month(ahead: number): number {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead);
}

const nameOf = (ahead: number) =>
  `events_${new Date(month(ahead)).toISOString().slice(0, 7).replace('-', '_')}`;

async function partitions(): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    sql(
      '',
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass
      order by inhrelid::regclass::text`,
    ),
  );
  return rows.map(({ name }) => name);
}

/** Writes an event at a time, and returns its id. */
async function event(ms: number, of = db): Promise<string> {
  const id = `${firstIdAt(ms).slice(0, 15)}${newId().slice(15, -4)}0000`;
  await of.query(sql('', "insert into events (project_id, id, type) values ($1, $2, 'user.updated')"), [
    projectId,
    id,
  ]);
  return id;
}

/** The partition of each event, in the order of ids. */
async function places(): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    sql('', 'select tableoid::regclass::text as name from events where project_id = $1 order by id'),
    [projectId],
  );
  return rows.map(({ name }) => name);
}

test('months are created ahead, also by several nodes at the same time', async () => {
  expect(await partitions()).toEqual(['events_default', 'events_first']);
  await createPartitions(db, 'events', month(0));
  expect(await partitions()).toEqual(['events_default', 'events_first']);
  await Promise.all([db, other, db, other].map((node) => createPartitions(node, 'events', month(2))));
  const names = [nameOf(3), nameOf(4), 'events_default', 'events_first'];
  expect(await partitions()).toEqual(names);
  await createPartitions(db, 'events', month(1));
  expect(await partitions()).toEqual(names);
  for (const ms of [month(-30), month(3) - 1, month(3), month(4) - 1, month(4), month(5)]) await event(ms);
  expect(await places()).toEqual([
    'events_first',
    'events_first',
    nameOf(3),
    nameOf(3),
    nameOf(4),
    'events_default',
  ]);
});

test('every partition has the indexes of the table', async () => {
  await createPartitions(db, 'events', month(1));
  await event(month(6));
  await createPartitions(db, 'events', month(4));
  const rows = await db.query<{ indexes: number; attached: number }>(
    sql(
      '',
      `select count(*)::int as indexes, count(a.inhrelid)::int as attached
      from pg_inherits i
      join pg_index x on x.indrelid = i.inhrelid and x.indisvalid
      left join pg_inherits a on a.inhrelid = x.indexrelid
      where i.inhparent = 'events'::regclass
      group by i.inhrelid`,
    ),
  );
  expect(rows).toEqual(Array.from({ length: 4 }, () => ({ indexes: 4, attached: 4 })));
});

test('events beyond all partitions are kept, and get a partition', async () => {
  await event(month(4));
  await event(month(7));
  expect(await places()).toEqual(['events_default', 'events_default']);
  await Promise.all([db, other].map((node) => createPartitions(node, 'events', month(0))));
  expect(await places()).toEqual([nameOf(3), nameOf(3)]);
  await event(month(8));
  expect(await places()).toEqual([nameOf(3), nameOf(3), 'events_default']);
  await createPartitions(db, 'events', month(20));
  await event(month(9));
  expect(await places()).toEqual([nameOf(3), nameOf(3), nameOf(8), nameOf(8)]);
});

test('months get partitions if a clock that was far ahead had them dropped', async () => {
  const ahead = { now: () => month(14) };
  const config = { EVENTS_RETENTION_DAYS: 90, NOTIFICATIONS_RETENTION_DAYS: 90 };
  const purge = (clock: { now(): number }) =>
    purgeExpired({ db, clock, sealer, config }, new AbortController().signal);
  await event(month(14));
  await purge(ahead);
  await purge(ahead);
  // The clock is right again. Rows are written before the partitions are created, and far beyond them.
  for (const ms of [month(0), month(1), month(25)]) await event(ms);
  await broadcast(month(0), 2);
  expect((await places()).slice(0, 2)).toEqual(['events_default', 'events_default']);
  await purge({ now: () => month(1) });
  for (const ms of [month(2), month(4), month(26)]) await event(ms);
  expect(await places()).toEqual([
    ...[nameOf(0), nameOf(0), nameOf(2), nameOf(3)],
    ...[nameOf(3), nameOf(17), 'events_default'],
  ]);
  expect(await deliveries()).toEqual([`${deliveriesOf(0)}: 2`]);
  // And they expire.
  await purge({ now: () => month(7) });
  expect((await places())[0]).toBe(nameOf(3));
  expect(await deliveries()).toEqual([]);
});

test('rows of a month that was dropped do not prevent partitions, and expire', async () => {
  for (const table of ['events', 'deliveries'] as const) {
    await createPartitions(db, table, month(3));
    await dropPartitions(db, table, firstIdAt(month(4)));
  }
  // As a project brings them from another cell.
  await event(month(0));
  await broadcast(month(0), 2);
  const scheduled = await broadcast(month(0) + 1, 1, { sendAtMs: month(7) });
  await event(month(7));
  await broadcast(month(7), 1);
  for (const table of ['events', 'deliveries'] as const) await createPartitions(db, table, month(6));
  expect(await places()).toEqual(['events_default', nameOf(6)]);
  const recent = `${deliveriesOf(6)}: 1`;
  expect(await deliveries()).toEqual(['deliveries_default: 2', 'deliveries_default: 1', recent]);
  const config = { EVENTS_RETENTION_DAYS: 30, NOTIFICATIONS_RETENTION_DAYS: 30 };
  const purgeAt = (ms: number) =>
    purgeExpired({ db, clock: { now: () => ms }, sealer, config }, new AbortController().signal);
  await purgeAt(month(7));
  expect(await places()).toEqual([nameOf(6)]);
  expect(await deliveries()).toEqual(['deliveries_default: 1', recent]);
  await db.query(upsertDelivery, [scheduled, newId(), firstIdOf(scheduled)]);
  await purgeAt(month(9));
  expect((await deliveries()).filter((place) => place.includes('default'))).toEqual([]);
});

test('lists continue from one partition to the next', async () => {
  await createPartitions(db, 'events', month(3));
  const ids: string[] = [];
  for (const ahead of [0, 0, 3, 4, 4, 9]) ids.push(await event(month(ahead) + ids.length));
  const list = async (cursor: { direction: 'older' | 'newer'; id: string; limit: number }) =>
    (await listEvents(db, projectId, { types: undefined }, cursor)).map(({ id }) => id);
  expect(await list({ direction: 'older', id: NEWEST, limit: 10 })).toEqual(ids.toReversed());
  expect(await list({ direction: 'newer', id: OLDEST, limit: 10 })).toEqual(ids);
  expect(await list({ direction: 'older', id: ids[4] ?? '', limit: 3 })).toEqual(
    ids.slice(1, 4).toReversed(),
  );
});

test('retention drops whole months, and deletes old events of the first partition', async () => {
  await createPartitions(db, 'events', month(3));
  const first = [await event(month(0)), await event(month(3) - 1)];
  for (const ahead of [3, 4, 5]) await event(month(ahead));
  const purgeAt = (ms: number) =>
    purgeExpired(
      {
        db,
        clock: { now: () => ms },
        sealer,
        config: { EVENTS_RETENTION_DAYS: 1, NOTIFICATIONS_RETENTION_DAYS: 0 },
      },
      new AbortController().signal,
    );
  const DAY_MS = 24 * 3_600_000;
  await purgeAt(month(1));
  expect(await places()).toEqual(['events_first', nameOf(3), nameOf(4), nameOf(5)]);
  expect((await listEvents(db, projectId, { types: undefined }, allOf())).map(({ id }) => id)).toContain(
    first[1],
  );
  await purgeAt(month(5) + DAY_MS - 1);
  expect(await places()).toEqual([nameOf(4), nameOf(5)]);
  await Promise.all([purgeAt(month(5) + DAY_MS), purgeAt(month(5) + DAY_MS)]);
  expect(await places()).toEqual([nameOf(5)]);
  await purgeAt(month(20));
  expect(await places()).toEqual([]);
  await event(month(20));
  expect(await places()).toEqual([nameOf(20)]);
});

const allOf = () => ({ direction: 'newer', id: OLDEST, limit: 10 }) as const;

test('the last partition is never dropped', async () => {
  await createPartitions(db, 'events', month(1));
  await dropPartitions(db, 'events', firstIdAt(month(9)));
  expect(await partitions()).toEqual([nameOf(3), 'events_default']);
  await createPartitions(db, 'events', month(2));
  expect(await partitions()).toEqual([nameOf(2), nameOf(3), nameOf(4), 'events_default']);
});

test('a long transaction that reads events delays the work, and fails no request', async () => {
  await createPartitions(db, 'events', month(1));
  await event(month(0));
  const reader = new pg.Client(database.connection);
  await reader.connect();
  await reader.query('begin; select from events');
  await expect(createPartitions(db, 'events', month(2))).rejects.toMatchObject({ code: '55P03' });
  await expect(dropPartitions(db, 'events', firstIdAt(month(3)))).rejects.toMatchObject({ code: '55P03' });
  await event(month(4));
  await reader.query('rollback');
  await reader.end();
  await createPartitions(db, 'events', month(2));
  await dropPartitions(db, 'events', firstIdAt(month(3)));
  expect(await places()).toEqual([nameOf(4)]);
});

/** Writes a broadcast with this many users, each with a delivery, and returns its id. */
async function broadcast(ms: number, users: number, settings: { sendAtMs?: number; of?: Database } = {}) {
  const { sendAtMs, of = db } = settings;
  const id = `${firstIdAt(ms).slice(0, 15)}${newId().slice(15)}`;
  const userIds = Array.from({ length: users }, () => newId());
  await of.query(insertBroadcast, [id, projectId, users, sendAtMs === undefined ? null : new Date(sendAtMs)]);
  await of.query(insertUsers, [id, userIds]);
  await of.query(insertDeliveries, [id, userIds, userIds.map((userId) => notificationId(id, userId))]);
  return id;
}

/** The partition and the number of the deliveries of each broadcast, in the order of their ids. */
async function deliveries(of = db): Promise<string[]> {
  const rows = await of.query<{ name: string; count: number }>(
    sql(
      '',
      `select tableoid::regclass::text as name, count(*)::int as count
      from deliveries
      group by broadcast_id, tableoid
      order by broadcast_id`,
    ),
  );
  return rows.map(({ name, count }) => `${name}: ${count}`);
}

const deliveriesOf = (ahead: number, more = '') => `${nameOf(ahead).replace('events', 'deliveries')}${more}`;

const purgeDeliveriesAt = (ms: number) =>
  purgeExpired(
    {
      db,
      clock: { now: () => ms },
      sealer,
      config: { EVENTS_RETENTION_DAYS: 0, NOTIFICATIONS_RETENTION_DAYS: 1 },
    },
    new AbortController().signal,
  );

test('retention drops the deliveries of a month with the last of its broadcasts', async () => {
  await createPartitions(db, 'deliveries', month(3));
  for (const ms of [month(0), month(3) - 1, month(3), month(4) - 1, month(4), month(5)])
    await broadcast(ms, 2);
  const first = 'deliveries_first: 2';
  const all = [first, first, `${deliveriesOf(3)}: 2`, `${deliveriesOf(3)}: 2`];
  const later = [`${deliveriesOf(4)}: 2`, `${deliveriesOf(5)}: 2`];
  expect(await deliveries()).toEqual([...all, ...later]);
  // In the table from before the partitions, they are deleted with their broadcast.
  await purgeDeliveriesAt(month(1));
  expect(await deliveries()).toEqual([...all.slice(1), ...later]);
  const DAY_MS = 24 * 3_600_000;
  await purgeDeliveriesAt(month(4) + DAY_MS - 1);
  expect(await deliveries()).toEqual([...all.slice(2), ...later]);
  await Promise.all([purgeDeliveriesAt(month(4) + DAY_MS), purgeDeliveriesAt(month(4) + DAY_MS)]);
  expect(await deliveries()).toEqual(later);
  await purgeDeliveriesAt(month(20));
  expect(await deliveries()).toEqual([]);
});

test('deliveries of broadcasts that are kept longer outlive their month', async () => {
  await createPartitions(db, 'deliveries', month(3));
  await broadcast(month(3), 1_000);
  const kept = await broadcast(month(3) + 1, 3, { sendAtMs: month(5) });
  const keptFirst = await broadcast(month(0), 2, { sendAtMs: month(5) });
  await broadcast(month(4), 1);
  await Promise.all([purgeDeliveriesAt(month(5)), purgeDeliveriesAt(month(5))]);
  const next = `${deliveriesOf(4)}: 1`;
  expect(await deliveries()).toEqual(['deliveries_first_kept: 2', `${deliveriesOf(3, '_kept')}: 3`, next]);
  // They are still found and written.
  await db.query(upsertDelivery, [kept, newId(), firstIdOf(kept)]);
  await db.query(upsertDelivery, [keptFirst, newId(), firstIdOf(keptFirst)]);
  await purgeDeliveriesAt(month(5) + 1);
  expect(await deliveries()).toEqual(['deliveries_first_kept: 3', `${deliveriesOf(3, '_kept')}: 4`, next]);
  await purgeDeliveriesAt(month(7));
  expect(await deliveries()).toEqual([]);
});

test('a backup that begins while retention replaces a month has the deliveries that are kept', async () => {
  await createPartitions(db, 'deliveries', month(3));
  await broadcast(month(3), 2);
  await broadcast(month(3) + 1, 3, { sendAtMs: month(6) });
  await broadcast(month(4), 1);
  const migration = new pg.Client(database.connection);
  await migration.connect();
  await migration.query('begin; lock table broadcast_texts in access exclusive mode');
  const saved = backup({ connection: database.connection }, new PassThrough().resume());
  const waiting = `select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  await expect.poll(() => db.query(sql('', waiting))).toHaveLength(1);
  const kept = async () =>
    ({
      rows: (partition: string) =>
        `select d.* from ${partition} d join broadcasts b on b.id = d.broadcast_id and b.send_at > $1`,
      values: [new Date(month(5))],
    }) as const;
  await dropPartitions(db, 'deliveries', firstIdAt(month(4)), kept);
  expect(await deliveries()).toContain(`${deliveriesOf(3, '_kept')}: 3`);
  await migration.query('rollback');
  await migration.end();
  const { rows } = await saved;
  const again = await backup({ connection: database.connection }, new PassThrough().resume());
  expect(rows).toBe(again.rows);
});

test('a month of which many broadcasts are kept longer is not copied', async () => {
  await createPartitions(db, 'deliveries', month(2));
  await broadcast(month(3), 1);
  await db.query(insertBroadcast, [firstIdAt(month(3) + 1), projectId, 10_001, new Date(month(6))]);
  await purgeDeliveriesAt(month(5));
  expect(await deliveries()).toEqual([`${deliveriesOf(3)}: 1`]);
  await purgeDeliveriesAt(month(8));
  expect(await deliveries()).toEqual([]);
});

test('a table with deliveries becomes the first partition while the previous release uses it', async () => {
  const name = `former_${randomUUID().replaceAll('-', '')}`;
  await db.query(sql('', `create database ${name}`));
  const settings = { ...database.connection, database: name };
  const client = new pg.Client(settings);
  const previous = openDatabase(settings, { size: 1, name: 'previous release' });
  try {
    await client.connect();
    await migrate(client, { to: 58 });
    projectId = (await createProject({ db: previous, sealer }, 'former'))?.id ?? '';
    await client.query('grant select on deliveries to public');
    // The clock of the server may have been ahead.
    for (const ms of [month(-20), month(2)]) await broadcast(ms, 2, { of: previous });
    let written = 2;
    let migrated = false;
    const working = (async () => {
      for (let after = 0; after < 20; after += migrated ? 1 : 0) {
        await broadcast(Date.now(), 1, { of: previous });
        written += 1;
      }
    })();
    const applied = await migrate(client);
    migrated = true;
    await working;
    expect(applied.slice(0, 2)).toEqual([59, 60]);
    const found = await deliveries(previous);
    expect(found).toHaveLength(written);
    expect(new Set(found)).toEqual(new Set(['deliveries_first: 2', 'deliveries_first: 1']));
    await createPartitions(previous, 'deliveries', month(3));
    await broadcast(month(5), 1, { of: previous });
    expect((await deliveries(previous)).at(-1)).toBe(`${deliveriesOf(5)}: 1`);
    const { rows: readers } = await client.query(
      `select from pg_class, aclexplode(relacl) where relname = 'deliveries' and grantee = 0
        and privilege_type = 'SELECT'`,
    );
    expect(readers).toHaveLength(1);
    await expect(previous.query(upsertWrongState)).rejects.toMatchObject({ code: '23514' });
  } finally {
    await client.end();
    await previous.close();
    await db.query(sql('', `drop database ${name} with (force)`));
  }
});

/** An id of a notification of this broadcast. */
const firstIdOf = (broadcastId: string) => notificationId(broadcastId, newId());

const insertBroadcast = sql(
  'test_insert_broadcast',
  `insert into broadcasts (id, project_id, message, status, total, send_at)
  values ($1, $2, '', 'processed', $3, $4)`,
);
const insertUsers = sql(
  'test_insert_users',
  'insert into broadcast_users (broadcast_id, page, user_ids) values ($1, 0, $2::uuid[])',
);
const insertDeliveries = sql(
  'test_insert_deliveries',
  `insert into deliveries (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
  )
  select user_id, id, 'email', $1, 'sent', 1, now(), now()
  from unnest($2::uuid[], $3::uuid[]) as d (user_id, id)`,
);
const upsertDelivery = sql(
  'test_upsert_delivery',
  `insert into deliveries (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
  )
  values ($2, $3, 'email', $1, 'sent', 1, now(), now())
  on conflict (user_id, notification_id, channel) do update set attempts = 2`,
);
const upsertWrongState = sql(
  'test_upsert_wrong_state',
  `insert into deliveries (
    user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
  )
  select id, id, 'email', id, 'none', 1, now(), now() from broadcasts limit 1`,
);

test('a table with events becomes the first partition while the previous release uses it', async () => {
  const name = `former_${randomUUID().replaceAll('-', '')}`;
  await db.query(sql('', `create database ${name}`));
  const settings = { ...database.connection, database: name };
  const client = new pg.Client(settings);
  const previous = openDatabase(settings, { size: 1, name: 'previous release' });
  try {
    await client.connect();
    await migrate(client, { to: 54 });
    projectId = (await createProject({ db: previous, sealer }, 'former'))?.id ?? '';
    await client.query('grant select on events to public');
    const expected = [await event(month(-20), previous), await event(month(-3), previous)];
    const found: number[] = [];
    let migrated = false;
    const working = (async () => {
      for (let after = 0; after < 20; after += migrated ? 1 : 0) {
        expected.push(await event(Date.now(), previous));
        found.push((await previous.query(listByPlace, [projectId])).length);
      }
    })();
    const applied = await migrate(client);
    migrated = true;
    await working;
    expect(applied.slice(0, 2)).toEqual([55, 56]);
    expect(found).toEqual(expected.slice(2).map((_, index) => index + 3));
    expect(await previous.query(purgeByPlace, [firstIdAt(month(-10))])).toHaveLength(1);
    const { rows } = await client.query<{ id: string }>('select id from events');
    expect(rows.map(({ id }) => id).sort()).toEqual(expected.slice(1).sort());
    const { rows: readers } = await client.query(
      `select from pg_class, aclexplode(relacl) where relname = 'events' and grantee = 0
        and privilege_type = 'SELECT'`,
    );
    expect(readers).toHaveLength(1);
  } finally {
    await client.end();
    await previous.close();
    await db.query(sql('', `drop database ${name} with (force)`));
  }
});

// As the release before reads a page and purges: rows are found again by their place in the table.
const listByPlace = sql(
  'test_list_by_place',
  `with picked as (select ctid as place, id from events where project_id = $1 order by id desc)
  select e.id
  from picked
  cross join lateral (select id from events where project_id = $1 and ctid = picked.place limit 1) e`,
);
const purgeByPlace = sql(
  'test_purge_by_place',
  `delete from events
  where ctid = any (array(select ctid from events where id < $1 order by id limit 1000))
  returning 1`,
);

test('a user that does not own the tables is named, and the database still counts as writable', async () => {
  const role = `limited_${randomUUID().replaceAll('-', '')}`;
  await db.query(sql('', `create role ${role} login`));
  try {
    await db.query(sql('', `grant all on all tables in schema public to ${role}`));
    const writeFailures = new WriteFailures();
    const options = { size: 1, name: 'not the owner', writeFailures };
    const limited = openDatabase({ ...database.connection, user: role }, options);
    const reason = 'does not own the table events';
    await expect(createPartitions(limited, 'events', month(1))).rejects.toThrow(reason);
    await createPartitions(db, 'events', month(1));
    await expect(dropPartitions(limited, 'events', firstIdAt(month(5)))).rejects.toThrow(reason);
    expect(writeFailures.recent()).toBeUndefined();
    await limited.close();
  } finally {
    await db.query(sql('', `drop owned by ${role}`));
    await db.query(sql('', `drop role ${role}`));
  }
});

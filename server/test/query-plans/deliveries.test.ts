import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { createPartitions } from '../../src/db/partitions.ts';
import { replayDeliveries } from '../../src/domain/after/replay/replay.ts';
import { countDeliveries } from '../../src/domain/line/ledger/count.ts';
import { listDeliveries } from '../../src/domain/line/ledger/list.ts';
import { listFirstDeliveries } from '../../src/domain/line/ledger/list-first.ts';
import { locateNotification } from '../../src/domain/line/ledger/locate.ts';
import { deliveriesOfNotification } from '../../src/domain/line/ledger/of-notification.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { readsOf } from '../support/reads-of.ts';
import { rowsOf } from '../support/rows.ts';

// What statements about deliveries read, after a broadcast to a topic has reached 40,000 users in 40 pages.

const PAGES = 40;
const USERS = 1_000;
const clock = { now: Date.now };
const ledger = () => ({ db, brand: 'service', projectId });
let database: TestDatabase;
let db: Database;
let projectId: string;
let id: string;
const users: string[][] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'delivery plans', isDistributed: false });
  [projectId, id] = [newId(), newId()];
  await rowsOf(
    db,
    `insert into broadcasts (id, project_id, message, status) values ($1, $2, '\\x007b7d', 'processed')`,
    [id, projectId],
  );
  await createPartitions(db, 'deliveries', Date.now() + 150 * 24 * 3_600_000);
  await readAll(); // the plans are made while the tables are empty
  for (let page = 0; page < PAGES; page += 1) {
    const some = Array.from({ length: USERS }, () => newId());
    users.push(some);
    await rowsOf(db, 'insert into broadcast_users values ($1, $2, $3::uuid[], $4)', [
      id,
      page,
      `{${some.join(',')}}`,
      '[{"channel":"in_app"},{"channel":"email","due":1}]',
    ]);
    await rowsOf(
      db,
      `insert into deliveries (
        user_id, notification_id, channel, broadcast_id, state, attempts, first_attempt_at, last_attempt_at
      )
      select user_id, id, 'email', $1, case when n % 2 = 0 then 'failed' else 'sent' end, 1, now(), now()
      from unnest($2::uuid[], $3::uuid[]) with ordinality as d (user_id, id, n)`,
      [id, `{${some.join(',')}}`, `{${some.map((user) => notificationId(id, user)).join(',')}}`],
    );
  }
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

/** Runs all reads, in the middle of the broadcast. */
async function readAll(): Promise<void> {
  const user = users[PAGES / 2]?.[USERS / 2] ?? newId();
  for (const direction of ['older', 'newer'] as const)
    for (const state of [undefined, 'failed', 'retrying', 'scheduled'] as const)
      for (const channel of [undefined, 'email'])
        await listDeliveries(
          ledger(),
          id,
          { ...(state ? { state } : {}), ...(channel ? { channel } : {}) },
          { direction, id: `${PAGES / 2}-${user}.email`, limit: 101 },
        );
  await listDeliveries(ledger(), id, {}, { direction: 'older', id: NEWEST, limit: 101 });
  await listDeliveries(ledger(), id, {}, { direction: 'newer', id: OLDEST, limit: 101 });
  await listFirstDeliveries(ledger(), [id], { channel: 'email', limit: 100 });
  await countDeliveries(db, [id], { channel: undefined, failed: false });
  await countDeliveries(db, [id], { channel: undefined, failed: true });
  await deliveriesOfNotification(ledger(), notificationId(id, user));
  await replayDeliveries({ db, clock }, projectId, id, { user_ids: [user], channel: 'sms' });
  await replayDeliveries({ db, clock }, projectId, id, { user_ids: [newId()], state: 'skipped' });
}

test('a page in the middle of a large broadcast reads as few rows as the first one', async () => {
  const user = users[PAGES / 2]?.[USERS / 2];
  for (const [name, cursor, direction] of [
    ['first', NEWEST, 'older'],
    ['middle', `${PAGES / 2}-${user}.email`, 'older'],
    ['middle, backwards', `${PAGES / 2}-${user}.email`, 'newer'],
    ['last', OLDEST, 'newer'],
  ] as const) {
    const reads = await readsOf(db, () =>
      listDeliveries(ledger(), id, {}, { direction, id: cursor, limit: 100 }),
    );
    expect([name, reads.scanned, reads.rows < 120]).toEqual([name, [], true]);
  }
});

test('the first pages of several broadcasts read only their own rows, and continue in the list', async () => {
  let pages: Awaited<ReturnType<typeof listFirstDeliveries>> | undefined;
  const reads = await readsOf(db, async () => {
    pages = await listFirstDeliveries(ledger(), [id, newId()], { channel: 'email', limit: 3 });
  });
  expect([reads.scanned, reads.rows < 120]).toEqual([[], true]);
  const [page, none] = [...(pages?.values() ?? [])];
  expect(none).toEqual({ items: [], older: undefined, newer: undefined });
  const whole = await listDeliveries(
    ledger(),
    id,
    { channel: 'email' },
    { direction: 'older', id: NEWEST, limit: 5 },
  );
  expect(page?.items).toEqual(whole.items.slice(0, 3));
  const rest = { direction: 'older', id: page?.older ?? '', limit: 2 } as const;
  expect((await listDeliveries(ledger(), id, { channel: 'email' }, rest)).items).toEqual(
    whole.items.slice(3),
  );
});

test('the deliveries of several broadcasts are counted by index', async () => {
  const counts = new Map<string, number | undefined>();
  const reads = await readsOf(db, async () => {
    for (const failed of [false, true])
      for (const channel of [undefined, 'email', 'sms']) {
        const found = await countDeliveries(db, [id, newId()], { channel, failed });
        expect(found.size).toBeLessThan(2);
        counts.set(`${failed} ${channel}`, found.get(id));
      }
  });
  expect(reads.scanned).toEqual([]);
  expect(Object.fromEntries(counts)).toEqual({
    'false undefined': 2 * PAGES * USERS,
    'false email': PAGES * USERS,
    'false sms': 0,
    'true undefined': (PAGES * USERS) / 2,
    'true email': (PAGES * USERS) / 2,
    'true sms': undefined,
  });
});

test('pages of users without the wanted channel are skipped', async () => {
  const page = (await listFirstDeliveries(ledger(), [id], { channel: 'sms', limit: 3 })).get(id);
  expect(page?.items).toEqual([]);
  const rest = { direction: 'older', id: page?.older ?? '', limit: 3 } as const;
  expect((await listDeliveries(ledger(), id, { channel: 'sms' }, rest)).items).toEqual([]);
});

test('a search for a rare state ends after some thousand rows, and returns where to continue', async () => {
  const found: string[] = [];
  let at: string | undefined = NEWEST;
  let searches = 0;
  for (; at !== undefined && searches < PAGES; searches += 1) {
    const from: string = at;
    let list: Awaited<ReturnType<typeof listDeliveries>> | undefined;
    const reads = await readsOf(db, async () => {
      list = await listDeliveries(
        ledger(),
        id,
        { state: 'retrying' },
        { direction: 'older', id: from, limit: 100 },
      );
    });
    expect(reads.scanned).toEqual([]);
    expect(reads.rows).toBeLessThan(7_000);
    expect(list?.newer !== undefined).toBe(from !== NEWEST);
    found.push(...(list?.items.map((row) => row.delivery.id) ?? []));
    at = list?.older;
  }
  expect(found).toEqual([]);
  expect([at, searches > 5]).toEqual([undefined, true]);
});

test('the user of a notification is found in any place of a page', async () => {
  for (const [page, place] of [
    [0, 0],
    [0, USERS - 1],
    [PAGES / 2, USERS / 2],
    [PAGES - 1, USERS - 1],
  ] as const) {
    const userId = users[page]?.[place] ?? '';
    const found = await locateNotification(db, id, notificationId(id, userId));
    expect(found).toMatchObject({ userId, notificationId: notificationId(id, userId), page, place });
  }
  expect(await locateNotification(db, id, notificationId(id, newId()))).toBeUndefined();
});

test('failed deliveries are read by their index, in order', async () => {
  const user = users[PAGES / 2]?.[USERS / 2];
  const reads = await readsOf(db, () =>
    listDeliveries(
      ledger(),
      id,
      { state: 'failed' },
      { direction: 'older', id: `failed-${user}.email`, limit: 100 },
    ),
  );
  expect(reads.scanned).toEqual([]);
  expect(reads.rows).toBeLessThanOrEqual(102); // the page, and one on each side
});

test('no statement about deliveries scans a table or sorts a broadcast', async () => {
  const failed = (PAGES * USERS) / 2;
  expect(await replayDeliveries({ db, clock }, projectId, id, {})).toBe(failed);
  expect(await replayDeliveries({ db, clock }, projectId, id, { channel: 'email' })).toBe(failed - 2_000);
  const statements = await rowsOf<{ name: string; parameters: number }>(
    db,
    `select name, cardinality(parameter_types) as parameters
    from pg_prepared_statements
    where name <> ''
      and statement ~* '(from|join|update|into) (broadcasts|broadcast_users|notifications|deliveries)\\M'`,
  );
  expect(statements.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'list_broadcast_users',
      'list_broadcast_users_backwards',
      'list_failed_deliveries_older',
      'list_failed_deliveries_on_channel_newer',
      'read_deliveries',
      'read_shown',
      'find_deliveries_in_state',
      'locate_notification',
      'locate_users',
      'broadcasts_of_notification',
      'failed_deliveries_of_users',
      'insert_skipped_deliveries',
      'replay_deliveries',
      'replay_failed_deliveries',
      'count_failed_deliveries_on_channel',
    ]),
  );
  await rowsOf(db, 'set plan_cache_mode = force_generic_plan');
  for (const { name, parameters } of statements) {
    const values = Array.from({ length: parameters }, () => 'null').join(', ');
    const lines = await rowsOf<Record<'QUERY PLAN', string>>(db, `explain execute ${name}(${values})`);
    const whole = lines.map((line) => line['QUERY PLAN']).join('\n');
    // A HashAggregate removes duplicate parameters, and reads no table. A Merge Append has the partitions.
    // The hash of a ProjectSet holds the members of a parameter.
    const plan = whole.replace(/Hash Semi Join|Hash Cond|-> {2}Hash .*\n *-> {2}ProjectSet/g, (found) =>
      whole.includes('ProjectSet') ? '' : found,
    );
    expect([name, plan]).toEqual([
      name,
      expect.not.stringMatching(/Seq Scan|Hash(?!Aggregate)|Merge(?! Append)/),
    ]);
    if (name.startsWith('list_'))
      expect([name, plan]).toEqual([name, expect.not.stringMatching(/Sort {2}|Incremental/)]);
  }
});

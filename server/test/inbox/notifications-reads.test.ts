import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../../src/db/client.ts';
import {
  countUnread,
  countUnseen,
  MAX_UNREAD_COUNT,
} from '../../src/domain/line/notifications/count-unread.ts';
import { findFewNotifications } from '../../src/domain/line/notifications/few.ts';
import { FEW_BROADCASTS, findFewBroadcasts } from '../../src/domain/line/notifications/find-few.ts';
import { listNotifications } from '../../src/domain/line/notifications/list.ts';
import { listNumberedPage } from '../../src/domain/line/notifications/list-numbered.ts';
import {
  HIDDEN,
  IN_STATUS,
  type NotificationFilter,
  type StateFilter,
} from '../../src/domain/line/notifications/row.ts';
import { unsnooze } from '../../src/domain/line/notifications/unsnooze.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/service.ts';

const LIMIT = 51;
const MANY = 20_000;
/** The middle of the list. */
const SHOWN_LATER = '01900000-0000-7000-8000-000000010000';
const FIRST_PAGE = { direction: 'older', id: NEWEST, limit: LIMIT } as const;
const STATUSES = Object.keys(IN_STATUS) as (keyof typeof IN_STATUS)[];

let database: TestDatabase;
let db: Database;
/**
 * For each status, a user with twenty thousand notifications in it. Every second one was shown later than it
 * was created.
 */
const users = { unread: newId(), read: newId(), archived: newId(), snoozed: newId() };

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'test', isDistributed: false });
  for (const status of STATUSES) {
    const touched = {
      unread: [null, null, null],
      read: ['now', null, null],
      archived: ['now', 'now', null],
      snoozed: [null, null, 'now'],
    }[status];
    await db.query(fill, [users[status], MANY, ...touched]);
  }
  // Rows that a transaction of before might not see keep their page from being all-visible, for example while
  // PostgreSQL analyzes a table.
  await until(
    async () => {
      await db.query(sql('test_vacuum', 'vacuum analyze notifications'));
      return db.query<{ pages: number }>(selectNotAllVisible);
    },
    ([row]) => row?.pages === 0,
  );
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const fill = sql(
  'test_fill_inbox',
  `insert into notifications
    (user_id, id, broadcast_id, sent_at, read_at, archived_at, snoozed_until, discarded_at, place)
  select $1, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, gen_random_uuid(), now(),
         $3::timestamptz, $4::timestamptz, $5::timestamptz, case when $5 is not null then ${HIDDEN} end,
    case when i % 2 = 0 then ('01910000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid end
  from generate_series(1, $2::int) i`,
);
const selectNotAllVisible = sql(
  'test_not_all_visible',
  "select relpages - relallvisible as pages from pg_class where oid = 'notifications'::regclass",
);
const selectRowsRead = sql(
  'test_rows_read',
  `select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables
    where relname = 'notifications'`,
);

const selectScans = sql(
  'test_index_scans',
  "select idx_scan::int as scans from pg_stat_xact_user_tables where relname = 'notifications'",
);

/** The number of table rows that the work reads, with the first plan and with the generic one. */
async function rowsRead(work: (tx: Queryable) => Promise<unknown>): Promise<number> {
  return db.transaction(async (tx) => {
    let most = 0;
    for (let round = 0; round < 8; round += 1) {
      const [before] = await tx.query<{ rows: number }>(selectRowsRead);
      await work(tx);
      const [after] = await tx.query<{ rows: number }>(selectRowsRead);
      most = Math.max(most, (after?.rows ?? 0) - (before?.rows ?? 0));
    }
    return most;
  });
}

test.each(
  STATUSES.flatMap((actual) =>
    ([undefined, ...STATUSES] as const).map((status) => [actual, status ?? 'all'] as const),
  ),
)('with 20,000 %s notifications, a page of %s reads only its own', async (status, listed) => {
  const filter = listed === 'all' ? {} : { status: listed };
  const older = FIRST_PAGE;
  const newer = { direction: 'newer', id: OLDEST, limit: LIMIT } as const;
  for (const cursor of [older, newer, { ...older, id: SHOWN_LATER }, { ...newer, id: SHOWN_LATER }]) {
    const read = await rowsRead((tx) => listNotifications(tx, users[status], filter, cursor));
    // The cursor is looked up in each of the two lists that are merged.
    expect(read).toBeLessThanOrEqual(cursor.id === SHOWN_LATER ? 2 + LIMIT : LIMIT);
  }
  const shown = await listNotifications(db, users[status], filter, older);
  const expected =
    listed === status || (listed === 'all' && (status === 'unread' || status === 'read')) ? LIMIT : 0;
  expect(shown).toHaveLength(expected);
});

test('an unread count reads only the notifications that it counts', async () => {
  const most = await rowsRead((tx) => countUnread(tx, users.unread));
  expect(most).toBeLessThanOrEqual(MAX_UNREAD_COUNT);
  expect(await countUnread(db, users.unread)).toBe(MAX_UNREAD_COUNT);
  expect(await rowsRead((tx) => countUnread(tx, users.read))).toBe(0);
  expect(await rowsRead((tx) => countUnseen(tx, users.read))).toBe(0);
});

test('snoozed notifications return without reading others of the user', async () => {
  const bus = { publish() {}, subscribe: () => () => {} };
  const all = { direction: 'older', id: NEWEST, limit: 8 * LIMIT } as const;
  const snoozed = await listNotifications(db, users.snoozed, { status: 'snoozed' }, all);
  const of = { projectId: newId(), userId: users.snoozed, untilMs: null, isRepeat: true };
  let returned = 0;
  const read = await rowsRead(async (tx) => {
    const due = snoozed.splice(0, LIMIT).map(({ id }) => ({ ...of, id }));
    returned += (await unsnooze({ db: tx, bus }, due)).length;
  });
  expect(returned).toBe(8 * LIMIT);
  // The lock, the update, and the look-up of what an earlier run returned.
  expect(read).toBeLessThanOrEqual(3 * LIMIT);
});

test('a numbered page counts without reading rows, and reads those up to its end', async () => {
  const read = (status: 'unread' | 'read', filter: StateFilter, page: number) => {
    const user = { projectId: newId(), id: users[status] };
    return rowsRead(async (tx) => {
      const { rows, total } = await listNumberedPage(tx, user, filter, { page, perPage: 15 });
      expect([rows.length, total]).toEqual([15, MANY]);
    });
  };
  for (const filter of [{}, { read: false }, { seen: false }]) {
    expect(await read('unread', filter, 1)).toBe(15);
    expect(await read('unread', filter, 100)).toBe(1_500);
  }
  for (const filter of [{}, { read: true }, { seen: true }]) expect(await read('read', filter, 1)).toBe(15);
  // Three counts, and the two lists that are merged.
  const scans = await db.transaction(async (tx) => {
    const user = { projectId: newId(), id: users.unread };
    const [before] = await tx.query<{ scans: number }>(selectScans);
    await listNumberedPage(tx, user, {}, { page: 1, perPage: 15 });
    const [after] = await tx.query<{ scans: number }>(selectScans);
    return (after?.scans ?? 0) - (before?.scans ?? 0);
  });
  expect(scans).toBe(5);
});

describe('a filter that few broadcasts of the project match', () => {
  const projectId = newId();
  const userId = newId();
  const user = { projectId, userId };
  const wanted = {
    few: { categories: ['news'] },
    'few, without a category': { categories: [null] },
    'few under a topic': { topics: ['order-1'] },
    'few, of those with a category that many have': { categories: ['orders'], topics: ['order-1'] },
    none: { categories: ['unknown'] },
    'none under a topic': { topics: ['unknown'] },
  } satisfies Record<string, NotificationFilter>;

  beforeAll(async () => {
    // The user has every second of the rare ones. Every third of those is read, and every fourth archived.
    const rare = Array.from({ length: 300 }, (_, n) => {
      const id = newId(Date.now() - 1_000_000 + n * 1_000);
      const category = n % 3 === 0 ? null : n % 3 === 1 ? 'news' : 'orders';
      return {
        id,
        category,
        topic: n % 3 === 2 ? 'order-1' : null,
        got: n % 2 === 0,
        read: n % 9 < 3,
        archived: n % 8 === 0,
      };
    });
    await db.query(insertBroadcasts, [
      projectId,
      rare.map((one) => one.id),
      rare.map((one) => one.category),
      rare.map((one) => one.topic),
    ]);
    const got = rare.filter((one) => one.got);
    await db.query(insertNotifications, [
      userId,
      got.map((one) => notificationId(one.id, userId)),
      got.map((one) => one.category),
      got.map((one) => one.topic),
      got.map((one) => one.read),
      got.map((one) => one.archived),
    ]);
    await db.query(fillFrequent, [projectId, MANY]);
    await db.query(fillOrders, [userId, MANY]);
    await db.query(sql('test_analyze_all', 'analyze notifications, broadcasts'));
  });

  test.each(Object.entries(wanted))(
    'reads only its own notifications in an inbox of 20,000: %s',
    async (_what, filter) => {
      const among = await findFewNotifications(db, user, filter);
      for (const status of [undefined, ...STATUSES]) {
        for (const [direction, id] of [
          ['older', NEWEST],
          ['newer', OLDEST],
          ['older', among?.[20] ?? NEWEST],
          ['newer', among?.[20] ?? OLDEST],
        ] as const) {
          const cursor = { direction, id, limit: LIMIT };
          const listed = { ...filter, ...(status === undefined ? {} : { status }) };
          const walked = await listNotifications(db, userId, listed, cursor);
          const lookUp = (tx: Queryable) => listNotifications(tx, userId, { ...listed, among }, cursor);
          expect(await lookUp(db)).toEqual(walked);
          expect(await rowsRead(lookUp)).toBeLessThanOrEqual(150);
        }
      }
      const walked = await countUnread(db, userId, filter);
      expect(await countUnread(db, userId, { ...filter, among })).toBe(walked);
      expect(await countUnseen(db, userId, { ...filter, among })).toBe(await countUnseen(db, userId, filter));
      const [only] = 'topics' in filter ? filter.topics : filter.categories;
      expect(walked > 20).toBe(only !== 'unknown');
      expect(await rowsRead((tx) => countUnread(tx, userId, { ...filter, among }))).toBeLessThanOrEqual(150);
    },
  );

  test('works like this for up to 500 of them', async () => {
    const other = newId();
    await db.query(fillFrequent, [other, FEW_BROADCASTS]);
    expect(await findFewBroadcasts(db, other, { category: 'orders' })).toHaveLength(FEW_BROADCASTS);
    await db.query(insertBroadcasts, [other, [newId()], ['orders'], [null]]);
    expect(await findFewBroadcasts(db, other, { category: 'orders' })).toBeUndefined();
    expect(
      await findFewNotifications(db, { projectId: other, userId }, { categories: ['orders'] }),
    ).toBeUndefined();
    expect(await findFewNotifications(db, { projectId: other, userId }, {})).toBeUndefined();
  });

  test('ignores broadcasts of another project with the same names', async () => {
    expect(await findFewBroadcasts(db, newId(), { category: 'news' })).toEqual([]);
    expect(await findFewBroadcasts(db, newId(), { category: null })).toEqual([]);
    expect(await findFewBroadcasts(db, newId(), { topic: 'order-1' })).toEqual([]);
  });
});

const insertBroadcasts = sql(
  'test_insert_broadcasts',
  `insert into broadcasts (id, project_id, category, topic, message)
  select id, $1, category, topic, ''
  from unnest($2::uuid[], $3::text[], $4::text[]) as b (id, category, topic)`,
);
const insertNotifications = sql(
  'test_insert_notifications',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category, topic, read_at, archived_at)
  select $1, id, id, now(), category, topic, case when read then now() end, case when archived then now() end
  from unnest($2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::boolean[])
         as n (id, category, topic, read, archived)`,
);
const fillOrders = sql(
  'test_fill_orders',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category)
  select $1, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid,
             gen_random_uuid(), now(), 'orders'
  from generate_series(1, $2::int) i`,
);
const fillFrequent = sql(
  'test_fill_frequent',
  `insert into broadcasts (id, project_id, category, topic, message)
  select gen_random_uuid(), $1, 'orders', 'order-' || 1 + n, ''
  from generate_series(1, $2::int) as n`,
);

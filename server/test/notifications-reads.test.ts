import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, sql } from '../src/db/client.ts';
import { countUnread, MAX_UNREAD_COUNT } from '../src/domain/notifications/count-unread.ts';
import { listNotifications } from '../src/domain/notifications/list.ts';
import { STANDING } from '../src/domain/notifications/row.ts';
import { NEWEST, OLDEST } from '../src/lib/cursor.ts';
import { newId } from '../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from './support/database.ts';

const LIMIT = 51;
const MANY = 20_000;
const STANDINGS = Object.keys(STANDING) as (keyof typeof STANDING)[];

let database: TestDatabase;
let db: Database;
/** For each standing a user who has twenty thousand notifications, all in it. */
const users = { unread: newId(), read: newId(), archived: newId() };

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'test' });
  for (const standing of STANDINGS) {
    const touched = { unread: [null, null], read: ['now', null], archived: ['now', 'now'] }[standing];
    await db.query(fill, [users[standing], MANY, ...touched]);
  }
  await db.query(sql('test_analyze', 'analyze notifications'));
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const fill = sql(
  'test_fill_inbox',
  `insert into notifications (user_id, id, broadcast_id, sent_at, read_at, archived_at)
  select $1, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, gen_random_uuid(), now(), $3::timestamptz, $4::timestamptz
  from generate_series(1, $2::int) i`,
);
const selectRowsRead = sql(
  'test_rows_read',
  "select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = 'notifications'",
);

/** How many rows of the table the work looks at, in the first plan and in the one that stays once a statement was used often. */
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
  STANDINGS.flatMap((standing) =>
    ([undefined, ...STANDINGS] as const).map((status) => [standing, status ?? 'all'] as const),
  ),
)('with 20,000 that are %s, a page of %s reads no more than it shows', async (standing, listed) => {
  const filter = listed === 'all' ? {} : { status: listed };
  const older = { direction: 'older', id: NEWEST, limit: LIMIT } as const;
  const newer = { direction: 'newer', id: OLDEST, limit: LIMIT } as const;
  for (const cursor of [older, newer]) {
    const read = await rowsRead((tx) => listNotifications(tx, users[standing], filter, cursor));
    expect(read).toBeLessThanOrEqual(LIMIT);
  }
  const shown = await listNotifications(db, users[standing], filter, older);
  const expected = listed === standing || (listed === 'all' && standing !== 'archived') ? LIMIT : 0;
  expect(shown).toHaveLength(expected);
});

test('an unread count reads no more than it counts', async () => {
  const most = await rowsRead((tx) => countUnread(tx, users.unread));
  expect(most).toBeLessThanOrEqual(MAX_UNREAD_COUNT);
  expect(await countUnread(db, users.unread)).toBe(MAX_UNREAD_COUNT);
  expect(await rowsRead((tx) => countUnread(tx, users.read))).toBe(0);
});

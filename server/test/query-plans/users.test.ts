import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, type Queryable, type Statement, sql } from '../../src/db/client.ts';
import { GRACE_MS, purgeUsers } from '../../src/domain/after/erasure/purge-users.ts';
import { findUser } from '../../src/domain/people/users/find.ts';
import { listUsers } from '../../src/domain/people/users/list.ts';
import { listNumberedUsers } from '../../src/domain/people/users/list-numbered.ts';
import { closedUntil } from '../../src/domain/setup/delivery-windows/closed-until.ts';
import { loadSettings } from '../../src/domain/setup/preferences/settings.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// Every second of these users is deleted. All names have the same prefix, and the matches are the oldest.
const USERS = 40_000;
const projectId = newId();
const smallProjectId = newId();
const SMALL = 500;
const sealer = createSealer([randomBytes(32)]);

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'user plans', isDistributed: false });
  await db.query(
    sql(
      '',
      `with u as (
        insert into users
          (id, project_id, external_id, email, first_name, last_name, created_at, updated_at, deleted_at,
            last_seen_at)
        select ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, $1,
          'user-' || i, 'user-' || i || '@example.com',
          'Ada Una Uma ' || i, 'Usher Ulm Unger ' || i,
          now(), now(), case when i % 2 = 0 then now() end,
          case when i % 10 <> 1 then to_timestamp(i / 4) end
        from generate_series(1, ${USERS}) i
        returning id, external_id, email, deleted_at
      )
      insert into user_keys (project_id, kind, value, user_id, deleted)
      select $1, kind, value, id, deleted_at is not null
      from u, lateral (values ('external_id', external_id), ('email', email)) as k (kind, value)`,
    ),
    [projectId],
  );
  await db.query(
    sql(
      '',
      `insert into users (id, project_id, external_id, created_at, updated_at, last_seen_at)
      select ('01800000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, $1, 'small-' || i,
        now(), now(), now()
      from generate_series(1, ${SMALL}) i`,
    ),
    [smallProjectId],
  );
  await db.query(
    sql(
      '',
      `insert into user_delivery_windows (user_id, config, quiet_hours)
      select id, '{"time_zone":"Asia/Tokyo","channels":[]}', '{"from":"22:00","to":"07:00"}'
      from users
      where deleted_at is null`,
    ),
  );
  await db.query(sql('', 'analyze users, user_delivery_windows'));
  await db.query(sql('', 'analyze user_keys'));
});
afterAll(async () => {
  await db.close();
  await database.drop();
});

interface PlanNode {
  'Node Type': string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

/** Runs a statement. Returns the kinds of its scans and the rows that they read. */
async function explained(of: Queryable, statement: Statement, values: readonly unknown[] = []) {
  const [row] = await of.query<{ 'QUERY PLAN': string }>(
    sql('', `explain (analyze, format json) ${statement.text}`),
    values,
  );
  const [{ Plan: root }] = JSON.parse(row?.['QUERY PLAN'] ?? '[]') as [{ Plan: PlanNode }];
  const nodes = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodes)];
  const scans = nodes(root).filter(
    (node) => / Scan$/.test(node['Node Type']) && !/^(Function|CTE|Subquery)/.test(node['Node Type']),
  );
  return {
    kinds: scans.map((node) => node['Node Type']),
    rows: scans.reduce(
      (sum, node) =>
        sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
      0,
    ),
  };
}

/** Counts the rows that statements read. Expects that none scans a table. */
async function watched(run: (db: Database) => Promise<unknown>) {
  const seen: { kinds: string[]; rows: number }[] = [];
  const watching = (of: Queryable): Queryable => ({
    async query(statement, values) {
      if (/^\s*(select|with|\()/i.test(statement.text) && !/\b(delete|update|insert)\b/i.test(statement.text))
        seen.push(await explained(of, statement, values));
      return of.query(statement, values);
    },
  });
  await run({
    ...db,
    ...watching(db),
    transaction: (work) => db.transaction((tx) => work(watching(tx))),
  });
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.flatMap(({ kinds }) => kinds)).not.toContain('Seq Scan');
  return seen.reduce((sum, { rows }) => sum + rows, 0);
}

test.each([
  ['all', undefined, 200],
  ['a prefix of all users and words of names', 'u', 12_000],
  ['a first name of all users', 'ada', 4_000],
  ['a prefix of a thousandth of them', 'user-399', 400],
  ['an unknown name', 'unknown', 10],
])('a page of %s reads a bounded number of rows', async (_what, query, most) => {
  for (const cursor of [
    { direction: 'older', id: NEWEST, limit: 51 },
    { direction: 'newer', id: '01900000-0000-7000-8000-000000000000', limit: 51 },
  ] as const) {
    let found = 0;
    const rows = await watched(async (through) => {
      found = (await listUsers(through, projectId, query, cursor)).rows.length;
    });
    expect(rows).toBeLessThanOrEqual(most);
    expect(found).toBe(query === 'unknown' ? 0 : 51);
  }
});

test('quiet hours are read for the users of a page or of a batch alone', async () => {
  const userIds = Array.from(
    { length: 200 },
    (_none, index) => `01900000-0000-7000-8000-${String(2 * index + 1).padStart(12, '0')}`,
  );
  const [userId = ''] = userIds;
  const rows = await watched(async (through) => {
    const settings = await loadSettings(through, { projectId, userId });
    expect(settings).toMatchObject({ timeZone: 'Asia/Tokyo', quietHours: { from: '22:00', to: '07:00' } });
  });
  expect(rows).toBe(2);
  const windows = { timeZone: undefined, channels: new Map(), hasUserWindows: true };
  const messages = userIds.map((id) => ({
    userId: id,
    channel: 'sms',
    category: undefined,
    customAttributes: null,
  }));
  const ofBatch = await watched(async (through) => {
    const closed = await closedUntil(through, windows, messages, Date.UTC(2026, 6, 15, 14)); // 23:00 in Tokyo
    expect(messages.every((one) => closed(one)?.code === 'quiet_hours')).toBe(true);
  });
  expect(ofBatch).toBeLessThanOrEqual(200);
});

test.each(['asc', 'desc'] as const)(
  'a numbered page of users by creation, %s, reads those up to it',
  async (direction) => {
    for (const page of [1, 40]) {
      let found = 0;
      const rows = await watched(async (through) => {
        const how = { page, perPage: 50, order: 'created_at', direction } as const;
        found = (await listNumberedUsers(through, projectId, how)).length;
      });
      expect(found).toBe(50);
      expect(rows).toBeLessThanOrEqual((page + 1) * 50);
    }
  },
);

test('a numbered page of users by last_notified_at reads the users of the project once', async () => {
  let found = 0;
  const rows = await watched(async (through) => {
    const how = {
      page: 2,
      perPage: 50,
      order: 'last_notified_at',
      direction: 'desc',
      seenAfter: new Date('2026-01-01T00:00:00Z'),
    } as const;
    found = (await listNumberedUsers(through, smallProjectId, how)).length;
  });
  expect(found).toBe(50);
  expect(rows).toBeLessThanOrEqual(SMALL + 50);
});

// The users that are not deleted, oldest first, with the second of their last visit.
const LIVING = Array.from({ length: USERS / 2 }, (_none, index) => {
  const number = 2 * index + 1;
  return { number, seenAt: number % 10 === 1 ? undefined : Math.floor(number / 4) };
});
const timeOf = (second: number | undefined) => (second === undefined ? undefined : new Date(second * 1_000));

test.each([
  ['no filter', undefined, undefined, 250],
  ['a filter that few users match', undefined, 9_900, 600],
  ['a filter that no user matches', 0, undefined, 10],
  ['a filter that most users match', undefined, 100, 10_600],
  ['two filters', 9_960, 9_900, 400],
])('numbered pages of users with %s by the last visit have all users, and read few', async (...how) => {
  const [, seenBefore, seenAfter, most] = how;
  const matching = LIVING.filter(
    ({ seenAt }) =>
      (seenBefore === undefined || (seenAt !== undefined && seenAt < seenBefore)) &&
      (seenAfter === undefined || (seenAt !== undefined && seenAt > seenAfter)),
  );
  for (const order of ['created_at', 'last_seen_at'] as const)
    for (const direction of ['asc', 'desc'] as const) {
      const sign = direction === 'asc' ? 1 : -1;
      const expected = matching.toSorted((a, b) => {
        if (order === 'created_at' || a.seenAt === b.seenAt) return sign * (a.number - b.number);
        if (a.seenAt === undefined || b.seenAt === undefined) return a.seenAt === undefined ? 1 : -1;
        return sign * (a.seenAt - b.seenAt);
      });
      // At the start, where users that were never seen begin, at the end, and beyond it.
      const seen = expected.findIndex(({ seenAt }) => seenAt === undefined);
      const pages = [1, 2, Math.floor(seen / 50) + 1, Math.ceil(expected.length / 50), USERS];
      for (const page of pages.filter((number) => number > 0)) {
        const bounds = { seenBefore: timeOf(seenBefore), seenAfter: timeOf(seenAfter) };
        const list = (through: Queryable) =>
          listNumberedUsers(through, projectId, { page, perPage: 50, order, direction, ...bounds });
        let users = await list(db);
        if (page <= 2) {
          const rows = await watched(async (through) => {
            users = await list(through);
          });
          expect(rows).toBeLessThanOrEqual(most);
        }
        expect(users.map((user) => user.external_id)).toEqual(
          expected.slice((page - 1) * 50, page * 50).map(({ number }) => `user-${number}`),
        );
      }
    }
});

test.each([
  ['01900000-0000-7000-8000-000000000001', true],
  ['external_id:user-1', true],
  ['email:USER-1@example.com', true],
  ['external_id:user-2', false],
  ['email:unknown@example.com', false],
])('the user %s is found by one row', async (reference, exists) => {
  let found: string | undefined;
  const rows = await watched(async (through) => {
    found = await findUser(through, projectId, reference);
  });
  expect(rows).toBeLessThanOrEqual(1);
  expect(found !== undefined).toBe(exists);
});

test('finding users to purge reads only those that are due, not all that are deleted', async () => {
  const read = (at: number) =>
    watched((through) => purgeUsers({ db: through, sealer, clock: { now: () => at } }));
  expect(await read(Date.now())).toBeLessThanOrEqual(100);
  expect(await read(Date.now() + GRACE_MS + 1_000)).toBeLessThanOrEqual(1_000);
});

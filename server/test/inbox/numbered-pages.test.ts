import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { listNumberedPage } from '../../src/domain/line/notifications/list-numbered.ts';
import { newId, notificationId } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let database: TestDatabase;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'test', isDistributed: false });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

interface Made {
  state: 'unseen' | 'seen' | 'read';
  archived: boolean;
  discarded: boolean;
  category: string | null;
  topic: string | null;
}

const insert = sql(
  'test_insert_made',
  `with broadcast as (
    insert into broadcasts (id, project_id, category, topic, message)
    select id, $2, category, topic, ''
    from unnest($3::uuid[], $5::text[], $6::text[]) as b (id, category, topic)
  )
  insert into notifications
    (user_id, id, broadcast_id, sent_at, category, topic, seen_at, read_at, archived_at, discarded_at)
  select $1, id, broadcast_id, now(), category, topic, case when state <> 'unseen' then now() end,
    case when state = 'read' then now() end, case when archived then now() end,
    case when discarded then now() end
  from unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[], $9::boolean[])
    as n (broadcast_id, id, category, topic, state, archived, discarded)`,
);

const maybe = fc.option(fc.boolean(), { nil: undefined });
const filters = fc.record({
  read: maybe,
  seen: maybe,
  archived: maybe,
  categories: fc.option(fc.subarray(['a', 'b', null], { minLength: 1 }), { nil: undefined, freq: 2 }),
  topics: fc.option(fc.subarray(['t', 'u'], { minLength: 1 }), { nil: undefined, freq: 2 }),
});
const made = fc.record({
  state: fc.constantFrom<Made['state']>('unseen', 'seen', 'read'),
  archived: fc.boolean(),
  discarded: fc.integer({ max: 7, min: 0 }).map((number) => number === 0),
  category: fc.constantFrom('a', 'b', null),
  topic: fc.constantFrom('t', 'u', null),
});

test('a page has the notifications that match all filters, and the counts are exact', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(made, { maxLength: 40 }),
      fc.array(fc.tuple(filters, fc.integer({ min: 1, max: 8 })), { minLength: 12, maxLength: 12 }),
      async (all, requests) => {
        const user = { projectId: newId(), id: newId() };
        const ids = all.map(() => newId());
        const member = <Name extends keyof Made>(name: Name) => all.map((one) => one[name]);
        await db.query(insert, [
          user.id,
          user.projectId,
          ids,
          ids.map((id) => notificationId(id, user.id)),
          member('category'),
          member('topic'),
          member('state'),
          member('archived'),
          member('discarded'),
        ]);
        for (const [{ categories, topics, ...state }, perPage] of requests) {
          const filter = {
            ...state,
            ...(categories === undefined ? {} : { categories }),
            ...(topics === undefined ? {} : { topics }),
          };
          const expected = all
            .map((one, index) => ({ ...one, id: notificationId(ids[index] ?? '', user.id) }))
            .filter((one) => !one.discarded && one.archived === (filter.archived ?? false))
            .filter((one) => filter.read === undefined || (one.state === 'read') === filter.read)
            .filter((one) => filter.seen === undefined || (one.state !== 'unseen') === filter.seen)
            .filter((one) => categories?.includes(one.category) ?? true)
            .filter((one) => topics?.includes(one.topic ?? '') ?? true)
            .reverse();
          const counts = {
            total: expected.length,
            unread: expected.filter((one) => one.state !== 'read').length,
            unseen: expected.filter((one) => one.state === 'unseen').length,
          };
          for (let page = 1; page <= Math.ceil(expected.length / perPage) + 1; page += 1) {
            const { rows, ...exact } = await listNumberedPage(db, user, filter, { page, perPage });
            const ofPage = expected.slice((page - 1) * perPage, page * perPage);
            expect(rows.map((row) => row.id)).toEqual(ofPage.map((one) => one.id));
            expect(exact).toEqual(counts);
          }
        }
      },
    ),
    { numRuns: 40 },
  );
});

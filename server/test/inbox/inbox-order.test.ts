import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import type { Bus } from '../../src/domain/ground/bus/messages.ts';
import { showInInbox } from '../../src/domain/line/deliver/show-in-inbox.ts';
import { changeNotification, type NotificationAction } from '../../src/domain/line/notifications/change.ts';
import { listNotifications } from '../../src/domain/line/notifications/list.ts';
import type { NotificationFilter } from '../../src/domain/line/notifications/row.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { firstIdAt, newId, notificationId, timeOf } from '../../src/lib/ids.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

// An inbox lists its notifications in the order of their arrival: immediate ones by id, later ones by the
// time when they were shown. A client that pages through it while it changes sees everything that was there
// throughout, once and in that order.

let database: TestDatabase;
let db: Database;
const bus: Bus = { publish() {}, subscribe: () => () => {} };
const projectId = newId();

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 4, name: 'test', isDistributed: false });
});
afterAll(async () => {
  await db?.close();
  await database?.drop();
});

const insert = sql(
  'test_insert',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category, topic, discarded_at)
  values ($1, $2, $3, now(), $4, $5, $6)`,
);
const selectAll = sql(
  'test_all',
  `select id, sent_at, category, topic, read_at, archived_at, discarded_at from notifications
    where user_id = $1`,
);

interface Stored {
  id: string;
  sent_at: Date;
  category: string | null;
  topic: string | null;
  read_at: Date | null;
  archived_at: Date | null;
  discarded_at: Date | null | number;
}

/** The id of a broadcast that was accepted at this time. */
const idAt = (ms: number): string => firstIdAt(ms).slice(0, 14) + newId().slice(14);

type Listing = NotificationFilter & { status?: 'unread' | 'read' | 'archived' };

class Inbox {
  readonly userId = newId();
  /** Broadcasts whose notifications are not shown yet. */
  readonly waiting: string[] = [];
  readonly #shownLater = new Set<string>();

  /** Creates a notification that is due this many seconds from now; a later one waits. */
  async make(kind: Kind, { seconds, category, topic }: Made): Promise<void> {
    const broadcastId = idAt(Date.now() + seconds * 1000);
    const id = notificationId(broadcastId, this.userId);
    const held = kind === 'later' ? 'infinity' : null;
    await db.query(insert, [this.userId, id, broadcastId, category, topic, held]);
    if (kind === 'later') this.waiting.push(broadcastId);
  }

  async show(which: number): Promise<void> {
    const [broadcastId] = this.waiting.splice(which % Math.max(1, this.waiting.length), 1);
    if (broadcastId === undefined) return;
    await showInInbox({ db, bus }, { projectId, broadcastId, userIds: [this.userId] });
    this.#shownLater.add(notificationId(broadcastId, this.userId));
  }

  async change(action: NotificationAction, which: number): Promise<void> {
    const all = await db.query<Stored>(selectAll, [this.userId]);
    const one = all[which % Math.max(1, all.length)];
    if (one === undefined) return;
    await changeNotification({ db, bus }, action, { projectId, userId: this.userId, id: one.id });
  }

  /** The ids of the listed notifications, newest first, computed without an index. */
  async listed({ status, categories, topics }: Listing): Promise<string[]> {
    const rows = await db.query<Stored>(selectAll, [this.userId]);
    return rows
      .filter((row) => row.discarded_at === null)
      .filter((row) => categories?.includes(row.category) ?? true)
      .filter((row) => topics?.includes(row.topic ?? '') ?? true)
      .filter((row) => (status === 'archived') === (row.archived_at !== null))
      .filter(
        (row) =>
          status === undefined || status === 'archived' || (status === 'read') === (row.read_at !== null),
      )
      .map((row) => ({ ...row, atMs: this.#shownLater.has(row.id) ? row.sent_at.getTime() : timeOf(row.id) }))
      .sort((a, b) => b.atMs - a.atMs || (a.id.slice(14) < b.id.slice(14) ? 1 : -1))
      .map(({ id }) => id);
  }

  /** The ids that a filter selects, looked up as for a project with few such broadcasts. */
  async among(filter: NotificationFilter): Promise<string[]> {
    const rows = await db.query<Stored>(selectAll, [this.userId]);
    return rows.filter(({ category }) => filter.categories?.includes(category) ?? true).map(({ id }) => id);
  }
}

type Kind = 'immediate' | 'later';
interface Made {
  seconds: number;
  category: string | null;
  topic: string | null;
}

const made = fc.record({
  seconds: fc.integer({ min: -3, max: 3 }),
  category: fc.constantFrom('a', 'b', null),
  topic: fc.constantFrom('t', null),
});
const kind = fc.constantFrom<Kind>('immediate', 'later');
const which = fc.nat({ max: 60 });
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('make' as const), kind, made }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('show' as const), which }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('change' as const),
      action: fc.constantFrom<NotificationAction>('read', 'unread', 'archive', 'unarchive', 'delete'),
      which,
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;
const listing = fc.record(
  {
    status: fc.constantFrom('unread' as const, 'read' as const, 'archived' as const),
    categories: fc.subarray(['a', 'b', null], { minLength: 1 }),
    topics: fc.subarray(['t', 'u'], { minLength: 1 }),
  },
  { requiredKeys: [] },
);

async function take(inbox: Inbox, one: Step): Promise<void> {
  if (one.do === 'make') await inbox.make(one.kind, one.made);
  else if (one.do === 'show') await inbox.show(one.which);
  else await inbox.change(one.action, one.which);
}

test('pages are in the order of arrival without gaps or repeats, whatever changes meanwhile', async () => {
  let [compared, late] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(kind, made), { minLength: 5, maxLength: 25 }),
      fc.array(step, { minLength: 10, maxLength: 30 }),
      fc.array(
        fc.tuple(
          listing,
          fc.boolean(),
          fc.integer({ min: 1, max: 6 }),
          fc.array(fc.array(step, { maxLength: 3 })),
        ),
        {
          minLength: 3,
          maxLength: 5,
        },
      ),
      async (first, before, readings) => {
        const inbox = new Inbox();
        for (const [how, what] of first) await inbox.make(how, what);
        for (const one of before) await take(inbox, one);
        for (const [wanted, lookedUp, limit, meanwhile] of readings) {
          for (const direction of ['older', 'newer'] as const) {
            const atFirst = await inbox.listed(wanted);
            const throughout = new Set(atFirst);
            const shown: string[] = [];
            let id: string = direction === 'older' ? NEWEST : OLDEST;
            for (let page = 0; ; page += 1) {
              const among = lookedUp ? await inbox.among(wanted) : undefined;
              const now = await inbox.listed(wanted);
              for (const one of atFirst) if (!now.includes(one)) throughout.delete(one);
              const rows = await listNotifications(
                db,
                inbox.userId,
                { ...wanted, among },
                { direction, id, limit },
              );
              const found = rows.map((row) => row.id);
              const order = direction === 'older' ? now : now.toReversed();
              // Each page is one contiguous part of the inbox at that moment.
              const start = order.indexOf(found[0] ?? '');
              expect(found).toEqual(found.length === 0 ? [] : order.slice(start, start + found.length));
              const at = order.indexOf(id);
              if (at >= 0 || page === 0) expect(found).toEqual(order.slice(at + 1, at + 1 + limit));
              shown.push(...found);
              if (found.length < limit) break;
              id = found.at(-1) ?? id;
              for (const one of meanwhile[page] ?? []) await take(inbox, one);
            }
            expect(new Set(shown).size).toBe(shown.length);
            const expected = (direction === 'older' ? atFirst : atFirst.toReversed()).filter((one) =>
              throughout.has(one),
            );
            expect(shown.filter((one) => throughout.has(one))).toEqual(expected);
            compared += expected.length;
          }
        }
        late += (await db.query<Stored>(selectAll, [inbox.userId])).length - inbox.waiting.length;
      },
    ),
    { numRuns: 30 },
  );
  expect(compared).toBeGreaterThan(100);
  expect(late).toBeGreaterThan(100);
});

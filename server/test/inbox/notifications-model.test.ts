import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, sql } from '../../src/db/client.ts';
import type { NotificationChanged } from '../../src/domain/ground/bus/messages.ts';
import type { NotificationAction } from '../../src/domain/line/notifications/change.ts';
import type { BulkAction } from '../../src/domain/line/notifications/change-all.ts';
import { countUnread, countUnseen } from '../../src/domain/line/notifications/count-unread.ts';
import { listNotifications } from '../../src/domain/line/notifications/list.ts';
import { listNumberedPage } from '../../src/domain/line/notifications/list-numbered.ts';
import type { NotificationRow } from '../../src/domain/line/notifications/row.ts';
import { NEWEST } from '../../src/lib/cursor.ts';
import { newId } from '../../src/lib/ids.ts';
import {
  INBOX_INTERFACES,
  type InboxInterface,
  type NotificationTimes,
} from '../support/inbox-interfaces.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';

let it: TestService;
let db: Database;
/** The broadcast of all notifications. */
let broadcastId: string;
const published: NotificationChanged[] = [];

beforeAll(async () => {
  it = await startTestService();
  db = it.context.db;
  it.context.bus.subscribe((message) => {
    if (message.type === 'changed') published.push(message);
  });
  const { body } = await it.project.call('POST', '/broadcasts', {
    title: 'T',
    recipients: [{ external_id: 'ada' }],
  });
  broadcastId = body.id;
  await processed(it.project.call, broadcastId);
});
afterAll(() => it?.stop());

const insert = sql(
  'test_insert_notification',
  `insert into notifications (user_id, id, broadcast_id, sent_at, category, topic)
    values ($1, $2, $3, now(), $4, $5)`,
);

/** A simple model of an inbox. */
interface Modelled {
  id: string;
  category: string | null;
  topic: string | null;
  seen: boolean;
  read: boolean;
  archived: boolean;
  snoozed: boolean;
  /** Later ones are nearer to the top. */
  place: number;
}

class Inbox {
  readonly userId: string;
  readonly #interfaces: InboxInterface[];
  readonly model = new Map<string, Modelled>();
  published = 0;
  #places = 0;

  constructor(userId: string, externalId: string) {
    this.userId = userId;
    this.#interfaces = Object.values(INBOX_INTERFACES).map((connect) => connect(it.project, externalId));
  }

  static async create(): Promise<Inbox> {
    const externalId = newId();
    const { body } = await it.project.call('PUT', '/users', { external_id: externalId });
    return new Inbox(body.id, externalId);
  }

  async arrive(category: string | null, topic: string | null): Promise<void> {
    const id = newId();
    await db.query(insert, [this.userId, id, broadcastId, category, topic]);
    const states = { seen: false, read: false, archived: false, snoozed: false };
    this.model.set(id, { id, category, topic, ...states, place: this.#nextPlace() });
  }

  /** Uses one of the interfaces, or the first if that one has no such operation. */
  by<Result>(which: number, work: (one: InboxInterface) => Promise<Result> | undefined): Promise<Result> {
    for (const one of [this.#interfaces[which % this.#interfaces.length], this.#interfaces[0]]) {
      const result = one === undefined ? undefined : work(one);
      if (result !== undefined) return result;
    }
    throw new Error('no interface has this operation');
  }

  /** Starts the same work with each interface that has such an operation, or with some of them. */
  concurrently<Result>(
    work: (one: InboxInterface) => Promise<Result> | undefined,
    most = this.#interfaces.length,
  ): Promise<Result>[] {
    return this.#interfaces.slice(0, most).flatMap((one) => work(one) ?? []);
  }

  /** How many events and messages of the user there are. */
  async eventsAndMessages(): Promise<{ events: number; messages: number }> {
    const [row] = await it.rows<{ count: number }>(
      `select count(*)::int as count
      from events
      where user_ids = array[$1::uuid] and type like 'notification.%'`,
      [this.userId],
    );
    const messages = published.filter((message) => message.userId === this.userId);
    return { events: row?.count ?? 0, messages: messages.length };
  }

  /** The expectation for one change: whether it is found, and whether it changes anything. */
  expectChange(action: NotificationAction, id: string): { found: boolean; changes: boolean } {
    const one = this.model.get(id);
    if (one === undefined) return { found: false, changes: false };
    const before = JSON.stringify(one);
    if (action === 'read') Object.assign(one, { read: true, seen: true });
    if (action === 'unread') one.read = false;
    if (action === 'seen') one.seen = true;
    if (action === 'archive') Object.assign(one, { archived: true, snoozed: false });
    if (action === 'unarchive') one.archived = false;
    if (action === 'delete') this.model.delete(id);
    return { found: true, changes: action === 'delete' || JSON.stringify(one) !== before };
  }

  /** The expectation for a snooze, or for its end: whether it is found, and whether it sends `snoozed`. */
  expectSnooze(id: string, isEnd: boolean): { found: boolean; changes: boolean } {
    const one = this.model.get(id);
    if (one === undefined) return { found: false, changes: false };
    const wasSnoozed = one.snoozed;
    if (!isEnd) Object.assign(one, { snoozed: true, seen: true, archived: false });
    else if (wasSnoozed)
      Object.assign(one, { snoozed: false, seen: false, read: false, place: this.#nextPlace() });
    return { found: true, changes: !isEnd && !wasSnoozed };
  }

  #nextPlace(): number {
    this.#places += 1;
    return this.#places;
  }

  /** How many it changes. */
  expectAll(action: BulkAction, matches: (one: Modelled) => boolean): number {
    return [...this.model.values()]
      .filter((one) => matches(one) && !one.snoozed)
      .filter((one) => this.expectChange(action, one.id).changes).length;
  }

  /** Every response of the inbox equals that of the model. */
  async check(): Promise<void> {
    const all = [...this.model.values()].sort((a, b) => b.place - a.place);
    const newestFirst = all.filter((one) => !one.snoozed);
    const cursor = { direction: 'older', id: NEWEST, limit: 100 } as const;
    const live = newestFirst.filter((one) => !one.archived);
    const of = {
      unread: live.filter((one) => !one.read),
      read: live.filter((one) => one.read),
      archived: newestFirst.filter((one) => one.archived),
      snoozed: all.filter((one) => one.snoozed),
    };
    expect((await listNotifications(db, this.userId, {}, cursor)).map(simple)).toEqual(live.map(plain));
    for (const status of ['unread', 'read', 'archived', 'snoozed'] as const) {
      const rows = await listNotifications(db, this.userId, { status }, cursor);
      expect(rows.map(simple)).toEqual(of[status].map(plain));
    }
    expect(await countUnread(db, this.userId)).toBe(of.unread.length);
    const unseen = of.unread.filter((one) => !one.seen);
    expect(await countUnseen(db, this.userId)).toBe(unseen.length);
    const user = { projectId: it.project.id, id: this.userId };
    expect(await listNumberedPage(db, user, {}, { page: 1, perPage: 1 })).toMatchObject({
      total: live.length,
      unread: of.unread.length,
      unseen: live.filter((one) => !one.seen).length,
    });
    expect(await listNumberedPage(db, user, { snoozed: true }, { page: 1, perPage: 0 })).toMatchObject({
      total: of.snoozed.length,
    });
    for (const category of ['a', null]) {
      const expected = of.unread.filter((one) => one.category === category).length;
      expect(await countUnread(db, this.userId, { categories: [category] })).toBe(expected);
      const expectedUnseen = unseen.filter((one) => one.category === category).length;
      expect(await countUnseen(db, this.userId, { categories: [category] })).toBe(expectedUnseen);
    }
    expect(published.filter((message) => message.userId === this.userId)).toHaveLength(this.published);
  }
}

const plain = ({ id, seen, read, archived }: Modelled) => ({ id, seen, read, archived });
const simple = (row: NotificationRow) => ({
  id: row.id,
  seen: row.seen_at !== null,
  read: row.read_at !== null,
  archived: row.archived_at !== null,
});

const UNTIL = new Date(Date.now() + 3_600_000).toISOString();
const category = fc.constantFrom('a', 'b', null);
const topic = fc.constantFrom('t', null);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('arrive' as const), category, topic }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('change' as const),
      action: fc.constantFrom<NotificationAction>('read', 'unread', 'seen', 'archive', 'unarchive', 'delete'),
      which: fc.nat({ max: 9 }),
      by: fc.nat({ max: 11 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('snooze' as const),
      isEnd: fc.boolean(),
      which: fc.nat({ max: 9 }),
      by: fc.nat({ max: 11 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('all' as const),
      action: fc.constantFrom<BulkAction>('read', 'seen', 'archive'),
      category: fc.option(category, { nil: undefined }),
      topic: fc.option(fc.constant('t'), { nil: undefined }),
      by: fc.nat({ max: 11 }),
    }),
  },
);

test('after any changes by any interface, the inbox equals the model; each is published once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const inbox = await Inbox.create();
      await inbox.arrive('a', 't');
      const ids = [...inbox.model.keys(), newId()];
      for (const one of steps) {
        if (one.do === 'arrive') {
          await inbox.arrive(one.category, one.topic);
          ids.splice(0, ids.length, ...new Set([...ids, ...inbox.model.keys()]));
        } else if (one.do === 'change') {
          const id = ids[one.which % ids.length] ?? '';
          const expected = inbox.expectChange(one.action, id);
          if (expected.changes) inbox.published += 1;
          const found = await inbox.by(one.by, (inbox) => inbox.change(one.action, id));
          expect(found).toBe(expected.found);
        } else if (one.do === 'snooze') {
          const id = ids[one.which % ids.length] ?? '';
          const expected = inbox.expectSnooze(id, one.isEnd);
          if (expected.changes) inbox.published += 1;
          const until = one.isEnd ? null : UNTIL;
          const found = await inbox.by(one.by, (inbox) => inbox.snooze(id, until));
          expect(found).toBe(expected.found);
        } else {
          const { action, category, topic } = one;
          const meant = (it: Modelled) =>
            (category === undefined || it.category === category) &&
            (topic === undefined || it.topic === topic);
          const changes = inbox.expectAll(action, meant);
          const isFiltered = category !== undefined || topic !== undefined;
          inbox.published += isFiltered ? changes : Math.min(changes, 1);
          await inbox.by(one.by, (inbox) => inbox.changeAll(action, { category, topic }));
        }
        await inbox.check();
      }
    }),
    { numRuns: 25 },
  );
});

// Linearizability: is the history of concurrent clients explained by some order of their operations? Each
// notification is a separate register, so each one's history can be checked alone.
test('concurrent operations are linearizable', async () => {
  const inbox = await Inbox.create();
  for (let count = 0; count < 6; count += 1) await inbox.arrive(null, null);
  const ids = [...inbox.model.keys()];
  const history = await play(inbox, ids, { clients: 6, operationsEach: 40 });
  for (const id of ids) {
    const operations = history.filter((operation) => operation.id === id);
    expect(explain(operations), `the history of ${id}: ${JSON.stringify(operations)}`).toBe(true);
  }
  const rows = await listNotifications(db, inbox.userId, {}, { direction: 'older', id: NEWEST, limit: 100 });
  expect(await countUnread(db, inbox.userId)).toBe(rows.filter((row) => row.read_at === null).length);
});

// All of them have found the notification unchanged, and wait for its row.
test('of concurrent changes of one kind, one is made: it has one event, and is published once', async () => {
  const inbox = await Inbox.create();
  await inbox.arrive(null, null);
  const [id = ''] = inbox.model.keys();
  const holder = await db.connect();
  try {
    for (const action of ['seen', 'read', 'unread', 'archive', 'unarchive', 'read', 'delete'] as const) {
      const before = await inbox.eventsAndMessages();
      await holder.query('begin');
      await holder.query('select from notifications where user_id = $1 and id = $2 for update', [
        inbox.userId,
        id,
      ]);
      const changes = inbox.concurrently((one) => one.change(action, id));
      await until(waitingForLocks, (count) => count === changes.length);
      await holder.query('commit');
      const found = (await Promise.all(changes)).filter(Boolean);
      // A notification can be deleted once. Other changes may be repeated.
      expect([action, found.length]).toEqual([action, action === 'delete' ? 1 : changes.length]);
      const after = await inbox.eventsAndMessages();
      expect([action, after.events - before.events, after.messages - before.messages]).toEqual([
        action,
        1,
        1,
      ]);
    }
  } finally {
    await holder.end();
  }
});

test('of concurrent changes of one and of all, one is made: it has one event', async () => {
  const inbox = await Inbox.create();
  await inbox.arrive(null, null);
  const [id = ''] = inbox.model.keys();
  const holder = await db.connect();
  try {
    for (const action of ['seen', 'read', 'archive'] as const) {
      const before = await inbox.eventsAndMessages();
      await holder.query('begin');
      await holder.query('select from notifications where user_id = $1 and id = $2 for update', [
        inbox.userId,
        id,
      ]);
      // Fewer than the connections of the service.
      const all = inbox.concurrently((one) => one.changeAll(action, {}), 3);
      const changes = inbox.concurrently((one) => one.change(action, id), 3);
      await until(waitingForLocks, (count) => count === all.length + changes.length);
      await holder.query('commit');
      await Promise.all([...all, ...changes]);
      const after = await inbox.eventsAndMessages();
      expect([action, after.events - before.events, after.messages - before.messages]).toEqual([
        action,
        1,
        1,
      ]);
    }
  } finally {
    await holder.end();
  }
});

/** How many statements wait for a lock. */
async function waitingForLocks(): Promise<number> {
  const [row] = await it.rows<{ count: number }>(
    `select count(*)::int as count
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return row?.count ?? 0;
}

type State = 'gone' | `${boolean}/${boolean}/${boolean}`; // seen/read/archived

interface Operation {
  id: string;
  action: NotificationAction | 'get';
  started: number;
  ended: number;
  /** The result: of a get the state, of a change whether it was found, or undefined if it does not say. */
  saw: State | boolean | undefined;
}

async function play(
  inbox: Inbox,
  ids: readonly string[],
  { clients, operationsEach }: { clients: number; operationsEach: number },
): Promise<Operation[]> {
  const actions: Operation['action'][] = [
    ...(['read', 'unread', 'seen', 'archive', 'unarchive'] as const),
    ...Array.from({ length: 5 }, () => 'get' as const),
  ];
  const history: Operation[] = [];
  let clock = 0;
  const random = fc.sample(
    fc.tuple(fc.nat(), fc.nat(), fc.nat({ max: 60 }), fc.nat({ max: 11 })),
    clients * operationsEach,
  );
  const client = async () => {
    for (let count = 0; count < operationsEach; count += 1) {
      const [which = 0, what = 0, rare = 1, by = 0] = random.pop() ?? [];
      const id = ids[which % ids.length] ?? '';
      const action = rare === 0 ? 'delete' : (actions[what % actions.length] ?? 'get');
      clock += 1;
      const started = clock;
      let readsAfterwards = false;
      const saw =
        action === 'get'
          ? stateOf(await inbox.by(by, (one) => one.get(id)))
          : await inbox.by(by, (one) => {
              readsAfterwards = one.readsAfterwards === true && action !== 'delete';
              return one.change(action, id);
            });
      clock += 1;
      const operation = { id, started, ended: clock };
      if (saw === false && readsAfterwards)
        history.push(
          { ...operation, action, saw: undefined },
          { ...operation, started: started + 0.5, action: 'get', saw: 'gone' },
        );
      else history.push({ ...operation, action, saw });
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return history;
}

function stateOf(times: NotificationTimes | undefined): State {
  if (times === undefined) return 'gone';
  return `${times.seen_at !== null}/${times.read_at !== null}/${times.archived_at !== null}`;
}

/**
 * Searches for an order in which every result is right, and which respects which operations ended before
 * others started (Wing and Gong).
 */
function explain(operations: readonly Operation[]): boolean {
  const refuted = new Set<string>();
  const search = (left: readonly Operation[], state: State): boolean => {
    if (left.length === 0) return true;
    const position = `${state} ${left.map((operation) => operation.started).join(',')}`;
    if (refuted.has(position)) return false;
    const firstEnd = Math.min(...left.map((operation) => operation.ended));
    for (const operation of left) {
      if (operation.started > firstEnd) continue;
      const next = applied(operation, state);
      if (next === undefined) continue;
      if (
        search(
          left.filter((other) => other !== operation),
          next,
        )
      )
        return true;
    }
    refuted.add(position);
    return false;
  };
  return search(operations, 'false/false/false');
}

/** The state after the operation; undefined if its result is impossible in this state. */
function applied({ action, saw }: Operation, state: State): State | undefined {
  if (action === 'get') return saw === state ? state : undefined;
  if (saw !== undefined && saw !== (state !== 'gone')) return undefined;
  if (state === 'gone') return state;
  if (action === 'delete') return 'gone';
  let [seen, read, archived] = state.split('/').map((part) => part === 'true') as [boolean, boolean, boolean];
  if (action === 'read') [seen, read] = [true, true];
  if (action === 'unread') read = false;
  if (action === 'seen') seen = true;
  if (action === 'archive') archived = true;
  if (action === 'unarchive') archived = false;
  return `${seen}/${read}/${archived}`;
}

test('the checker of histories detects a contradiction', () => {
  const operation = (action: Operation['action'], started: number, saw: Operation['saw']): Operation => ({
    id: 'x',
    action,
    started,
    ended: started + 1,
    saw,
  });
  expect(explain([operation('read', 1, true), operation('get', 3, 'false/false/false')])).toBe(false);
  expect(explain([operation('read', 1, true), operation('get', 3, 'true/true/false')])).toBe(true);
  expect(explain([operation('delete', 1, true), operation('read', 3, true)])).toBe(false);
});

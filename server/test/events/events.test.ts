import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EVENT_TYPES, type EventType } from '../../src/contract/event.ts';
import { findPosition, readFeed } from '../../src/domain/ground/events/feed.ts';
import { type NewEvent, recordEvents } from '../../src/domain/ground/events/record.ts';
import { CREATED_AND_SENT } from '../../src/domain/ground/events/stored-types.ts';
import { newId, notificationId, timeOf } from '../../src/lib/ids.ts';
import { listPages } from '../support/pages.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

interface Shown {
  id: string;
  type: string;
  timestamp: string;
  level?: string;
  context?: Record<string, unknown>;
  user?: { external_id: string | null };
}

/** Follows `next` (or `prev`) to the end. */
const pages = (of: TestProject, path: string, link?: 'next' | 'prev') =>
  listPages<Shown>(of.call, path, link);
const ids = (list: readonly Shown[]) => list.map(({ id }) => id);

describe('reading', () => {
  test('the event of a user that a broadcast creates or changes names the broadcast', async () => {
    const of = await service.createProject('causes');
    const names = Array.from({ length: 20 }, (_, n) => `user ${n}`);
    // In one fan-out, as far as they arrive together.
    const send = async (name: string, more: object = {}) => {
      const recipients = [{ external_id: name, ...more }, { external_id: `${name}, too` }];
      const { body } = await of.call('POST', '/broadcasts', { title: name, recipients });
      await processed(of.call, body.id);
      return body.id as string;
    };
    const causes = async (type: string) =>
      new Map(
        ((await of.call('GET', `/events?type=${type}&limit=100`)).body.data as Shown[]).map(
          ({ user, context }) => [user?.external_id, context?.broadcast_id],
        ),
      );
    const sent = new Map(await Promise.all(names.map(async (name) => [name, await send(name)] as const)));
    const created = await causes('user.created');
    expect(created).toEqual(
      new Map([...sent, ...[...sent].map(([name, id]) => [`${name}, too`, id] as const)]),
    );
    const changed = new Map(
      await Promise.all(names.map(async (name) => [name, await send(name, { first_name: name })] as const)),
    );
    expect(await causes('user.updated')).toEqual(changed);
    await of.call('PUT', '/users', { external_id: 'plain' });
    expect(await causes('user.created')).toEqual(new Map([...created, ['plain', undefined]]));
  });

  test('the events of a broadcast name its users and objects', async () => {
    const of = await service.createProject('broadcast');
    const { body } = await of.call('POST', '/broadcasts', {
      title: 'Hello',
      recipients: [{ external_id: 'ada' }, { external_id: 'bob' }],
    });
    await processed(of.call, body.id);
    const [inbox] = (await of.as('ada')('GET', '/notifications')).body.data;
    await of.as('ada')('POST', `/notifications/${inbox.id}/read`);
    const list = (await of.call('GET', '/events')).body.data as Shown[];
    expect(list.map(({ type }) => type)).toEqual([
      'notification.read',
      'notification.seen',
      'broadcast.processed',
      'delivery.sent',
      'delivery.sent',
      'notification.created',
      'notification.created',
      'user.created',
      'user.created',
      'broadcast.created',
    ]);
    expect(list[0]).toEqual({
      id: expect.any(String),
      type: 'notification.read',
      timestamp: new Date(timeOf(list[0]?.id ?? '')).toISOString(),
      context: { broadcast_id: body.id, user_id: inbox.user_id, notification_id: inbox.id },
      user: { external_id: 'ada', email: null },
    });
    expect(list[1]).toMatchObject({ type: 'notification.seen', context: list[0]?.context });
    expect(list[2]).toMatchObject({
      context: { broadcast_id: body.id },
      payload: { total: 2, failures: 0, pending: 0 },
    });
    const created = list.filter(({ type }) => type === 'notification.created');
    for (const { context } of created)
      expect(context?.notification_id).toBe(notificationId(body.id, String(context?.user_id)));
    expect(new Set(created.map(({ context }) => context?.user_id)).size).toBe(2);
    const sent = list.filter(({ type }) => type === 'delivery.sent');
    for (const { level, context } of sent) {
      const id = notificationId(body.id, String(context?.user_id));
      expect(level).toBe('info');
      expect(context).toMatchObject({ notification_id: id, delivery_id: `${id}.in_app`, channel: 'in_app' });
    }
    expect(new Set(sent.map(({ context }) => context?.user_id)).size).toBe(2);
    for (const event of list) {
      const one = await of.call('GET', `/events/${event.id.toUpperCase()}`);
      expect([one.status, one.body]).toEqual([200, event]);
    }
  });

  test("a delivery event has its attempt, and the provider's code as a number and as a word", async () => {
    const of = await service.createProject('delivery');
    const [broadcastId, userId] = [newId(), newId()];
    await recordEvents(service.context.db, [
      {
        projectId: of.id,
        type: 'delivery.failed',
        broadcastId,
        userIds: [newId(), userId],
        details: [
          { context: { channel: 'sms', attempt: 1 } },
          {
            code: '550 5.1.1',
            log: 'no such mailbox',
            level: 'error',
            context: { channel: 'email', provider: 'smtp', attempt: 2, duration_ms: 7 },
          },
        ],
      },
      { projectId: of.id, type: 'delivery.failed', details: { code: 'BadDeviceToken' } },
    ]);
    const [word, second, first] = (await of.call('GET', '/events?type=delivery.failed')).body.data;
    expect(word).toEqual({
      id: word.id,
      type: 'delivery.failed',
      timestamp: word.timestamp,
      context: { code: 'BadDeviceToken' },
    });
    const notification = notificationId(broadcastId, userId);
    expect(second).toMatchObject({
      code: 550,
      level: 'error',
      log: 'no such mailbox',
      context: {
        channel: 'email',
        provider: 'smtp',
        user_id: userId,
        broadcast_id: broadcastId,
        notification_id: notification,
        delivery_id: `${notification}.email`,
        attempt: 2,
        duration_ms: 7,
        code: '550 5.1.1',
      },
    });
    expect(first.context).toMatchObject({ channel: 'sms', attempt: 1 });
    expect('code' in first || 'log' in first || 'level' in first).toBe(false);
  });

  test('an event of any number of users is recorded for each of them, with its own details', async () => {
    const of = await service.createProject('many users');
    const userIds = Array.from({ length: 2_001 }, () => newId());
    const each = { projectId: of.id, type: 'delivery.bounced' as const, broadcastId: newId(), userIds };
    const shared = { projectId: of.id, type: 'user.updated' as const, userIds };
    await recordEvents(service.context.db, [
      { ...each, details: userIds.map((_, place) => ({ context: { place } })) },
      { ...shared, details: { context: { cause: 'import' } } },
    ]);
    const contextsOf = async (type: string) =>
      (await pages(of, `/events?type=${type}&limit=100`)).flat().map(({ context }) => context);
    const bounced = await contextsOf('delivery.bounced');
    expect(bounced).toHaveLength(userIds.length);
    for (const context of bounced) expect(context?.user_id).toBe(userIds[Number(context?.place)]);
    expect(new Set(bounced.map((context) => context?.place)).size).toBe(userIds.length);
    const updated = await contextsOf('user.updated');
    expect(updated.map((context) => context?.user_id).sort()).toEqual(userIds.toSorted());
    expect(updated.every((context) => context?.cause === 'import')).toBe(true);
    const rows = await service.rows<{ users: number }>(
      'select cardinality(user_ids) as users from events where project_id = $1 order by id',
      [of.id],
    );
    expect(rows.map(({ users }) => users)).toEqual([1_000, 1_000, 1, 1_000, 1_000, 1]);
  });

  test('an unknown event, or one of another project, is not found', async () => {
    const [mine, theirs] = [await service.createProject('mine'), await service.createProject('theirs')];
    await recordEvents(service.context.db, [
      { projectId: theirs.id, type: 'user.updated', userIds: [newId(), newId()] },
    ]);
    const list = (await theirs.call('GET', '/events')).body.data as Shown[];
    expect(list).toHaveLength(2);
    expect((await mine.call('GET', '/events')).body.data).toEqual([]);
    const [last, first] = ids(list);
    for (const id of [first, last]) {
      expect((await theirs.call('GET', `/events/${id}`)).status).toBe(200);
      expect((await mine.call('GET', `/events/${id}`)).status).toBe(404);
    }
    // The position after the row's last event.
    expect((await theirs.call('GET', `/events/${String(first).slice(0, -1)}2`)).status).toBe(404);
    expect((await theirs.call('GET', `/events/${newId()}`)).status).toBe(404);
    expect((await theirs.call('GET', '/events/nonsense')).status).toBe(400);
    expect((await theirs.as('ada')('GET', '/events')).status).toBe(403);
  });
});

describe('paging', () => {
  // Rows of one event and of many, of several types.
  const sizes = [1, 3, 1, 7, 120, 1, 1, 30, 2, 1];
  let of: TestProject;
  let all: string[];
  let typeOf: Map<string, string>;

  beforeAll(async () => {
    of = await service.createProject('pages');
    const events = sizes.map((size, index): NewEvent => {
      const userIds = Array.from({ length: size }, newId);
      const type = (['user.updated', 'token.saved', 'user.created'] as const)[index % 3] ?? 'user.updated';
      return size === 1 && index % 2 === 0 ? { projectId: of.id, type } : { projectId: of.id, type, userIds };
    });
    for (const event of events) {
      const before = Date.now();
      await recordEvents(service.context.db, [event]);
      await until(Date.now, (now) => now > before, { everyMs: 1 });
    }
    const list = (await pages(of, '/events?limit=100')).flat();
    typeOf = new Map(list.map(({ id, type }) => [id, type]));
    all = ids(list);
  });

  test('every event has an id, and the list is in their order', () => {
    expect(all).toHaveLength(sizes.reduce((sum, size) => sum + size, 0));
    expect(new Set(all).size).toBe(all.length);
    expect(all).toEqual([...all].sort().reverse());
  });

  test.each([1, 2, 5, 7, 31, 100])('pages of %i show each event once, in both directions', async (limit) => {
    const forth = await pages(of, `/events?limit=${limit}`);
    expect(forth.flatMap(ids)).toEqual(all);
    expect(forth.slice(0, -1).every((one) => one.length === limit)).toBe(true);
    const back = await pages(of, `/events?limit=${limit}&ending_before=${all.at(-1)}`, 'prev');
    expect(back.reverse().flatMap(ids)).toEqual(all.slice(0, -1));
  });

  test.each(['user.updated', 'token.*', 'user.created,token.saved'])('only those of %s', async (type) => {
    const wanted = type.split(',').map((name) => name.replace('.*', '.saved'));
    const expected = all.filter((id) => wanted.includes(typeOf.get(id) ?? ''));
    expect(expected.length).toBeGreaterThan(5);
    for (const limit of [4, 100]) {
      const forth = await pages(of, `/events?limit=${limit}&type=${type}`);
      expect(forth.flatMap(ids)).toEqual(expected);
    }
    const back = await pages(of, `/events?limit=6&type=${type}&ending_before=${all.at(-1)}`, 'prev');
    expect(back.reverse().flatMap(ids)).toEqual(expected.filter((id) => id !== all.at(-1)));
  });

  test('a cursor need not be the id of an event', async () => {
    const middle = all[40] ?? '';
    const beyondItsRow = `${middle.slice(0, -4)}ffff`;
    const row = all.filter((id) => id.startsWith(middle.slice(0, -4)));
    const older = (await of.call('GET', `/events?limit=5&starting_after=${beyondItsRow}`)).body.data;
    expect(ids(older)).toEqual(all.slice(all.indexOf(row[0] ?? ''), all.indexOf(row[0] ?? '') + 5));
    const newer = (await of.call('GET', `/events?limit=5&ending_before=${beyondItsRow}`)).body.data;
    const end = all.indexOf(row[0] ?? '');
    expect(ids(newer)).toEqual(all.slice(end - 5, end));
  });

  test('since and until filter by the time of the event: since is inclusive, until is not', async () => {
    const times = [...new Set(all.map((id) => timeOf(id)))].sort();
    const [from, to] = [times[2] ?? 0, times[5] ?? 0];
    const within = all.filter((id) => timeOf(id) >= from && timeOf(id) < to);
    expect(within.length).toBeGreaterThan(0);
    const query = `since=${new Date(from).toISOString()}&until=${new Date(to).toISOString()}`;
    expect((await pages(of, `/events?limit=9&${query}`)).flatMap(ids)).toEqual(within);
    expect(
      (await of.call('GET', `/events?since=${new Date(Date.now() + 60_000).toISOString()}`)).body.data,
    ).toEqual([]);
  });

  test('an unknown filter is rejected with its name', async () => {
    for (const wrong of ['since', 'until']) {
      const leapSecond = await of.call('GET', `/events?${wrong}=2016-12-31T23:59:60Z`);
      expect(leapSecond.status).toBe(422);
    }
    const { status, body } = await of.call('GET', '/events?type=user.updated,user.gone,*&since=yesterday');
    expect(status).toBe(422);
    expect(body.errors.map((error: { message: string }) => error.message).join()).toContain('since');
    const types = await of.call('GET', '/events?type=user.updated,user.gone,*');
    expect(types.body.errors.map((error: { message: string }) => error.message)).toEqual([
      "Param 'type' has an unknown event type: user.gone",
      "Param 'type' has an unknown event type: *",
    ]);
    for (const type of EVENT_TYPES) expect((await of.call('GET', `/events?type=${type}`)).status).toBe(200);
  });
});

describe('two events of the same users in one row', () => {
  const users = ['ada', 'bob', 'eve'];
  let of: TestProject;
  let all: Shown[];
  beforeAll(async () => {
    of = await service.createProject('two in one');
    for (const title of ['first', 'second']) {
      const recipients = users.map((external_id) => ({ external_id }));
      await processed(of.call, (await of.call('POST', '/broadcasts', { title, recipients })).body.id);
    }
    all = (await of.call('GET', '/events?limit=100')).body.data;
  });
  const both = ['notification.created', 'delivery.sent'];
  const some = (types: readonly string[]) => all.filter(({ type }) => types.includes(type));

  test('are stored in one row', async () => {
    const stored = await service.rows<{ size: number }>(
      'select size from events where project_id = $1 and type = $2',
      [of.id, CREATED_AND_SENT],
    );
    expect(stored).toEqual([{ size: 3 }, { size: 3 }]);
    expect(some(both)).toHaveLength(12);
    expect(new Set(ids(all)).size).toBe(all.length);
  });

  test.each([[both], ...both.map((type) => [[type]])])(
    'pages of any length list %s in order',
    async (types) => {
      for (const limit of [1, 2, 3, 4, 5, 7, 100]) {
        const path = `/events?limit=${limit}&type=${types.join(',')}`;
        const older = await pages(of, path);
        expect([limit, older.flat()]).toEqual([limit, some(types)]);
        expect(older.map((page) => page.length).filter((length) => length > limit)).toEqual([]);
        const last = older.flat().at(-1)?.id ?? '';
        const newer = (await pages(of, `${path}&ending_before=${last}`, 'prev')).map((page) =>
          page.toReversed(),
        );
        expect([limit, newer.flat()]).toEqual([limit, some(types).slice(0, -1).toReversed()]);
      }
    },
  );

  test.each([undefined, ...both])('the feed continues after every event, of %s', async (type) => {
    const types = type === undefined ? undefined : [type as EventType];
    const inOrder = all.toReversed();
    for (const [place, { id }] of inOrder.entries()) {
      const { position, certain } = await findPosition(service.context.db, of.id, id);
      expect(certain).toBe(true);
      const rest = inOrder.slice(place + 1).filter((event) => type === undefined || event.type === type);
      // The feed ends before the oldest running transaction, also of other databases.
      const [part] = await until(
        () => readFeed(service.context.db, [{ projectId: of.id, after: position, types }]),
        ([part]) => part?.events.length === rest.length,
      );
      expect(part?.events.map(({ event }) => event)).toEqual(rest);
    }
  });

  test('each has its own page, and there are no others', async () => {
    for (const event of all) {
      const one = await of.call('GET', `/events/${event.id}`);
      expect([one.status, one.body]).toEqual([200, event]);
    }
    const last = some(['delivery.sent'])[0]?.id ?? '';
    const next = last.slice(0, -4) + (Number.parseInt(last.slice(-4), 16) + 1).toString(16).padStart(4, '0');
    expect((await of.call('GET', `/events/${next}`)).status).toBe(404);
  });
});

test('events that are recorded during paging are shown, and none twice', async () => {
  const of = await service.createProject('meanwhile');
  const record = (size: number) =>
    recordEvents(service.context.db, [
      { projectId: of.id, type: 'user.updated', userIds: Array.from({ length: size }, newId) },
    ]);
  for (const size of [5, 1, 20]) await record(size);
  const before = ids((await pages(of, '/events?limit=100')).flat());
  let going = true;
  const writing = (async () => {
    while (going) await record(3);
  })();
  const seen = ids((await pages(of, '/events?limit=2')).flat());
  going = false;
  await writing;
  expect(new Set(seen).size).toBe(seen.length);
  expect(before.every((id) => seen.includes(id))).toBe(true);
});

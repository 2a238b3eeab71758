import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import type { RealtimeMessage } from '../../src/domain/ground/bus/messages.ts';
import { countUnread, countUnseen } from '../../src/domain/line/notifications/count-unread.ts';
import { pathOfPage } from '../support/pages.ts';
import { type Caller, processed, startTestService, type TestService } from '../support/service.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

let service: TestService;
const published: RealtimeMessage[] = [];

beforeAll(async () => {
  service = await startTestService();
  service.context.bus.subscribe((message) => published.push(message));
});
afterAll(() => service?.stop());

/** Sends a broadcast and waits until the inboxes have it. */
async function send(recipients: string[], body: Record<string, unknown> = {}): Promise<string> {
  const sent = await service.project.call('POST', '/broadcasts', {
    title: 'T',
    ...body,
    recipients: recipients.map((external_id) => ({ external_id })),
  });
  expect(sent.status).toBe(201);
  await processed(service.project.call, sent.body.id);
  return sent.body.id;
}

async function inbox(call: Caller, query = ''): Promise<Record<string, unknown>[]> {
  const { status, body } = await call('GET', `/notifications${query}`);
  expect(status).toBe(200);
  return body.data;
}

async function only(call: Caller): Promise<string> {
  const [first] = await inbox(call);
  return String(first?.id);
}

const changesOf = (userId: unknown) =>
  published.flatMap((message) => (message.type === 'changed' && message.userId === userId ? [message] : []));

describe('the shape of a notification', () => {
  test('has every member, with null for what is not set', async () => {
    const id = await send(['shape-1']);
    const [notification] = await inbox(service.project.as('shape-1'));
    const { body: broadcast } = await service.project.call('GET', `/broadcasts/${id}`);
    expect(notification).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      title: 'T',
      user_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      status: 'unseen',
      created_at: broadcast.created_at,
      updated_at: notification?.sent_at,
      content: null,
      action_url: null,
      category: null,
      topic: null,
      custom_attributes: null,
      sent_at: expect.stringMatching(/^\d{4}-.*Z$/),
      seen_at: null,
      read_at: null,
      archived_at: null,
      discarded_at: null,
      snoozed_until: null,
    });
  });

  test('has the texts of the in-app override, where it has any', async () => {
    await send(['shape-2'], {
      content: 'C',
      action_url: 'https://a.example/',
      custom_attributes: { __proto__x: 1, a: [true] },
      category: 'c/1',
      topic: 't:1',
      overrides: { channels: { in_app: { content: 'other', action_url: null } } },
    });
    const [notification] = await inbox(service.project.as('shape-2'));
    expect(notification).toMatchObject({
      title: 'T',
      content: 'other',
      action_url: null,
      custom_attributes: { __proto__x: 1, a: [true] },
      category: 'c/1',
      topic: 't:1',
    });
  });

  test('carries 10 MiB of content unharmed, even beside an override', async () => {
    const content = '😀"\\\u2028שלום'.repeat(1_165_085).slice(0, 10_485_760);
    await send(['shape-3'], { content });
    const [whole] = await inbox(service.project.as('shape-3'));
    expect(whole?.content === content).toBe(true);
    const part = content.slice(0, 900_000);
    await send(['shape-3'], { content: part, overrides: { channels: { in_app: { title: 'other' } } } });
    const [overridden] = await inbox(service.project.as('shape-3'), '?limit=1');
    expect(overridden?.content === part).toBe(true);
    expect(overridden?.title).toBe('other');
  });

  test('a page of very large texts ends early and continues at its link, in both directions', async () => {
    const content = 'x'.repeat(7_000_000);
    for (let count = 0; count < 5; count += 1) await send(['shape-4'], { title: `${count}`, content });
    const call = service.project.as('shape-4');
    const titles: unknown[] = [];
    let path: string | null = '/notifications';
    let last = '';
    while (path !== null) {
      const { body } = await call('GET', path);
      expect(body.data.length).toBeLessThan(5);
      titles.push(...body.data.map((one: { title: string }) => one.title));
      last = body.data.at(-1).id;
      path = body.links.next && pathOfPage(body.links.next);
    }
    expect(titles).toEqual(['4', '3', '2', '1', '0']);
    const { body } = await call('GET', `/notifications?ending_before=${last}`);
    expect(body.data.map((one: { title: string }) => one.title)).toEqual(['2', '1']);
    expect(body.links.prev).not.toBeNull();
  });
});

describe('lists', () => {
  test('nothing is newer than the greatest id', async () => {
    for (const title of ['old', 'new']) await send(['list-0'], { title, category: 'news' });
    const call = service.project.as('list-0');
    for (const filter of ['', '&status=unread', '&category=news']) {
      const greatest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
      const { body } = await call('GET', `/notifications?ending_before=${greatest}${filter}`);
      expect(body).toMatchObject({ data: [], links: { next: expect.any(String), prev: null } });
      const { body: next } = await call('GET', pathOfPage(body.links.next));
      expect(next.data.map((one: { title: string }) => one.title)).toEqual(['new', 'old']);
    }
  });

  test('by status, category and topic', async () => {
    await send(['list-1'], { title: 'plain' });
    await send(['list-1'], { title: 'news', category: 'news', topic: 'a' });
    await send(['list-1'], { title: 'done', category: 'news', topic: 'b' });
    await send(['list-1'], { title: 'old', topic: 'a' });
    const call = service.project.as('list-1');
    const ids = new Map((await inbox(call)).map((one) => [one.title, one.id]));
    await call('POST', `/notifications/${ids.get('done')}/read`);
    await call('POST', `/notifications/${ids.get('old')}/archive`);
    const titles = async (query: string) => (await inbox(call, query)).map((one) => one.title);
    expect(await titles('')).toEqual(['done', 'news', 'plain']);
    expect(await titles('?status=unread')).toEqual(['news', 'plain']);
    expect(await titles('?status=read')).toEqual(['done']);
    expect(await titles('?status=archived')).toEqual(['old']);
    expect(await titles('?category=news')).toEqual(['done', 'news']);
    expect(await titles('?category=uncategorized')).toEqual(['plain']);
    expect(await titles('?category=uncategorized&status=archived')).toEqual(['old']);
    expect(await titles('?topic=a')).toEqual(['news']);
    expect(await titles('?category=news&topic=b&status=unread')).toEqual([]);
    expect(await titles('?category=&topic=')).toEqual(['done', 'news', 'plain']);
    const count = async (query: string) => (await call('GET', `/notifications/unread/count${query}`)).body;
    expect(await count('')).toEqual({ count: 2 });
    expect(await count('?category=news')).toEqual({ count: 1 });
    expect(await count('?category=uncategorized')).toEqual({ count: 1 });
    expect(await count('?topic=b')).toEqual({ count: 0 });
    const unseen = async (query: string) => (await call('GET', `/notifications/unseen/count${query}`)).body;
    expect(await unseen('')).toEqual({ count: 2 });
    await call('POST', '/notifications/seen?category=news');
    expect(await unseen('')).toEqual({ count: 1 });
    expect(await unseen('?category=news')).toEqual({ count: 0 });
    expect(await unseen('?category=uncategorized')).toEqual({ count: 1 });
    expect(await unseen('?topic=a')).toEqual({ count: 0 });
    expect(await count('')).toEqual({ count: 2 });
  });

  test('pages have no gaps or repeats in a mix of unread and read notifications', async () => {
    for (let index = 0; index < 9; index += 1) await send(['list-2'], { title: `${index}` });
    const call = service.project.as('list-2');
    for (const [index, one] of (await inbox(call)).entries()) {
      if (index % 2 === 0) await call('POST', `/notifications/${one.id}/read`);
    }
    const seen: string[] = [];
    let path: string | null = '/notifications?limit=2';
    let prev: string | null = null;
    while (path !== null) {
      const { body } = await call('GET', path);
      seen.push(...body.data.map((one: { title: string }) => one.title));
      prev = body.links.prev;
      path = body.links.next && pathOfPage(body.links.next);
    }
    expect(seen).toEqual(['8', '7', '6', '5', '4', '3', '2', '1', '0']);
    const before = await call('GET', pathOfPage(String(prev)));
    expect(before.body.data.map((one: { title: string }) => one.title)).toEqual(['2', '1']);
  });

  test.each([
    ['?limit=101', "Param 'limit'"],
    ['?limit=0&status=gone', "Param 'status'"],
    ['?category=%00', "Param 'category'"],
    ['?starting_after=nonsense', "Param 'starting_after'"],
  ])('rejects %s and names the field', async (query, named) => {
    const { status, body } = await service.project.as('list-1')('GET', `/notifications${query}`);
    expect(status).toBe(422);
    expect(JSON.stringify(body.errors)).toContain(named);
  });
});

describe('changes', () => {
  test('each is done, published once and recorded once; a repeat changes nothing', async () => {
    await send(['change-1']);
    const call = service.project.as('change-1');
    const id = await only(call);
    const { user_id: userId } = (await call('GET', `/notifications/${id}`)).body;
    const steps = [
      ['POST', `/notifications/${id}/seen`, 'unread', 'seen'],
      ['POST', `/notifications/${id}/read`, 'read', 'read'],
      ['POST', `/notifications/${id}/unread`, 'unread', 'unread'],
      ['POST', `/notifications/${id}/archive`, 'archived', 'archived'],
      ['POST', `/notifications/${id}/unarchive`, 'unread', 'unarchived'],
    ] as const;
    for (const [method, path, status] of steps) {
      const done = await call(method, path, undefined, { 'x-service-client-id': 'me' });
      expect([done.status, done.body]).toEqual([204, undefined]);
      const after = (await call('GET', `/notifications/${id}`)).body;
      expect(after.status).toBe(status);
      expect((await call(method, path)).status).toBe(204);
      expect((await call('GET', `/notifications/${id}`)).body).toEqual(after);
    }
    expect((await call('DELETE', `/notifications/${id}`)).status).toBe(204);
    expect((await call('DELETE', `/notifications/${id}`)).status).toBe(404);
    expect((await call('GET', `/notifications/${id}`)).status).toBe(404);
    expect(await inbox(call)).toEqual([]);
    expect(changesOf(userId).map(({ name, clientId }) => [name, clientId])).toEqual([
      ...steps.map(([, , , name]) => [name, 'me']),
      ['delete', undefined],
    ]);
    const events = await service.context.db.query<{ type: string; broadcast_id: string }>(
      sql(
        'test_events',
        `select type, broadcast_id
        from ${STORED_EVENTS}
        where $1 = any (user_ids) and type like 'notification.%' and type <> 'notification.created'
        order by id`,
      ),
      [userId],
    );
    expect(events.map((event) => event.type)).toEqual([
      'notification.seen',
      'notification.read',
      'notification.unread',
      'notification.archived',
      'notification.unarchived',
      'notification.deleted',
    ]);
    expect(events.every((event) => event.broadcast_id !== null)).toBe(true);
  });

  test('marking as read sets seen, too, and publishes the stored time', async () => {
    await send(['change-2']);
    const call = service.project.as('change-2');
    const id = await only(call);
    await call('POST', `/notifications/${id}/read`);
    const { body } = await call('GET', `/notifications/${id}`);
    expect(body.seen_at).toBe(body.read_at);
    expect(body.updated_at).toBe(body.read_at);
    expect(changesOf(body.user_id).map(({ atMs }) => new Date(atMs).toISOString())).toEqual([body.read_at]);
  });

  const operations = [
    ['GET', ''],
    ['POST', '/read'],
    ['POST', '/unread'],
    ['POST', '/seen'],
    ['POST', '/archive'],
    ['POST', '/unarchive'],
    ['DELETE', ''],
  ] as const;

  test.each(operations)(
    '%s /notifications/{id}%s of an unknown or foreign notification is a 404',
    async (method, path) => {
      await send(['change-3']);
      const id = await only(service.project.as('change-3'));
      const other = service.project.as('change-4');
      const theirs = await other(method, `/notifications/${id}${path}`);
      const unknown = await other(method, `/notifications/01900000-0000-7000-8000-000000000000${path}`);
      expect(theirs.status).toBe(404);
      expect(theirs.body).toEqual(unknown.body);
      expect(theirs.body.errors[0].code).toBe('not_found');
      expect((await other(method, `/notifications/nonsense${path}`)).body.errors[0].code).toBe('invalid_id');
      expect((await service.project.call(method, `/notifications/${id}${path}`)).status).toBe(403);
      const stranger = await fetch(`${service.address}/v2/notifications/${id}${path}`, { method });
      expect(stranger.status).toBe(401);
    },
  );

  test('of concurrent identical changes, one changes the state and is published', async () => {
    await send(['change-5']);
    const call = service.project.as('change-5');
    const id = await only(call);
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => call('POST', `/notifications/${id}/read`)),
    );
    expect(responses.every(({ status }) => status === 204)).toBe(true);
    const { user_id: userId } = (await call('GET', `/notifications/${id}`)).body;
    expect(changesOf(userId)).toHaveLength(1);
  });
});

describe('marking all', () => {
  test.each(['read', 'seen', 'archive'] as const)('%s applies to all matches', async (action) => {
    const user = `all-${action}`;
    await send([user], { category: 'a' });
    await send([user], { category: 'b', topic: 't' });
    await send([user]);
    const call = service.project.as(user);
    const [uncategorized, b] = await inbox(call);
    const userId = b?.user_id;
    const member = { read: 'read_at', seen: 'seen_at', archive: 'archived_at' }[action];
    const marked = async () => {
      const rows = [...(await inbox(call)), ...(await inbox(call, '?status=archived'))];
      return rows
        .filter((one) => one[member] !== null)
        .map((one) => one.category)
        .sort();
    };
    expect((await call('POST', `/notifications/${action}?topic=t`)).status).toBe(204);
    expect(await marked()).toEqual(['b']);
    expect((await call('POST', `/notifications/${action}?category=uncategorized`)).status).toBe(204);
    expect(await marked()).toEqual(['b', null]);
    expect((await call('POST', `/notifications/${action}`)).status).toBe(204);
    expect((await call('POST', `/notifications/${action}`)).status).toBe(204);
    expect(await marked()).toEqual(['a', 'b', null]);
    const one = { read: 'read', seen: 'seen', archive: 'archived' }[action];
    expect(changesOf(userId).map(({ name, id }) => [name, id])).toEqual([
      [one, b?.id],
      [one, uncategorized?.id],
      [`${action}/all`, userId],
    ]);
    expect((await service.project.call('POST', `/notifications/${action}`)).status).toBe(403);
  });

  test('reads archived ones, too', async () => {
    await send(['all-1']);
    const call = service.project.as('all-1');
    const id = await only(call);
    await call('POST', `/notifications/${id}/archive`);
    await call('POST', '/notifications/read');
    const { body } = await call('GET', `/notifications/${id}`);
    expect(body.status).toBe('archived');
    expect(body.read_at).not.toBeNull();
  });

  test('twelve thousand are changed in batches with one time, and clients see all of them', async () => {
    await send(['all-2']);
    const call = service.project.as('all-2');
    const [first] = await inbox(call);
    const userId = String(first?.user_id);
    // Statistics from before a burst: of a table in which no user has many.
    await service.context.db.query(sql('test_analyze', 'analyze notifications'));
    await service.context.db.query(
      sql(
        'test_fill',
        `insert into notifications (user_id, id, broadcast_id, sent_at)
        select $1, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, broadcast_id, now()
        from notifications n, generate_series(1, 12000) i
        where n.user_id = $1 and n.id = $2`,
      ),
      [userId, first?.id],
    );
    expect(await countUnread(service.context.db, userId)).toBe(5_000);
    expect(await countUnseen(service.context.db, userId)).toBe(5_000);
    await Promise.all([
      call('POST', '/notifications/read'),
      call('POST', '/notifications/seen'),
      call('POST', '/notifications/read'),
    ]);
    expect(await countUnread(service.context.db, userId)).toBe(0);
    const [row] = await service.context.db.query<{ unread: number; unseen: number }>(
      sql(
        'test_left',
        `select count(*) filter (where read_at is null)::int as unread,
         count(*) filter (where seen_at is null)::int as unseen
        from notifications where user_id = $1`,
      ),
      [userId],
    );
    expect(row).toEqual({ unread: 0, unseen: 0 });
    const events = await service.context.db.query<{ type: string; count: number }>(
      sql(
        'test_counts',
        `select type, sum((details -> 'payload' ->> 'count')::int)::int as count from events
          where $1 = any (user_ids) and type = 'notification.read' group by type`,
      ),
      [userId],
    );
    expect(events).toEqual([{ type: 'notification.read', count: 12_001 }]);
  });
});

test('a repeated POST under an Idempotency-Key gets the same response and publishes once', async () => {
  await send(['idempotent']);
  const call = service.project.as('idempotent');
  const id = await only(call);
  const key = { 'idempotency-key': 'k-1' };
  const first = await call('POST', `/notifications/${id}/read`, undefined, key);
  await call('POST', `/notifications/${id}/unread`);
  const again = await call('POST', `/notifications/${id}/read`, undefined, key);
  expect([first.status, again.status]).toEqual([204, 204]);
  expect(again.headers.get('idempotency-replayed')).toBe('true');
  const { body } = await call('GET', `/notifications/${id}`);
  expect(body.status).toBe('unread');
  expect(changesOf(body.user_id).map(({ name }) => name)).toEqual(['read', 'unread']);
});

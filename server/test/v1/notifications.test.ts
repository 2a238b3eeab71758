import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openSocket } from '../support/realtime.ts';
import { type Caller, processed, startTestService, type TestService } from '../support/service.ts';

let it: TestService;

beforeAll(async () => {
  it = await startTestService();
});
afterAll(() => it.stop());

const UNKNOWN = '01900000-0000-7000-8000-000000000000';

/** Sends a notification with the API of version 2, and returns its id. */
async function send(externalId: string, body: Record<string, unknown> = {}): Promise<string> {
  const sent = await it.project.call('POST', '/broadcasts', {
    title: 'T',
    ...body,
    recipients: [{ external_id: externalId }],
  });
  expect(sent.status).toBe(201);
  await processed(it.project.call, sent.body.id);
  const { body: list } = await it.project.as(externalId)('GET', '/notifications?limit=1');
  return list.data[0].id;
}

interface Listed {
  total: number;
  total_pages: number;
  unseen_count: number;
  unread_count: number;
  notifications: { id: string; title: string }[];
}

async function list(call: Caller, query = ''): Promise<Listed> {
  const { status, body } = await call('GET', `/notifications${query}`);
  expect(status).toBe(200);
  return body;
}

const titles = async (call: Caller, query = '') =>
  (await list(call, query)).notifications.map((one) => one.title);

describe('a list', () => {
  test('has every member, and the recipient in each notification', async () => {
    await it.project.call('PUT', '/users', {
      external_id: 'shape',
      email: 'shape@example.com',
      first_name: 'Sha',
    });
    const content = {
      content: 'C',
      action_url: 'https://a.example/',
      category: 'c/1',
      topic: 't:1',
      custom_attributes: { precise: 1.5 },
    };
    const id = await send('shape', content);
    const call = it.project.v1As('shape');
    await call('POST', `/notifications/${id}/read`);
    const { body } = await call('GET', '/notifications');
    const time = expect.stringMatching(/^\d{4}-.*Z$/);
    const notification = {
      id,
      title: 'T',
      ...content,
      recipient: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        external_id: 'shape',
        email: 'shape@example.com',
        first_name: 'Sha',
        last_name: null,
        custom_attributes: {},
      },
      sent_at: time,
      seen_at: time,
      read_at: time,
      archived_at: null,
    };
    expect(body).toEqual({
      total: 1,
      per_page: 15,
      total_pages: 1,
      current_page: 1,
      unseen_count: 0,
      unread_count: 0,
      notifications: [notification],
    });
    expect((await call('GET', `/notifications/${id}`)).body).toEqual({ notification });
  });

  test('is filtered by state, categories and topics, and so are its counts', async () => {
    const ids: Record<string, string> = {};
    ids.a = await send('filters', { title: 'a', category: 'news', topic: 'x' });
    ids.b = await send('filters', { title: 'b', category: 'orders', topic: 'y' });
    ids.c = await send('filters', { title: 'c' });
    ids.d = await send('filters', { title: 'd', category: 'news' });
    const call = it.project.v1As('filters');
    await call('POST', `/notifications/${ids.b}/read`);
    await it.project.as('filters')('POST', `/notifications/${ids.c}/seen`);
    await call('POST', `/notifications/${ids.d}/archive`);
    const expected: Record<string, string> = {
      '': 'cba',
      '?archived=': 'cba',
      '?archived=null&read=null&seen=': 'cba',
      '?archived=false': 'cba',
      '?archived=true': 'd',
      '?read=true': 'b',
      '?read=false': 'ca',
      '?seen=true': 'cb',
      '?seen=false': 'a',
      '?seen=false&archived=true': 'd',
      '?read=true&seen=false': '',
      '?categories=news,orders': 'ba',
      '?categories=news&categories=orders': 'ba',
      '?categories[]=news&categories[]=orders': 'ba',
      '?categories%5B%5D=orders': 'b',
      '?category=news': 'a',
      '?categories=uncategorized': 'c',
      '?categories=uncategorized,orders': 'cb',
      '?categories=,': 'cba',
      '?topics=x,y': 'ba',
      '?topics[]=y': 'b',
      '?topic=x&categories=orders': '',
      '?categories=news&archived=true': 'd',
      '?read=false&categories=news,orders': 'a',
    };
    for (const [query, wanted] of Object.entries(expected)) {
      const { notifications, ...counts } = await list(call, query);
      expect([query, notifications.map((one) => one.title).join('')]).toEqual([query, wanted]);
      expect(counts, query).toMatchObject({
        total: wanted.length,
        total_pages: wanted === '' ? 0 : 1,
        unread_count: [...wanted].filter((title) => title !== 'b').length,
        unseen_count: [...wanted].filter((title) => 'ad'.includes(title)).length,
      });
    }
  });

  test('has numbered pages; one beyond the end is empty', async () => {
    for (const title of ['1', '2', '3', '4', '5']) await send('pages', { title });
    const call = it.project.v1As('pages');
    expect(await titles(call, '?per_page=2')).toEqual(['5', '4']);
    expect(await titles(call, '?per_page=2&page=3')).toEqual(['1']);
    expect(await list(call, '?per_page=2&page=4')).toEqual({
      total: 5,
      per_page: 2,
      total_pages: 3,
      current_page: 4,
      unseen_count: 5,
      unread_count: 5,
      notifications: [],
    });
    expect(await titles(call, '?page=999999999999999&per_page=100')).toEqual([]);
  });

  test.each([
    ['per_page=0', ["Param 'per_page' must be 1 or more"]],
    ['per_page=101', ["Param 'per_page' must be 100 or less"]],
    ['per_page=abc', ["Param 'per_page' must be an integer"]],
    ['per_page=1.5', ["Param 'per_page' must be an integer"]],
    ['page=0&per_page=', ["Param 'page' must be 1 or more", "Param 'per_page' must be an integer"]],
    ['read=yes&seen=1', ["Param 'read' must be a boolean or null", "Param 'seen' must be a boolean or null"]],
    [`topics=${Array.from({ length: 101 }, (_, n) => n)}`, ["Param 'topics' must have at most 100 names"]],
  ])('refuses %s, and names each parameter', async (query, messages) => {
    const response = await it.project.v1As('pages')('GET', `/notifications?${query}`);
    expect([response.status, new Set(response.codes)]).toEqual([422, new Set(['validation_failed'])]);
    expect(response.messages).toEqual(messages);
  });

  test('refuses a character that PostgreSQL cannot store', async () => {
    for (const name of ['categories', 'categories[]', 'category', 'topics', 'topics[]', 'topic']) {
      const { status, messages } = await it.project.v1As('pages')('GET', `/notifications?${name}=a%00`);
      expect(status).toBe(422);
      expect(messages.join()).toContain(`'${name}'`);
    }
  });

  test('refuses a page that is too large for a response, and has it in smaller pages', async () => {
    const content = 'x'.repeat(7_000_000);
    for (const title of ['1', '2', '3']) await send('large', { title, content });
    const call = it.project.v1As('large');
    const { status, messages } = await call('GET', '/notifications');
    expect(status).toBe(422);
    expect(messages).toEqual(["Param 'per_page' must be smaller: of this page, only 2 fit into a response"]);
    expect(await titles(call, '?per_page=2')).toEqual(['3', '2']);
    expect(await titles(call, '?per_page=2&page=2')).toEqual(['1']);
  });
});

test('times are seconds since 1970 with LEGACY_TIMESTAMPS=unix', async () => {
  const other = await startTestService({ settings: { LEGACY_TIMESTAMPS: 'unix' } });
  onTestFinished(() => other.stop());
  const { body } = await other.project.call('POST', '/broadcasts', {
    title: 'T',
    recipients: [{ external_id: 'ada' }],
  });
  await processed(other.project.call, body.id);
  const v2 = await other.project.as('ada')('GET', '/notifications');
  const [{ id, sent_at: sentAt }] = v2.body.data;
  const seconds = Math.floor(Date.parse(sentAt) / 1000);
  const one = await other.project.v1As('ada')('GET', `/notifications/${id}`);
  expect(one.body.notification).toMatchObject({ sent_at: seconds, read_at: null });
  const ofUser = await other.project.v1('GET', '/users/external_id:ada/notifications');
  expect(ofUser.body.notifications[0].sent_at).toBe(sentAt);
});

describe('changes', () => {
  const CHANGES = [
    ['POST', '/read', 'read', 'read'],
    ['POST', '/unread', 'unread', 'unread'],
    ['POST', '/archive', 'archived', 'archived'],
    ['DELETE', '/archive', 'unread', 'unarchived'],
    ['POST', '/archive', 'archived', 'archived'],
    ['POST', '/unarchive', 'unread', 'unarchived'],
  ] as const;

  test('are visible in version 2 and in open inboxes at once', async () => {
    const id = await send('change');
    const [v1, v2] = [it.project.v1As('change'), it.project.as('change')];
    const token = 'b'.repeat(64);
    await v2('PUT', '/channels/in_app/inbox/tokens', { token });
    const url = `${it.address.replace('http', 'ws')}/?api_key=${it.project.apiKey}&token=${token}`;
    const { frames, socket } = await openSocket(url);
    onTestFinished(() => socket.terminate());
    const client = { 'x-service-client-id': 'tab' };
    for (const [method, path, status] of CHANGES) {
      const done = await v1(method, `/notifications/${id}${path}`, undefined, client);
      expect([done.status, done.body]).toEqual([204, undefined]);
      expect((await v1(method, `/notifications/${id}${path}`)).status).toBe(204);
      expect((await v2('GET', `/notifications/${id}`)).body.status).toBe(status);
    }
    expect((await v1('DELETE', `/notifications/${id}`)).status).toBe(204);
    expect((await v2('GET', `/notifications/${id}`)).status).toBe(404);
    const expected = [...CHANGES.map(([, , , name]) => [name, 'tab']), ['delete', undefined]];
    await expect.poll(() => frames).toHaveLength(expected.length);
    expect(frames.map(({ name, data }) => [name, data.client_id])).toEqual(
      expected.map(([name, by]) => [`notifications/${name}`, by]),
    );
  });

  test.each([
    ['GET', ''],
    ['DELETE', ''],
    ...CHANGES.slice(0, 4).map(([method, path]) => [method, path] as const),
    ['POST', '/unarchive'],
  ] as const)('%s /notifications/{id}%s finds no unknown one, and none of others', async (method, path) => {
    const id = await send('owner');
    const other = await it.createProject(`other ${method} ${path}`);
    const callers = [it.project.v1As('stranger'), other.v1As('owner'), it.project.v1As('owner')];
    for (const [index, call] of callers.entries()) {
      const { status, body } = await call(method, `/notifications/${index === 2 ? UNKNOWN : id}${path}`);
      expect(status).toBe(404);
      expect(body).toEqual({
        errors: [{ code: 'not_found', message: "A notification with the the given id doesn't exist" }],
      });
    }
    const malformed = await it.project.v1As('owner')(method, `/notifications/nonsense${path}`);
    expect([malformed.status, malformed.codes]).toEqual([400, ['invalid_id']]);
    const asProject = await it.project.v1(method, `/notifications/${id}${path}`);
    expect([asProject.status, asProject.codes]).toEqual([401, ['user_email_not_provided']]);
    expect((await it.project.v1As('owner')('GET', `/notifications/${id}`)).status).toBe(200);
  });
});

describe('a change of all notifications', () => {
  test.each([
    ['read', '', 'abcde'],
    ['read', '?archived=false', 'abcd'],
    ['read', '?archived=true', 'e'],
    ['read', '?seen=true', 'b'],
    ['read', '?read=false', 'abcde'],
    ['read', '?read=true', ''],
    ['read', '?categories=news,uncategorized', 'acd'],
    ['read', '?categories[]=news&topics=x', 'a'],
    ['seen', '', 'acde'],
    ['seen', '?seen=false&read=false&category=orders', 'e'],
    ['seen', '?seen=true', ''],
  ] as const)('%s%s changes only what the filters select: %s', async (action, query, changed) => {
    const user = `all ${action}${query}`;
    const ids = new Map<string, string>();
    for (const [title, body] of Object.entries({
      a: { category: 'news', topic: 'x' },
      b: { category: 'orders' },
      c: {},
      d: { category: 'news', topic: 'y' },
      e: { category: 'orders' },
    }))
      ids.set(await send(user, body), title);
    const [v1, v2] = [it.project.v1As(user), it.project.as(user)];
    const idOf = (title: string) => [...ids].find((one) => one[1] === title)?.[0];
    await v2('POST', `/notifications/${idOf('b')}/seen`);
    await v2('POST', `/notifications/${idOf('e')}/archive`);
    expect((await v1('POST', `/notifications/${action}${query}`)).status).toBe(204);
    const lists = [await v2('GET', '/notifications'), await v2('GET', '/notifications?status=archived')];
    const state = { read: 'read_at', seen: 'seen_at' }[action];
    const now = lists
      .flatMap(({ body }) => body.data as { id: string; [member: string]: unknown }[])
      .filter((one) => one[state] !== null && !(action === 'seen' && ids.get(one.id) === 'b'))
      .map((one) => ids.get(one.id));
    expect(now.sort().join('')).toBe(changed);
  });

  test('accepts filters in the body; those in the query take precedence', async () => {
    const a = await send('body', { category: 'a' });
    const b = await send('body', { category: 'b' });
    const call = it.project.v1As('body');
    const unread = async () => (await list(call, '?read=false')).notifications.map(({ id }) => id);
    await call('POST', '/notifications/read', { notification: { category: 'c' } });
    await call('POST', '/notifications/read', { notification: { category: 'a', archived: true } });
    await call('POST', '/notifications/read?category=c', { notification: { category: 'a' } });
    expect(await unread()).toEqual([b, a]);
    await call('POST', '/notifications/read', { notification: { categories: ['a', 'c'], read: false } });
    expect(await unread()).toEqual([b]);
    await call('POST', '/notifications/read', { notification: null });
    expect(await unread()).toEqual([]);
    const wrong = await call('POST', '/notifications/seen?read=x', { notification: { topic: 1, seen: 'x' } });
    expect([wrong.status, wrong.messages.map((message) => message.split("'")[1]).sort()]).toEqual([
      422,
      ['notification.seen', 'notification.topic', 'read'],
    ]);
  });

  test('refuses wrong filters, and needs a user', async () => {
    const wrong = await it.project.v1As('all')('POST', '/notifications/read?archived=maybe');
    expect([wrong.status, wrong.messages]).toEqual([422, ["Param 'archived' must be a boolean or null"]]);
    const many = Array.from({ length: 101 }, (_, n) => n).join();
    for (const headers of [{}, { 'idempotency-key': 'many' }]) {
      const path = `/notifications/seen?categories=${many}`;
      expect((await it.project.v1As('all')('POST', path, undefined, headers)).messages).toEqual([
        "Param 'categories' must have at most 100 names",
      ]);
    }
    for (const action of ['read', 'seen'])
      expect((await it.project.v1('POST', `/notifications/${action}`)).status).toBe(401);
  });
});

describe('the notifications of a user', () => {
  test('are found by UUID, external id and e-mail address, with their deliveries', async () => {
    const user = { external_id: 'listed', email: 'listed@example.com' };
    const { body: saved } = await it.project.call('PUT', '/users', user);
    const old = await send('listed', { title: 'old' });
    const id = await send('listed', { title: 'new', category: 'news' });
    const call = it.project.v1As('listed');
    await call('POST', `/notifications/${old}/archive`);
    const byId = await it.project.v1('GET', `/users/${saved.id}/notifications`);
    expect(byId.status).toBe(200);
    expect(byId.body).toMatchObject({ total: 2, per_page: 20, total_pages: 1, current_page: 1 });
    expect(byId.body.notifications[0]).toMatchObject({
      id,
      title: 'new',
      category: 'news',
      status: 'unseen',
      recipient: { user: { ...user, id: saved.id, custom_attributes: {}, phone_numbers: [] } },
      deliveries: [{ id: `${id}.in_app`, title: 'new', channel: 'in_app', status: 'sent' }],
    });
    expect(byId.body.notifications[1]).toMatchObject({ id: old, status: 'archived' });
    for (const name of ['external_id:listed', 'email:listed@example.com', 'email%3ALISTED@example.com'])
      expect((await it.project.v1('GET', `/users/${name}/notifications`)).body).toEqual(byId.body);
    const second = await it.project.v1('GET', `/users/${saved.id}/notifications?per_page=1&page=2`);
    expect(second.body.notifications).toEqual([byId.body.notifications[1]]);
  });

  test('of an unknown user, or one of another project, are not found', async () => {
    await send('private');
    const other = await it.createProject('other');
    const { body: user } = await it.project.call('PUT', '/users', { external_id: 'private' });
    for (const name of [user.id, 'external_id:private', 'email:unknown@example.com']) {
      const { status, body } = await other.v1('GET', `/users/${name}/notifications`);
      expect(status).toBe(404);
      expect(body.errors).toEqual([
        { code: 'not_found', message: "A user with the the given id doesn't exist" },
      ]);
    }
  });

  test('need the API secret, and valid pages', async () => {
    const path = '/users/external_id:private/notifications';
    const user = await it.project.v1As('private')('GET', path);
    expect([user.status, user.codes]).toEqual([401, ['api_secret_not_provided']]);
    const wrong = await it.project.v1('GET', `${path}?per_page=101&page=x`);
    expect([wrong.status, wrong.messages]).toEqual([
      422,
      ["Param 'page' must be an integer", "Param 'per_page' must be 100 or less"],
    ]);
    expect((await it.project.v1('GET', '/users/nonsense/notifications')).status).toBe(400);
  });
});

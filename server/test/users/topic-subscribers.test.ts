import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { newId } from '../../src/lib/ids.ts';
import { pathOfPage } from '../support/pages.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`subscribers ${made}`);
});

const path = (topic: string) => `/topics/${encodeURIComponent(topic)}/subscribers`;
const add = (topic: string, body: unknown, headers?: Record<string, string>) =>
  project.call('POST', path(topic), body, headers);
const remove = (topic: string, body: unknown) => project.call('POST', `${path(topic)}/remove`, body);
const named = (...names: string[]) => names.map((external_id) => ({ external_id }));
const subscribers = async (topic: string, query = '') =>
  (await project.call('GET', `${path(topic)}${query}`)).body.data.map(
    (user: { external_id: string | null; email: string | null }) => user.external_id ?? user.email,
  );
const topics = async (query = '') => (await project.call('GET', `/topics${query}`)).body.data;
const subscriptionOf = async (name: string) => (await project.as(name)('GET', '/subscriptions')).body.data[0];
const everything = [{ slug: '*', status: 'subscribed' }];

describe('many users', () => {
  test('are subscribed by external id, address or id, and created if they do not exist', async () => {
    const { body: known } = await project.call('PUT', '/users', { external_id: 'known' });
    const users = [{ id: known.id.toUpperCase() }, { external_id: 'new' }, { email: 'Mail@Example.com' }];
    const { status, body } = await add('a/b', { users });
    expect([status, body]).toEqual([200, { changed: 3, unchanged: 0, errors: [] }]);
    expect(await subscribers('a/b')).toEqual(expect.arrayContaining(['known', 'new', 'Mail@Example.com']));
    expect(await subscriptionOf('known')).toMatchObject({ topic: 'a/b', categories: everything });
    expect(await topics()).toEqual([{ topic: 'a/b', subscribers: 3 }]);
  });

  test('get a broadcast to the subscribers', async () => {
    await add('t', { users: named('a', 'b'), categories: [{ slug: 'news' }] });
    await remove('t', { users: named('b') });
    const send = (category: string) =>
      project.call('POST', '/broadcasts', {
        title: 'T',
        topic: 't',
        category,
        recipients: [{ topic: { subscribers: true } }],
      });
    await send('news');
    await send('other');
    await expect.poll(async () => (await project.as('a')('GET', '/notifications')).body.data.length).toBe(1);
    expect((await project.as('b')('GET', '/notifications')).body.data).toEqual([]);
  });

  test('are counted once each, and what is so already is unchanged', async () => {
    const body = { users: [...named('a', 'b', 'a'), { external_id: 'b' }] };
    expect((await add('t', body)).body).toEqual({ changed: 2, unchanged: 0, errors: [] });
    expect((await add('t', body)).body).toEqual({ changed: 0, unchanged: 2, errors: [] });
    expect((await remove('t', body)).body).toEqual({ changed: 2, unchanged: 0, errors: [] });
    expect((await remove('t', body)).body).toEqual({ changed: 0, unchanged: 2, errors: [] });
  });

  test('keep the categories that a request does not name', async () => {
    const categories = [{ slug: 'c', status: 'unsubscribed', reason: 'muted' }];
    await project.as('a')('POST', '/subscriptions', { topic: 't', categories });
    const before = await subscriptionOf('a');
    expect((await add('t', { users: named('a', 'b'), categories: [{ slug: 'd' }] })).body.changed).toBe(2);
    expect(await subscriptionOf('a')).toEqual({
      ...before,
      categories: [...categories, { slug: 'd', status: 'subscribed' }],
    });
    const leave = [{ slug: '*', status: 'unsubscribed' }];
    expect((await add('t', { users: named('a', 'b'), categories: leave })).body.changed).toBe(2);
    expect(await subscriptionOf('a')).toEqual({ ...before, categories: leave });
    expect(await subscribers('t')).toEqual([]);
    expect(await topics()).toEqual([]);
  });

  test('that cannot be changed are reported, all at once, and the others are changed', async () => {
    for (const name of ['gone', 'full', 'a', 'b']) await project.as(name)('GET', '/subscriptions');
    const { body: gone } = await project.call('PUT', '/users', {
      external_id: 'gone',
      email: 'gone@a.example',
    });
    await project.call('PUT', '/users', { external_id: 'b', email: 'b@a.example' });
    await project.call('DELETE', `/users/${gone.id}`);
    const slugs = Array.from({ length: 1_000 }, (_, index) => ({ slug: `s${index}` }));
    for (let start = 0; start < slugs.length; start += 100)
      await project.as('full')('POST', '/subscriptions', {
        topic: 't',
        categories: slugs.slice(start, start + 100),
      });
    const stranger = (
      await (await service.createProject(`other ${made}`)).call('PUT', '/users', { email: 'x@a.example' })
    ).body.id;
    const users = [
      { external_id: 'gone' },
      { id: newId() },
      { id: stranger },
      { external_id: 'a', email: 'b@a.example' },
      { external_id: 'full' },
      { email: 'gone@a.example' },
      { external_id: 'new' },
      { id: gone.id },
    ];
    const deleted = 'this user is deleted: restore it with PUT /users and the same identity';
    const unknown = 'there is no such user';
    const added = await add('t', { users, categories: [{ slug: 'one-more' }] });
    expect(added.body).toEqual({
      changed: 2,
      unchanged: 0,
      errors: [
        { index: 0, message: deleted },
        { index: 1, message: unknown },
        { index: 2, message: unknown },
        { index: 3, message: 'the e-mail address b@a.example belongs to another user' },
        { index: 4, message: 'the subscription would have more than 1000 categories' },
        { index: 5, message: deleted },
        { index: 7, message: unknown },
      ],
    });
    expect(await subscribers('t')).toEqual(expect.arrayContaining(['a', 'new', 'full']));
    const removed = await remove('t', { users: [...users, { external_id: 'never' }] });
    expect(removed.body).toEqual({
      changed: 3,
      unchanged: 0,
      errors: [0, 1, 2, 5, 7, 8].map((index) => ({ index, message: unknown })),
    });
    expect((await project.call('GET', '/users?query=never')).body.data).toEqual([]);
  });

  test('of another project stay as they are', async () => {
    const other = await service.createProject(`neighbours ${made}`);
    await other.as('a')('POST', '/subscriptions', { topic: 't' });
    await add('t', { users: named('a') });
    await remove('t', { users: named('a') });
    expect((await other.call('GET', path('t'))).body.data).toHaveLength(1);
    expect((await other.call('GET', '/topics')).body.data).toEqual([{ topic: 't', subscribers: 1 }]);
    expect(await topics()).toEqual([]);
  });

  test('are ten thousand in one request, each with an event', async () => {
    const users = Array.from({ length: 10_000 }, (_, index) => ({ external_id: `many-${index}` }));
    expect((await add('t', { users })).body).toEqual({ changed: 10_000, unchanged: 0, errors: [] });
    expect(await topics()).toEqual([{ topic: 't', subscribers: 10_000 }]);
    const { body } = await project.call('GET', '/events?type=subscription.saved&limit=100');
    expect(body.data).toHaveLength(100);
    expect(body.data[0].payload).toEqual({ topic: 't', categories: everything });
    expect(
      new Set(body.data.map((event: { context: { user_id: string } }) => event.context.user_id)).size,
    ).toBe(100);
    const half = users.slice(0, 5_000);
    expect((await remove('t', { users: half })).body).toEqual({ changed: 5_000, unchanged: 0, errors: [] });
    expect(await topics()).toEqual([{ topic: 't', subscribers: 5_000 }]);
    expect((await add('t', { users })).body).toEqual({ changed: 5_000, unchanged: 5_000, errors: [] });
  });

  test('are changed once under an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'one' };
    const first = await add('t', { users: named('a') }, headers);
    await remove('t', { users: named('a') });
    expect((await add('t', { users: named('a') }, headers)).body).toEqual(first.body);
    expect(await subscribers('t')).toEqual([]);
  });

  test('are subscribed again if they leave while the request waits for another user', async () => {
    const users: string[] = [];
    for (const name of ['first', 'second'])
      users.push((await project.call('PUT', '/users', { external_id: name })).body.id);
    users.sort();
    const [leaving, waited] = users;
    await add('t', { users: [{ id: leaving }] });
    const { db } = service.context;
    const row = `insert into subscriptions (user_id, topic, id, project_id, categories)
      values ($1, 't', $2, $3, '{}')`;
    const isWaiting = `select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and query like '%insert into subscriptions%'`;
    let adding: ReturnType<typeof add> | undefined;
    const undone = db.transaction(async (tx) => {
      await tx.query(sql('', row), [waited, newId(), project.id]);
      adding = add('t', { users: users.map((id) => ({ id })) });
      await until(
        () => db.query(sql('', isWaiting)),
        (waiting) => waiting.length === 1,
      );
      await remove('t', { users: [{ id: leaving }] });
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect((await adding)?.body).toEqual({ changed: 2, unchanged: 0, errors: [] });
    expect(await topics()).toEqual([{ topic: 't', subscribers: 2 }]);
  });

  test('are changed by concurrent requests in any order', async () => {
    const names = Array.from({ length: 300 }, (_, index) => `c-${index}`);
    const turns = Array.from({ length: 8 }, (_, turn) =>
      turn % 4 === 3
        ? remove('t', { users: named(...names.toReversed()) })
        : add('t', { users: named(...(turn % 2 === 0 ? names : names.toReversed())) }),
    );
    for (const { status, body } of await Promise.all(turns)) {
      expect(status, JSON.stringify(body)).toBe(200);
      const known = body.errors.length === 0 || body.errors[0].message === 'there is no such user';
      expect(known, JSON.stringify(body.errors[0])).toBe(true);
    }
    await add('t', { users: named(...names) });
    expect(await topics()).toEqual([{ topic: 't', subscribers: 300 }]);
  });
});

describe('invalid input is rejected', () => {
  test.each<[string, unknown, string[]]>([
    ['no users', { users: [] }, ["Param 'users' must have at least 1 item"]],
    ['a missing member', {}, ["Param 'users' is missing"]],
    [
      'too many users',
      { users: Array.from({ length: 10_001 }, () => ({ external_id: 'a' })) },
      ["Param 'users' must have at most 10000 items"],
    ],
    [
      'users without a name, with a wrong one or with more',
      { users: [{}, { email: 'x' }, { id: '1' }, { external_id: ' ' }, { external_id: 'a', name: 'b' }] },
      [
        "Param 'users.0' needs an id, an external_id or an email",
        "Param 'users.1.email' must be an e-mail address",
        "Param 'users.2.id' must be a UUID",
        "Param 'users.3.external_id' must not be blank, and must not contain the character U+0000 or half " +
          'of a surrogate pair',
        "Param 'users.4' doesn't allow key: name",
      ],
    ],
    ['a name that is null', { users: [{ external_id: null }] }, []],
  ])('%s', async (_what, body, messages) => {
    for (const response of [await add('t', body), await remove('t', body)]) {
      expect([response.status, response.codes[0]]).toEqual([422, 'validation_failed']);
      if (messages.length > 0) expect(response.messages).toEqual(messages);
    }
    expect(await topics()).toEqual([]);
  });

  test('repeated categories, and all other problems with them', async () => {
    const response = await add('t', { users: [{}], categories: [{ slug: 'a' }, { slug: 'a' }] });
    expect(response.messages).toEqual([
      "Param 'users.0' needs an id, an external_id or an email",
      "Param 'categories.1.slug' repeats categories.0: list a once",
    ]);
    const alone = await add('t', { users: named('a'), categories: [{ slug: 'a' }, { slug: 'a' }] });
    expect(alone.messages).toEqual(["Param 'categories.1.slug' repeats categories.0: list a once"]);
  });

  test.each(['no such', 'ü', '*', 'a'.repeat(256), '%00'])('%s, which is no topic', async (topic) => {
    for (const response of [
      await add(topic, { users: named('a') }),
      await remove(topic, { users: named('a') }),
    ])
      expect([response.status, response.messages]).toEqual([
        422,
        ["Param 'topic' must have 1 to 255 characters, each a letter, a digit or one of _ . - : /"],
      ]);
    expect(await project.call('GET', path(topic))).toMatchObject({ status: 200, body: { data: [] } });
  });
});

describe('the list of topics', () => {
  test('is alphabetical, and pages in both directions', async () => {
    const names = ['b', 'a/1', 'C', 'a', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'd', '00000000'];
    for (const [index, topic] of names.entries())
      await add(topic, { users: named(...Array.from({ length: index + 1 }, (_, user) => `u${user}`)) });
    const sorted = names.toSorted((a, b) => (a < b ? -1 : 1));
    const all = await topics();
    expect(all).toEqual(sorted.map((topic) => ({ topic, subscribers: names.indexOf(topic) + 1 })));
    const seen: string[] = [];
    let last = '';
    for (let next: string | null = '/topics?limit=2'; next !== null; ) {
      const { body } = await project.call('GET', next);
      seen.push(...body.data.map(({ topic }: { topic: string }) => topic));
      last = next;
      next = body.links.next && pathOfPage(body.links.next);
    }
    expect(seen).toEqual(sorted);
    const back: string[] = [];
    for (let prev: string | null = last; prev !== null; ) {
      const { body } = await project.call('GET', prev);
      back.unshift(...body.data.map(({ topic }: { topic: string }) => topic));
      prev = body.links.prev && pathOfPage(body.links.prev);
    }
    expect(back).toEqual(sorted);
    expect(await topics('?starting_after=zzz')).toEqual([]);
    expect(await topics('?starting_after=b&limit=1')).toMatchObject([{ topic: 'd' }]);
    expect(await topics('?ending_before=b&limit=1')).toMatchObject([{ topic: 'a/1' }]);
    const both = await project.call('GET', '/topics?starting_after=a&ending_before=b');
    expect(both.status).toBe(422);
  });

  test('has working links beside the longest names, and beyond its end', async () => {
    const longest = ['a'.repeat(255), 'b'.repeat(255), 'z'.repeat(255)];
    for (const topic of longest) await add(topic, { users: named('a') });
    const get = async (at: string) => {
      const { status, body } = await project.call('GET', at);
      expect(status).toBe(200);
      const { next, prev } = body.links;
      return { names: body.data.map((one: { topic: string }) => one.topic), next, prev };
    };
    const first = await get('/topics?limit=1');
    const second = await get(pathOfPage(first.next));
    expect([...first.names, ...second.names]).toEqual(longest.slice(0, 2));
    expect((await get(pathOfPage(second.prev))).names).toEqual([longest[0]]);
    const beyond = await get(`/topics?limit=2&starting_after=${longest[2]}`);
    expect(beyond).toMatchObject({ names: [], next: null });
    expect((await get(pathOfPage(beyond.prev))).names).toEqual(longest.slice(1));
  });
});

describe('the list of subscribers', () => {
  test('has the users, newest first, without those that left or are deleted', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await project.call('PUT', '/users', { external_id: name });
    await add('t', { users: named('e', 'a', 'c', 'b', 'd') });
    await project.as('b')('POST', '/subscriptions', {
      topic: 't',
      categories: [{ slug: '*', status: 'unsubscribed' }],
    });
    const {
      body: { data },
    } = await project.call('GET', '/users?query=c');
    await project.call('DELETE', `/users/${data[0].id}`);
    expect(await subscribers('t')).toEqual(['e', 'd', 'a']);
    const first = await project.call('GET', `${path('t')}?limit=2`);
    expect(first.body.data[0]).toEqual((await project.call('GET', '/users/external_id:e')).body);
    const next = pathOfPage(first.body.links.next);
    expect((await project.call('GET', next)).body.data).toMatchObject([{ external_id: 'a' }]);
    expect(await subscribers('unknown')).toEqual([]);
  });
});

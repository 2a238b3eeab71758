import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { listPages } from '../support/pages.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`topics ${made}`);
});

const save = (body: unknown, user = 'ada') => project.as(user)('POST', '/subscriptions', body);
const remove = (topic: string, user = 'ada') =>
  project.as(user)('DELETE', `/subscriptions/${encodeURIComponent(topic)}`);
const listed = async (user = 'ada') => (await project.as(user)('GET', '/subscriptions')).body.data;
const categoriesOf = async (topic: string, user = 'ada') =>
  (await listed(user)).find((one: { topic: string }) => one.topic === topic)?.categories;
const everything = [{ slug: '*', status: 'subscribed' }];
const events = async () =>
  (await project.call('GET', '/events?type=subscription.*')).body.data.map(
    ({ type, context, payload }: { type: string; context: unknown; payload: unknown }) => ({
      type,
      context,
      payload,
    }),
  );

describe('a subscription', () => {
  test('contains its topic and categories, and has an id; absent optional members stay absent', async () => {
    const { status, body } = await save({
      topic: 'orders/1042.a:b_c-d',
      categories: [
        { slug: 'comments', reason: 'mentioned', status: 'unsubscribed' },
        { slug: 'a/b' },
        { slug: '*', reason: 'bought it' },
      ],
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      topic: 'orders/1042.a:b_c-d',
      categories: [
        { slug: '*', reason: 'bought it', status: 'subscribed' },
        { slug: 'a/b', status: 'subscribed' },
        { slug: 'comments', reason: 'mentioned', status: 'unsubscribed' },
      ],
    });
    expect(await listed()).toEqual([body]);
  });

  test.each([[{}], [{ categories: [] }], [{ categories: [{ slug: '*' }] }]])(
    'is for all categories with %j',
    async (more) => {
      expect((await save({ topic: 't', ...more })).body.categories).toEqual(everything);
    },
  );

  test('a repeated save changes nothing and records no event; events contain no reasons', async () => {
    const body = { topic: 't', categories: [{ slug: 'a', reason: 'why' }, { slug: '*' }] };
    const first = await save(body);
    for (const again of [body, { topic: 't' }, { topic: 't', categories: [{ slug: 'a' }] }])
      expect(await save(again)).toMatchObject({ status: 200, body: first.body });
    expect(await listed()).toEqual([first.body]);
    const { body: user } = await project.call('PUT', '/users', { external_id: 'ada' });
    expect(await events()).toEqual([
      {
        type: 'subscription.saved',
        context: { user_id: user.id },
        payload: {
          topic: 't',
          categories: [...everything, { slug: 'a', status: 'subscribed' }],
        },
      },
    ]);
  });

  test('changes only what is named', async () => {
    await save({ topic: 't', categories: [{ slug: 'a', reason: 'why' }, { slug: 'b' }] });
    await save({ topic: 't', categories: [{ slug: 'c', reason: 'new' }] });
    await save({ topic: 't', categories: [{ slug: 'a', status: 'unsubscribed' }] });
    await save({ topic: 't', categories: [{ slug: 'c', reason: 'newer' }] });
    await save({ topic: 'other' });
    expect(await categoriesOf('t')).toEqual([
      { slug: 'a', status: 'unsubscribed' },
      { slug: 'b', status: 'subscribed' },
      { slug: 'c', reason: 'newer', status: 'subscribed' },
    ]);
    expect(await categoriesOf('other')).toEqual(everything);
  });

  test('to all keeps single categories; leaving all removes them', async () => {
    await save({ topic: 't', categories: [{ slug: '*' }, { slug: 'a', status: 'unsubscribed' }] });
    await save({ topic: 't' });
    expect(await categoriesOf('t')).toEqual([...everything, { slug: 'a', status: 'unsubscribed' }]);
    await save({ topic: 't', categories: [{ slug: 'b' }] });
    await save({ topic: 't', categories: [{ slug: '*', status: 'unsubscribed' }] });
    expect(await categoriesOf('t')).toEqual([{ slug: '*', status: 'unsubscribed' }]);
    await save({ topic: 't', categories: [{ slug: 'c' }, { slug: '*', status: 'unsubscribed' }] });
    expect(await categoriesOf('t')).toEqual([
      { slug: '*', status: 'unsubscribed' },
      { slug: 'c', status: 'subscribed' },
    ]);
    await save({ topic: 't' });
    expect(await categoriesOf('t')).toEqual([...everything, { slug: 'c', status: 'subscribed' }]);
  });

  test('may have any name that a category may have', async () => {
    for (const topic of ['__proto__', 'a/../b', '...', ':', '/'.repeat(255), 'READ']) {
      const { status, body } = await save({ topic, categories: [{ slug: 'constructor' }, { slug: topic }] });
      expect([status, body.topic]).toEqual([200, topic]);
      expect(await categoriesOf(topic)).toEqual(body.categories);
      expect(body.categories).toContainEqual({ slug: topic, status: 'subscribed' });
      expect(await remove(topic)).toMatchObject({ status: 200, body });
    }
    expect(await listed()).toEqual([]);
  });

  test('is deleted, and then not found', async () => {
    const { body } = await save({ topic: 'a/b', categories: [{ slug: 'c' }] });
    expect(await remove('a/b')).toMatchObject({ status: 200, body });
    expect(await listed()).toEqual([]);
    expect((await remove('a/b')).status).toBe(404);
    const types = (await events()).map(({ type, payload }: { type: string; payload: unknown }) => [
      type,
      payload,
    ]);
    expect(types).toEqual([
      ['subscription.deleted', { topic: 'a/b' }],
      ['subscription.saved', { topic: 'a/b', categories: body.categories }],
    ]);
    expect((await save({ topic: 'a/b' })).body.id).not.toBe(body.id);
  });

  test.each(['%00abc', 'no%20such', '%C3%84', `${'a'.repeat(300)}`, '*'])(
    'DELETE of %s, which is no topic, finds nothing',
    async (topic) => {
      expect((await project.as('ada')('DELETE', `/subscriptions/${topic}`)).status).toBe(404);
    },
  );

  test('belongs to one user', async () => {
    await save({ topic: 't', categories: [{ slug: 'a' }] });
    expect(await listed('bob')).toEqual([]);
    expect((await remove('t', 'bob')).status).toBe(404);
    await save({ topic: 't', categories: [{ slug: 'b' }] }, 'bob');
    expect(await categoriesOf('t')).toEqual([{ slug: 'a', status: 'subscribed' }]);
    const other = await service.createProject(`others ${made}`);
    expect((await other.as('ada')('GET', '/subscriptions')).body.data).toEqual([]);
    expect((await other.as('ada')('DELETE', '/subscriptions/t')).status).toBe(404);
  });

  test('concurrent saves are all applied', async () => {
    const slugs = Array.from({ length: 20 }, (_, index) => `slug-${index}`);
    const responses = await Promise.all(slugs.map((slug) => save({ topic: 't', categories: [{ slug }] })));
    expect(new Set(responses.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
    const categories = await categoriesOf('t');
    expect(categories.map((one: { slug: string }) => one.slug)).toEqual(slugs.toSorted());
  });

  test('under an Idempotency-Key is saved once', async () => {
    const call = project.as('ada');
    const headers = { 'idempotency-key': 'once' };
    const first = await call('POST', '/subscriptions', { topic: 't' }, headers);
    await remove('t');
    const again = await call('POST', '/subscriptions', { topic: 't' }, headers);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await listed()).toEqual([]);
  });
});

describe('the list', () => {
  test('lists the newest first and pages by its links; a change moves nothing', async () => {
    const topics = ['c', 'a', 'b', 'e', 'd'];
    for (const topic of topics) await save({ topic });
    await save({ topic: 'c', categories: [{ slug: 'x' }] });
    const call = project.as('ada');
    const names = (body: { data: { topic: string }[] }) => body.data.map((one) => one.topic);
    const pages = await listPages<{ topic: string }>(call, '/subscriptions?limit=2');
    expect(pages.map((data) => names({ data }))).toEqual([['d', 'e'], ['b', 'a'], ['c']]);
    const all = await listed();
    const before = await call('GET', `/subscriptions?limit=2&ending_before=${all[4].id}`);
    expect(names(before.body)).toEqual(['b', 'a']);
  });
});

describe('invalid input is rejected', () => {
  test.each<[string, unknown, string[]]>([
    ['no members', {}, ["Param 'topic' is missing"]],
    [
      'an empty topic',
      { topic: '' },
      [
        "Param 'topic' must have at least 1 character",
        "Param 'topic' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$",
      ],
    ],
    ['a long topic', { topic: 'a'.repeat(256) }, ["Param 'topic' must have at most 255 characters"]],
    ['other characters', { topic: 'a b' }, ["Param 'topic' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$"]],
    ['all topics', { topic: '*' }, ["Param 'topic' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$"]],
    [
      'all problems together',
      {
        topic: 1,
        more: 1,
        categories: [{ slug: 'a*' }, { reason: 5 }, { slug: 'x', status: 'maybe', at: 1, reason: 'a\0' }],
      },
      [
        "Param '(root)' doesn't allow key: more",
        "Param 'topic' must be a string",
        "Param 'categories.0.slug' must match the pattern ^(\\*|[A-Za-z0-9_.\\-:\\/]+)$",
        "Param 'categories.1.slug' is missing",
        "Param 'categories.1.reason' must be a string",
        "Param 'categories.2' doesn't allow key: at",
        "Param 'categories.2.status' must be one of: subscribed, unsubscribed",
        "Param 'categories.2.reason' must not contain the character U+0000 or half of a surrogate pair",
      ],
    ],
    [
      'null where a member is optional',
      { topic: 't', categories: [{ slug: 'a', reason: null, status: null }] },
      [
        "Param 'categories.0.reason' must be a string",
        "Param 'categories.0.status' must be one of: subscribed, unsubscribed",
        "Param 'categories.0.status' must be a string",
      ],
    ],
    [
      'a category twice',
      { topic: 't', categories: [{ slug: 'a' }, { slug: 'b' }, { slug: 'a', status: 'unsubscribed' }] },
      ["Param 'categories.2.slug' repeats categories.0: list a once"],
    ],
    [
      'more than a hundred at once',
      { topic: 't', categories: Array.from({ length: 101 }, (_, slug) => ({ slug: `${slug}` })) },
      ["Param 'categories' must have at most 100 items"],
    ],
  ])('%s', async (_what, body, messages) => {
    const { status, body: response } = await save(body);
    expect(status).toBe(422);
    const errors = response.errors.map((error: { message: string }) => error.message);
    expect(errors.toSorted()).toEqual(messages.toSorted());
    expect(await listed()).toEqual([]);
  });

  test('more than a thousand categories of a topic; existing ones can still be changed', async () => {
    await save({ topic: 't' });
    await service.rows(
      `update subscriptions
        set categories = (select jsonb_object_agg('cat' || n, '{"status": "subscribed"}'::jsonb)
                         from generate_series(1, 1000) n)
        where project_id = $1`,
      [project.id],
    );
    const refused = await save({ topic: 't', categories: [{ slug: 'one-more' }] });
    expect([refused.status, refused.body.errors[0].message]).toEqual([
      422,
      "Param 'categories' has too many items: a subscription can have at most 1000 categories",
    ]);
    expect(await categoriesOf('t')).toHaveLength(1000);
    const changed = await save({ topic: 't', categories: [{ slug: 'cat7', status: 'unsubscribed' }] });
    expect(changed.status).toBe(200);
  });

  test('more than 10,000 topics; existing ones can be changed, and the project can add more', async () => {
    await save({ topic: 'first' });
    await service.rows(
      `insert into subscriptions (user_id, topic, id, project_id, categories)
        select user_id, 'topic' || n, gen_random_uuid(), project_id, categories
        from subscriptions, generate_series(2, 10000) n
        where project_id = $1`,
      [project.id],
    );
    const refused = await save({ topic: 'one-more' });
    expect([refused.status, refused.body.errors[0].message]).toEqual([
      422,
      "Param 'topic' is one too many: a user can subscribe to at most 10000 topics",
    ]);
    expect((await save({ topic: 'topic7', categories: [{ slug: 'a' }] })).status).toBe(200);
    const users = [{ external_id: 'ada' }];
    const added = await project.call('POST', '/topics/one-more/subscribers', { users });
    expect([added.status, added.body.errors]).toEqual([200, []]);
  });

  test.each([
    ['POST', '/subscriptions'],
    ['GET', '/subscriptions'],
    ['DELETE', '/subscriptions/t'],
  ])('%s %s without a User JWT', async (method, path) => {
    const body = method === 'POST' ? { topic: 't' } : undefined;
    expect((await project.call(method, path, body)).status).toBe(403);
    expect((await fetch(`${service.address}/v2${path}`, { method })).status).toBe(401);
  });
});

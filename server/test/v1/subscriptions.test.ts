import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`subscriptions ${made}`);
});

const call = (method: string, path: string, subscription?: unknown) =>
  project.v1As('ada')(
    method,
    `/subscriptions${path}`,
    subscription === undefined ? undefined : { subscription },
  );
const inV2 = async () => (await project.as('ada')('GET', '/subscriptions')).body.data;

test('a subscription is saved, read, changed and deleted, as v2 shows', async () => {
  const categories = [{ slug: 'comments', reason: 'watching', status: 'subscribed' }];
  const saved = await call('POST', '', {
    topic: 'a.1',
    categories: [{ slug: 'comments', reason: 'watching' }],
  });
  expect([saved.status, saved.body]).toEqual([200, { subscription: { topic: 'a.1', categories } }]);
  expect(await inV2()).toEqual([{ id: expect.any(String), topic: 'a.1', categories }]);
  expect((await call('GET', '/a.1')).body).toEqual(saved.body);
  await call('POST', '', { topic: 'b', categories: [{ slug: '*' }] });
  expect((await call('GET', '')).body).toEqual({
    subscriptions: [
      { topic: 'b', categories: [{ slug: '*', status: 'subscribed' }] },
      saved.body.subscription,
    ],
  });
  const left = await call('POST', '/a.1/unsubscribe', {
    categories: [{ slug: 'comments', reason: 'noise' }],
  });
  expect([left.status, left.body.subscription.categories]).toEqual([
    200,
    [{ slug: 'comments', reason: 'noise', status: 'unsubscribed' }],
  ]);
  const deleted = await call('DELETE', '/a.1');
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  for (const response of [await call('GET', '/a.1'), await call('DELETE', '/a.1')])
    expect([response.status, response.codes]).toEqual([404, ['not_found']]);
});

test('unsubscribing without categories, or from *, leaves the topic', async () => {
  const everything = [{ slug: '*', status: 'unsubscribed' }];
  for (const body of [undefined, {}, { categories: [] }, { categories: [{ slug: '*' }] }]) {
    await call('POST', '', { topic: 't', categories: [{ slug: 'a' }] });
    const { status, body: left } = await call('POST', '/t/unsubscribe', body);
    expect([status, left.subscription.categories]).toEqual([200, everything]);
  }
  const resubscribed = await call('POST', '', { topic: 't', categories: [{ slug: '*' }] });
  expect(resubscribed.body.subscription.categories).toEqual([{ slug: '*', status: 'subscribed' }]);
});

test('DELETE with a body deletes the categories in it, and the subscription with the last one', async () => {
  await call('POST', '', {
    topic: 't',
    categories: [{ slug: 'a' }, { slug: 'b', reason: 'r' }, { slug: '*' }],
  });
  expect((await call('DELETE', '/t', { categories: [{ slug: 'a' }, { slug: 'unknown' }] })).status).toBe(204);
  expect((await call('GET', '/t')).body.subscription.categories).toEqual([
    { slug: '*', status: 'subscribed' },
    { slug: 'b', reason: 'r', status: 'subscribed' },
  ]);
  expect((await call('DELETE', '/t', { categories: [{ slug: 'a' }] })).status).toBe(204);
  expect((await call('DELETE', '/t', { categories: [{ slug: 'b' }, { slug: '*' }] })).status).toBe(204);
  expect((await call('GET', '/t')).status).toBe(404);
  expect((await call('DELETE', '/t', { categories: [{ slug: 'b' }] })).status).toBe(404);
  const { body } = await project.call('GET', '/events?type=subscription.*');
  expect(body.data.map(({ type, payload }: { type: string; payload: unknown }) => [type, payload])).toEqual([
    ['subscription.deleted', { topic: 't' }],
    [
      'subscription.saved',
      {
        topic: 't',
        categories: [
          { slug: '*', status: 'subscribed' },
          { slug: 'b', status: 'subscribed' },
        ],
      },
    ],
    ['subscription.saved', expect.anything()],
  ]);
});

test.each([
  ['encoded', '/orders%2F1042'],
  ['not encoded', '/orders/1042'],
  ['with a slash at the end', '/orders/1042/'],
])('a topic in the path may be %s', async (_how, path) => {
  const topic = { topic: 'orders/1042' };
  await call('POST', '', topic);
  expect((await call('GET', path)).body.subscription).toMatchObject(topic);
  const unsubscribe = `${path.replace(/\/$/, '')}/unsubscribe${path.endsWith('/') ? '/' : ''}`;
  expect((await call('POST', unsubscribe)).body.subscription).toEqual({
    ...topic,
    categories: [{ slug: '*', status: 'unsubscribed' }],
  });
  expect((await call('DELETE', path)).status).toBe(204);
  expect(await inV2()).toEqual([]);
});

test('belongs to its user', async () => {
  await call('POST', '', { topic: 't' });
  const bob = project.v1As('bob');
  expect((await bob('GET', '/subscriptions')).body).toEqual({ subscriptions: [] });
  for (const [method, path] of [
    ['GET', '/subscriptions/t'],
    ['DELETE', '/subscriptions/t'],
  ] as const)
    expect((await bob(method, path)).status).toBe(404);
  expect(await inV2()).toHaveLength(1);
});

test.each<[string, string, string, unknown, string[]]>([
  ['no subscription', 'POST', '', {}, ["Param 'subscription' is missing"]],
  ['no topic', 'POST', '', { subscription: {} }, ["Param 'subscription.topic' is missing"]],
  [
    'repeated categories',
    'POST',
    '',
    { subscription: { topic: 't', categories: [{ slug: 'a' }, { slug: 'a' }] } },
    ["Param 'subscription.categories.1.slug' repeats categories.0: list a once"],
  ],
  [
    'several problems',
    'POST',
    '',
    { subscription: { topic: 'a b', x: 1, categories: [{ slug: 'a' }, { slug: 'a', status: 'on' }] } },
    [
      "Param 'subscription.topic' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$",
      "Param 'subscription' doesn't allow key: x",
      "Param 'subscription.categories.1.status' must be one of: subscribed, unsubscribed",
      "Param 'subscription.categories.1.slug' repeats categories.0: list a once",
    ],
  ],
  [
    'repeated categories to unsubscribe from',
    'POST',
    '/t/unsubscribe',
    { subscription: { categories: [{ slug: 'a' }, { slug: 'a' }] } },
    ["Param 'subscription.categories.1.slug' repeats categories.0: list a once"],
  ],
  [
    'a path that is no topic',
    'POST',
    '/a%20b/unsubscribe',
    undefined,
    ["Param 'topic' must have 1 to 255 characters, each a letter, a digit or one of _ . - : /"],
  ],
  ['a list', 'DELETE', '/t', { subscription: [] }, ["Param 'subscription' must be an object"]],
])('%s is rejected', async (_what, method, path, body, messages) => {
  const response = await project.v1As('ada')(method, `/subscriptions${path}`, body);
  expect([response.status, response.codes[0]]).toEqual([422, 'validation_failed']);
  expect(response.messages.toSorted()).toEqual(messages.toSorted());
  expect(await inV2()).toEqual([]);
});

import fastify from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FreeTextPaths } from '../../src/http/free-text-paths.ts';
import { type Caller, startTestService, type TestService } from '../support/service.ts';

// Published clients write the parameters of a path as they are.

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const project: Caller = (...request) => service.project.call(...request);
const v1: Caller = (...request) => service.project.v1(...request);
const ann: Caller = (...request) => service.project.as('ann')(...request);
const annInV1: Caller = (...request) => service.project.v1As('ann')(...request);

describe.each([
  ['encoded', encodeURIComponent],
  ['not encoded', (text: string) => text],
])('a text in a path, %s, names', (_how, written) => {
  test('a category', async () => {
    const config = { key: 'orders/shipped', channels: [{ channel: 'email' }] };
    await project('PUT', '/channels', config);
    const path = `/channels/${written(config.key)}`;
    for (const at of [path, `${path}/`, `${path}?x=a/b`])
      expect((await project('GET', at)).body, at).toEqual(config);
    expect((await project('DELETE', path)).status).toBe(204);
    expect((await project('GET', path)).status).toBe(404);
  });

  test('a topic', async () => {
    const topic = written('orders/1042');
    await ann('POST', '/subscriptions', { topic: 'orders/1042' });
    const listed = await project('GET', `/topics/${topic}/subscribers?limit=1`);
    expect(listed.body.data).toMatchObject([{ external_id: 'ann' }]);
    expect(new URL(listed.body.links.first).pathname).toBe('/v2/topics/orders%2F1042/subscribers');
    const users = [{ external_id: 'bob' }];
    const added = await project('POST', `/topics/${topic}/subscribers`, { users });
    expect(added.status).toBe(200);
    expect((await project('POST', `/topics/${topic}/subscribers/remove`, { users })).status).toBe(200);
    expect((await project('DELETE', `/users/external_id:bob/subscriptions/${topic}`)).status).toBe(404);
    expect((await ann('DELETE', `/subscriptions/${topic}`)).body).toMatchObject({ topic: 'orders/1042' });
  });

  test.each(['team/42', 'a%2', 'a/%zz', '100%', 'ü%C3'])('the user %s', async (externalId) => {
    const { body: saved } = await project('PUT', '/users', { external_id: externalId });
    const path = `/users/external_id:${written(externalId)}`;
    expect((await project('GET', path)).body).toEqual(saved);
    expect((await project('GET', `${path}/notifications`)).body.data).toEqual([]);
    expect((await project('POST', `${path}/subscriptions`, { topic: 'a/b' })).status).toBe(200);
    expect((await project('DELETE', `${path}/subscriptions/${written('a/b')}`)).status).toBe(200);
    expect((await v1('GET', path)).body.user).toMatchObject({ id: saved.id });
    expect((await v1('GET', `${path}/push_subscriptions`)).body.push_subscriptions).toEqual([]);
    const changed = await v1('PUT', path, { user: { first_name: 'X' } });
    expect(changed.body.user).toMatchObject({ id: saved.id, first_name: 'X' });
    expect((await v1('DELETE', path)).status).toBe(204);
  });

  test('the address of a user', async () => {
    const { body: saved } = await project('PUT', '/users', { email: 'a/b%c@example.com' });
    expect((await project('GET', `/users/email:${written('a/b%c@example.com')}`)).body).toEqual(saved);
  });

  test('a device', async () => {
    const token = `${'d'.repeat(64)}/%z/${'e'.repeat(8)}`;
    for (const path of ['/push_subscriptions', '/channels/mobile_push/fcm/tokens']) {
      await annInV1('POST', '/push_subscriptions', {
        push_subscription: { device_token: token, platform: 'android' },
      });
      expect((await annInV1('DELETE', `${path}/${written(token)}`)).status, path).toBe(204);
      expect((await annInV1('GET', '/push_subscriptions')).body.push_subscriptions).toEqual([]);
    }
  });

  test('a chat token', async () => {
    const oauth = { installation_id: 'A1-T/1', channel_id: 'C%1' };
    expect((await ann('PUT', '/channels/slack/tokens', { oauth })).status).toBe(200);
    const path = `/channels/slack/tokens/${written('A1-T/1-C%1')}`;
    expect((await ann('GET', path)).body).toMatchObject({ id: 'A1-T/1-C%1', oauth });
    expect((await ann('DELETE', path)).status).toBe(200);
  });
});

test('a valid escape in a path means what it encodes', async () => {
  await project('PUT', '/users', { external_id: '%2F' });
  expect((await project('GET', '/users/external_id:%2F')).status).toBe(404);
  expect((await project('GET', '/users/external_id:%252F')).body).toMatchObject({ external_id: '%2F' });
});

describe('a text that ends like another path', () => {
  test.each(['/notifications', '/preferences', '/subscriptions', '/subscriptions/'])(
    'is no other user for a method that the path does not have: %s',
    async (end) => {
      await project('PUT', '/users', { external_id: `ann${end}` });
      const response = await project('DELETE', `/users/external_id:ann${end}`);
      expect([response.status, response.headers.get('allow')]).toEqual([
        405,
        expect.stringMatching('^GET, HEAD, '),
      ]);
    },
  );

  test('names the shorter user and the longer topic', async () => {
    await project('PUT', '/users', { external_id: 'team' });
    await project('POST', '/users/external_id:team/subscriptions', { topic: 'a/subscriptions/b' });
    const path = '/users/external_id:team/subscriptions/a/subscriptions/b';
    expect((await project('DELETE', path)).body).toMatchObject({ topic: 'a/subscriptions/b' });
  });

  test('must be encoded where that path has the method', async () => {
    const path = (text: string) => `/users/external_id:${text}`;
    const { body: longer } = await project('PUT', '/users', { external_id: 'a/notifications' });
    const { body: shorter } = await project('PUT', '/users', { external_id: 'a' });
    expect((await project('GET', path('a/notifications'))).body.data).toEqual([]);
    expect((await project('GET', path('a%2Fnotifications'))).body).toEqual(longer);
    expect((await project('GET', path('a'))).body).toEqual(shorter);
  });

  test('never replaces a path without parameters', async () => {
    await project('PUT', '/channels', { key: 'slack/tokens', channels: [] });
    const response = await ann('DELETE', '/channels/slack/tokens');
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, PUT, OPTIONS']);
    expect((await ann('GET', '/channels/slack/tokens')).body.data).toEqual([]);
    expect((await project('GET', '/channels/slack%2Ftokens')).body).toMatchObject({ key: 'slack/tokens' });
  });
});

test('a path with such a text has its methods', async () => {
  const response = await project('PUT', '/channels/orders/shipped');
  expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET, HEAD, DELETE, OPTIONS']);
  expect((await project('HEAD', '/users/external_id:no/one')).status).toBe(404);
});

test('other parameters have no slashes and no invalid escapes', async () => {
  const { body: user } = await project('PUT', '/users', { external_id: 'other' });
  for (const [path, status] of [
    [`/users/${user.id}/unknown`, 404],
    ['/workflows/runs/a/b', 404],
    [`/users/${user.id}%`, 400],
  ] as const)
    expect((await project('GET', path)).status, path).toBe(status);
});

test('exactly what cannot be decoded is taken literally', () => {
  const paths = new FreeTextPaths();
  const app = fastify();
  paths.watch(app);
  app.get('/channels/:key', { config: { operationId: 'getCategory' } }, async () => '');
  const isDecodable = (text: string) => {
    try {
      return decodeURIComponent(text) !== undefined;
    } catch {
      return false;
    }
  };
  const bytes = ['00', '2f', '7F', '80', '8f', '90', '9F', 'a0', 'bf', 'c0', 'c1', 'c2', 'df', 'e0', 'E1'];
  bytes.push('ec', 'ed', 'ee', 'ef', 'f0', 'f1', 'f3', 'f4', 'f5', 'ff', 'zz');
  let texts = bytes.map((byte) => `%${byte}`);
  for (let length = 1; length <= 3; length += 1) {
    for (const text of texts) {
      const encoded = paths.encode(`/channels/${text}`).slice('/channels/'.length);
      expect(isDecodable(encoded), text).toBe(true);
      if (isDecodable(text)) expect(encoded).toBe(text);
    }
    texts = texts.flatMap((text) => bytes.map((byte) => `${text}%${byte}`));
  }
  for (const text of ['%f0%9f%98%80', '%f0%8f%80%80', '%f4%90%80%80', '%', '%a', 'x%%2f'])
    expect(isDecodable(paths.encode(`/channels/${text}`)), text).toBe(true);
});

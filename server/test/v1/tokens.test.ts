import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openSocket } from '../support/realtime.ts';
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
  project = await service.createProject(`tokens ${made}`);
});

const ada = (method: string, path: string, body?: unknown) => project.v1As('ada')(method, path, body);
const inV2 = async (collection: string, user = 'ada') =>
  (await project.as(user)('GET', `/channels/${collection}/tokens`)).body.data;
const long = (letter: string) => letter.repeat(64);
const register = (device: object, user = 'ada') =>
  project.v1As(user)('POST', '/push_subscriptions', { push_subscription: device });
const devices = async (query = '', user = 'ada') =>
  (await project.v1As(user)('GET', `/push_subscriptions${query}`)).body;

describe('devices', () => {
  test('that v2 does not accept leave no gaps in the pages of v2', async () => {
    const save = (device_token: string) => register({ device_token, platform: 'android' });
    for (const letter of ['a', 'b', 'c']) {
      await save(long(letter));
      for (const n of [1, 2, 3]) await save(`short ${letter} ${n}`);
    }
    const call = project.as('ada');
    const page = async (query: string) => {
      const { body } = await call('GET', `/channels/mobile_push/fcm/tokens${query}`);
      const cursors = [body.links.prev, body.links.next].map((link) => link && new URL(link).search);
      return { tokens: body.data.map((one: { device_token: string }) => one.device_token[0]), cursors };
    };
    const first = await page('?limit=1');
    expect(first).toEqual({ tokens: ['c'], cursors: [null, expect.any(String)] });
    const second = await page(first.cursors[1]);
    expect(second).toEqual({ tokens: ['b'], cursors: [expect.any(String), expect.any(String)] });
    const last = await page(second.cursors[1]);
    expect(last).toEqual({ tokens: ['a'], cursors: [expect.any(String), null] });
    expect(await page(last.cursors[0])).toEqual(second);
    expect(await page('?limit=3')).toEqual({ tokens: ['c', 'b', 'a'], cursors: [null, null] });
  });

  test('are registered, listed and unregistered, as v2 shows', async () => {
    const ios = { device_token: long('i'), platform: 'ios', app_bundle_id: 'com.example.app' };
    const registered = await register(ios);
    expect([registered.status, registered.body]).toEqual([
      201,
      { push_subscription: { id: expect.any(String), ...ios } },
    ]);
    const android = await register({ device_token: long('a'), platform: 'android' });
    expect(android.body.push_subscription.app_bundle_id).toBeNull();
    expect(await inV2('mobile_push/apns')).toMatchObject([
      { id: registered.body.push_subscription.id, device_token: long('i'), app_id: 'com.example.app' },
    ]);
    expect(await inV2('mobile_push/fcm')).toMatchObject([{ device_token: long('a') }]);
    const { body: user } = await project.call('GET', '/users/external_id:ada');
    const listed = await devices();
    expect(listed).toEqual({
      per_page: 20,
      current_page: 1,
      push_subscriptions: [
        {
          id: android.body.push_subscription.id,
          user_id: user.id,
          device_token: long('a'),
          platform: 'android',
          created_at: expect.stringMatching(/Z$/),
          discarded_at: null,
        },
        expect.objectContaining({ device_token: long('i'), platform: 'ios' }),
      ],
    });
    for (const reference of [user.id, 'external_id:ada'])
      expect((await project.v1('GET', `/users/${reference}/push_subscriptions`)).body).toEqual(listed);
    expect((await devices('?per_page=1&page=2')).push_subscriptions).toMatchObject([{ platform: 'ios' }]);
    expect((await devices('?page=3')).push_subscriptions).toEqual([]);
    expect((await ada('DELETE', `/push_subscriptions/${long('i')}`)).status).toBe(204);
    expect(await inV2('mobile_push/apns')).toEqual([]);
    const again = await ada('DELETE', `/push_subscriptions/${long('i')}`);
    expect([again.status, again.messages]).toEqual([
      404,
      ['No subscription with the provided device token was found'],
    ]);
  });

  test('with a token that v2 rejects are listed by v1 only', async () => {
    const { body } = await register({ device_token: 'short', platform: 'android', app_bundle_id: null });
    expect((await devices()).push_subscriptions).toMatchObject([{ device_token: 'short' }]);
    expect(await inV2('mobile_push/fcm')).toEqual([]);
    const path = `/channels/mobile_push/fcm/tokens/${body.push_subscription.id}`;
    expect((await project.as('ada')('GET', path)).status).toBe(404);
    expect((await ada('DELETE', '/push_subscriptions/short')).status).toBe(204);
    expect((await devices()).push_subscriptions).toEqual([]);
  });

  test('of Safari are stored and listed, and no message reaches them', async () => {
    await register({ device_token: 'safari-1', platform: 'safari' });
    expect((await devices()).push_subscriptions).toMatchObject([{ platform: 'safari' }]);
    await project.call('PUT', '/integrations/expo', { access_token: 'x' });
    const sent = await project.call('POST', '/broadcasts', {
      title: 'T',
      recipients: [{ external_id: 'ada' }],
    });
    await expect
      .poll(
        async () =>
          (await project.call('GET', `/broadcasts/${sent.body.id}/deliveries?channel=mobile_push`)).body
            .data[0]?.code,
      )
      .toBe('unreachable');
  });

  test('move to the user who registers them last', async () => {
    await register({ device_token: long('m'), platform: 'ios' });
    await register({ device_token: long('m'), platform: 'ios' }, 'bob');
    expect((await devices()).push_subscriptions).toEqual([]);
    expect((await devices('', 'bob')).push_subscriptions).toHaveLength(1);
    expect((await ada('DELETE', `/push_subscriptions/${long('m')}`)).status).toBe(404);
  });

  test('of unknown users are a 404, and none is created', async () => {
    for (const reference of ['external_id:unknown', 'email:unknown@example.com']) {
      const response = await project.v1('GET', `/users/${reference}/push_subscriptions`);
      expect([response.status, response.messages]).toEqual([
        404,
        ["A user with the the given id doesn't exist"],
      ]);
    }
    expect((await project.call('GET', '/users')).body.data).toEqual([]);
  });

  test.each<[string, unknown, string[]]>([
    ['nothing', {}, ["Param 'push_subscription' is missing"]],
    [
      'no members',
      { push_subscription: {} },
      ["Param 'push_subscription.device_token' is missing", "Param 'push_subscription.platform' is missing"],
    ],
    [
      'wrong members',
      { push_subscription: { device_token: 'a'.repeat(256), platform: 'windows', app_bundle_id: '-' } },
      [
        "Param 'push_subscription.device_token' must have at most 255 characters",
        "Param 'push_subscription.platform' must be one of: ios, android, safari",
        "Param 'push_subscription.app_bundle_id' must match the pattern ^[a-zA-Z0-9]+(.[a-zA-Z0-9]+)*$",
      ],
    ],
  ])('with %s are rejected', async (_what, body, messages) => {
    const response = await ada('POST', '/push_subscriptions', body);
    expect([response.status, response.messages]).toEqual([422, messages]);
  });

  test('are listed by valid pages', async () => {
    for (const query of ['?per_page=0', '?per_page=101', '?per_page=abc', '?page=0']) {
      const response = await ada('GET', `/push_subscriptions${query}`);
      expect(response.status, query).toBe(422);
      expect(response.messages[0]).toContain(query.slice(1).split('=')[0]);
    }
  });
});

const browser = (name: string) => ({
  endpoint: `https://push.example.com/${name}`,
  keys: { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQt' },
});

describe('browsers', () => {
  test('are saved, listed, read and discarded', async () => {
    const subscription = { ...browser('one'), expirationTime: null };
    const saved = await ada('POST', '/channels/web_push/tokens', { web_push: subscription });
    expect([saved.status, saved.body]).toEqual([
      201,
      {
        web_push: {
          id: expect.any(String),
          ...browser('one'),
          created_at: expect.any(String),
          updated_at: null,
          discarded_at: null,
        },
      },
    ]);
    const token = saved.body.web_push;
    const path = `/channels/web_push/tokens/${token.id}`;
    expect((await ada('GET', '/channels/web_push/tokens')).body).toEqual({ web_push: [token] });
    expect((await ada('GET', path)).body).toEqual({ web_push: token });
    expect(await inV2('web_push')).toEqual([token]);
    for (const method of ['GET', 'DELETE'])
      expect((await project.v1As('bob')(method, path)).status).toBe(404);
    expect((await ada('DELETE', path)).status).toBe(204);
    expect((await ada('GET', '/channels/web_push/tokens')).body).toEqual({ web_push: [] });
    expect((await ada('GET', path)).body.web_push.discarded_at).not.toBeNull();
  });

  test('are saved in the form of the React client, also for Safari', async () => {
    const save = (data: object) =>
      ada('POST', '/web_push_subscriptions', { web_push_subscription: { data } });
    const saved = await save({ ...browser('two'), expirationTime: null });
    expect(saved.status).toBe(201);
    expect(await inV2('web_push')).toMatchObject([{ id: saved.body.web_push_subscription.id }]);
    const safari = await save({ endpoint: 'S1', keys: { websitePushID: 'web.x' }, platform: 'safari' });
    expect(safari.status).toBe(201);
    expect((await devices()).push_subscriptions).toMatchObject([
      { id: safari.body.web_push_subscription.id, device_token: 'S1', platform: 'safari' },
    ]);
  });

  test('with a private or malformed endpoint are rejected', async () => {
    const local = { ...browser('x'), endpoint: 'http://10.0.0.1/push' };
    const responses: [unknown, string, string][] = [
      ['/channels/web_push/tokens', 'web_push', 'web_push.endpoint'],
      ['/web_push_subscriptions', 'web_push_subscription', 'web_push_subscription.data.endpoint'],
    ].map(([path = '', key = '', field = '']) => [path, key, field]);
    for (const [path, key, field] of responses) {
      const wrapped = (data: unknown) => ({ [key]: key === 'web_push' ? data : { data } });
      const response = await ada('POST', String(path), wrapped(local));
      expect(response.status).toBe(422);
      expect(response.messages[0]).toMatch(`Param '${field}' must lead to a public address`);
      expect((await ada('POST', String(path), wrapped({ endpoint: 'x' }))).status).toBe(422);
    }
  });

  test('get the key of the project and a token of the user', async () => {
    const start = await ada('POST', '/integrations/web_push/installations/start');
    expect(start.status).toBe(200);
    const { auth_token: token, public_key: key } = start.body.web_push;
    const other = await project.as('bob')('POST', '/integrations/web_push/installations/start');
    expect(other.body.public_key).toBe(key);
    const saved = await service.request('PUT', '/v2/channels/web_push/tokens', {
      token,
      body: browser('three'),
    });
    expect(saved.status).toBe(200);
    expect(await inV2('web_push')).toMatchObject([{ endpoint: browser('three').endpoint }]);
  });
});

test('an inbox saves a token and gets its config, and its WebSocket receives frames', async () => {
  const token = long('w');
  const saved = await ada('POST', '/channels/in_app/inbox/tokens', { inbox: { token } });
  expect([saved.status, saved.body]).toEqual([201, { 'in_app/inbox': { token, connection_id: null } }]);
  const socket = await openSocket(
    `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}`,
  );
  await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: 'ada' }] });
  await expect.poll(() => socket.frames.map(({ name }) => name)).toEqual(['notifications/new']);
  const start = await ada('POST', '/integrations/inbox/installations/start');
  expect([start.status, start.body]).toEqual([200, { inbox: { images: null, locale: null, theme: null } }]);
});

test.each([
  ['apns', { device_token: long('p'), app_id: 'com.example.app', installation_id: 'development' }],
  ['fcm', { device_token: long('q') }],
])('a phone saves and discards its token of %s', async (provider, token) => {
  const path = `/channels/mobile_push/${provider}/tokens`;
  const saved = await ada('POST', path, { [provider]: token });
  expect([saved.status, saved.body]).toEqual([201, { [provider]: token }]);
  expect(await inV2(`mobile_push/${provider}`)).toMatchObject([token]);
  expect((await ada('POST', path, { [provider]: { device_token: 'short' } })).messages).toEqual([
    `Param '${provider}.device_token' must have at least 64 characters`,
  ]);
  const other = provider === 'apns' ? 'fcm' : 'apns';
  expect((await ada('DELETE', `/channels/mobile_push/${other}/tokens/${token.device_token}`)).status).toBe(
    404,
  );
  expect((await ada('DELETE', `${path}/${token.device_token}`)).status).toBe(204);
  expect(await inV2(`mobile_push/${provider}`)).toEqual([]);
});

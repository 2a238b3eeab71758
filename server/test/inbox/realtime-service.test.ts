import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { uuidArray } from '../../src/db/arrays.ts';
import { sql } from '../../src/db/client.ts';
import { limitProject } from '../../src/domain/setup/projects/limit.ts';
import { newId } from '../../src/lib/ids.ts';
import { openSocket, openStream, openStreamSocket, Refused, titles } from '../support/realtime.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const streamUrl = () => `${service.address}/v2/notifications/stream`;
const token = 'a'.repeat(63);

test('every open inbox of a user shows a broadcast, and reading it in one updates the other', async () => {
  const { project } = service;
  const user = project.as('ada');
  await user('PUT', '/channels/in_app/inbox/tokens', { token: `${token}1` });
  const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}1`;
  const [socket, stream] = [
    await openSocket(url),
    await openStream(streamUrl(), { jwt: project.userJwt({ user_external_id: 'ada' }) }),
  ];
  onTestFinished(() => stream.source.close());
  await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: 'ada' }] });
  for (const { frames } of [socket, stream]) await expect.poll(() => titles(frames)).toEqual(['Hello']);
  const id = socket.frames[0]?.data.id ?? '';
  const { body } = await user('GET', `/notifications/${id}`);
  expect(socket.frames[0]?.data.notification).toEqual(body);
  await user('POST', `/notifications/${id}/read`, undefined, { 'x-service-client-id': 'tab' });
  for (const { frames } of [socket, stream]) {
    await expect
      .poll(() => frames[1])
      .toMatchObject({ name: 'notifications/read', data: { id, client_id: 'tab' } });
  }
  const { body: list } = await user('GET', '/channels/in_app/inbox/tokens');
  await user('DELETE', `/channels/in_app/inbox/tokens/${list.data[0].id}`);
  expect((await socket.closed).code).toBe(4001);
  await expect(openSocket(url)).rejects.toEqual(new Refused(401));
});

test('the WebSockets of an inbox token are counted, beside the requests and those of others', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_V1_READS: '2' } });
  onTestFinished(() => limited.stop());
  const { project, address } = limited;
  const open = async (name: string) => {
    const url = `${address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}${name}`;
    const { socket } = await openSocket(url);
    onTestFinished(() => socket.terminate());
  };
  for (const name of ['1', '2'])
    await project.as(name)('PUT', '/channels/in_app/inbox/tokens', { token: `${token}${name}` });
  for (const name of ['1', '1', '2']) await open(name);
  await expect(open('1')).rejects.toEqual(new Refused(429));
  await open('2');
});

describe('a change of all notifications', () => {
  /** Opens both kinds of inboxes of a user that has these numbers of notifications by category. */
  async function openInboxes(name: string, categories: Record<string, number>) {
    const { project, context } = service;
    const user = project.as(name);
    await user('PUT', '/channels/in_app/inbox/tokens', { token: `${token}-${name}` });
    const recipients = [{ external_id: name }];
    const ids: Record<string, string[]> = {};
    for (const [category, count] of Object.entries(categories)) {
      const { body } = await project.call('POST', '/broadcasts', { title: 'T', category, recipients });
      await processed(project.call, body.id);
      const { body: list } = await user('GET', `/notifications?category=${category}`);
      const [{ id, user_id: userId }] = list.data;
      const copies = Array.from({ length: count - 1 }, () => newId());
      await context.db.query(copyNotification, [userId, id, uuidArray(copies)]);
      ids[category] = [id, ...copies].sort().reverse(); // newest first
    }
    const url = `${service.address.replace('http', 'ws')}/?api_key=${project.apiKey}&token=${token}-${name}`;
    const socket = await openSocket(url);
    const stream = await openStream(streamUrl(), { jwt: project.userJwt({ user_external_id: name }) });
    onTestFinished(() => stream.source.close());
    return { user, ids, socket, stream };
  }

  const copyNotification = sql(
    'test_copy_notification',
    `insert into notifications (user_id, id, broadcast_id, sent_at, category)
    select n.user_id, copy.id, n.broadcast_id, n.sent_at, n.category
    from notifications n, unnest($3::uuid[]) as copy (id)
    where n.user_id = $1 and n.id = $2`,
  );

  test.each([
    ['read', 'notifications/read'],
    ['seen', 'notifications/seen'],
    ['archive', 'notifications/archived'],
  ] as const)('%s sends a frame for each that a filter selects', async (action, name) => {
    const { user, ids, socket, stream } = await openInboxes(`some-${action}`, { a: 100, b: 2 });
    await user('POST', `/notifications/${action}?category=a`, undefined, { 'x-service-client-id': 'tab' });
    await user('POST', `/notifications/${action}?category=a`);
    await user('POST', `/notifications/${action}`);
    for (const { frames } of [socket, stream]) {
      await expect.poll(() => frames).toHaveLength(101);
      const [all, ...some] = frames.toReversed();
      expect(some.toReversed().map((frame) => frame.data.id)).toEqual(ids.a);
      expect(new Set(some.map((frame) => `${frame.name} ${frame.data.client_id}`))).toEqual(
        new Set([`${name} tab`]),
      );
      expect(all?.name).toBe(`notifications/${action}/all`);
    }
  });

  test('with a filter that selects more than 100 makes inboxes fetch their lists', async () => {
    const { user, socket, stream } = await openInboxes('many', { a: 101, b: 1 });
    await user('POST', '/notifications/read?category=a');
    await expect.poll(() => stream.resyncs).toBe(1);
    expect((await socket.closed).code).toBe(1013);
    await user('POST', '/notifications/read?category=b');
    await expect.poll(() => stream.frames).toHaveLength(1);
    expect(stream.frames[0]?.name).toBe('notifications/read');
    expect(socket.frames).toEqual([]);
  });
});

test('a stream needs a User JWT in the header, and ends when that expires', async () => {
  const { project } = service;
  const jwt = project.userJwt({ user_external_id: 'ada' });
  const open = async (url: string, authorization?: string) => {
    const call = request(url, {
      headers: { origin: 'https://example.com', ...(authorization ? { authorization } : {}) },
    });
    const [response] = (await once(call.end(), 'response')) as [import('node:http').IncomingMessage];
    onTestFinished(() => {
      response.on('error', () => {}).destroy();
    });
    return response;
  };
  expect((await open(streamUrl())).statusCode).toBe(401);
  expect((await open(`${streamUrl()}?access_token=${jwt}`)).statusCode).toBe(401);
  expect((await open(streamUrl(), `Bearer ${project.jwt}`)).statusCode).toBe(403);
  const response = await open(streamUrl(), `Bearer ${jwt}`);
  expect(response.statusCode).toBe(200);
  expect(response.headers['access-control-allow-origin']).toBe('*');
  expect(response.headers['content-type']).toContain('text/event-stream');
});

describe('a stream by WebSocket', () => {
  const open = async (jwt: string, origin?: string) => {
    const client = await openStreamSocket(service.address, { jwt, ...(origin ? { origin } : {}) });
    onTestFinished(() => client.source.close());
    return client;
  };
  const handshake = async (protocols: string | undefined) => {
    const call = request(streamUrl(), {
      headers: {
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        ...(protocols === undefined ? {} : { 'sec-websocket-protocol': protocols }),
      },
    });
    const [response] = (await once(call.end(), 'response')) as [import('node:http').IncomingMessage];
    const { errors } = JSON.parse((await response.toArray()).join(''));
    return [response.statusCode, errors[0].code];
  };

  test('opens from any origin with a User JWT, which is never logged', async () => {
    const { project } = service;
    const jwt = project.userJwt({ user_external_id: 'lin' });
    const client = await open(jwt, 'https://example.com');
    await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [{ external_id: 'lin' }] });
    await expect.poll(() => titles(client.frames)).toEqual(['Hello']);
    expect(service.logged.join('')).not.toContain(jwt.split('.')[2]);
  });

  test.each([
    ['no token', () => 'belfry.v1', 401, 'invalid_jwt_format'],
    ['no sub-protocol at all', () => undefined, 401, 'invalid_jwt_format'],
    ['an empty token', () => 'belfry.v1, belfry.jwt.', 401, 'invalid_jwt_format'],
    ['text that is no token', () => 'belfry.v1, belfry.jwt.a.b.c', 401, 'unparsable_jwt_token'],
    ['a Project JWT', () => `belfry.v1, belfry.jwt.${service.project.jwt}`, 403, 'forbidden'],
    ['a token alone', () => `belfry.jwt.${userJwt()}`, 400, 'bad_request'],
    ['an expired token', () => `belfry.v1, belfry.jwt.${userJwt({ exp: 1 })}`, 401, 'jwt_auth_failed'],
    ['a token of another key', () => `belfry.v1, belfry.jwt.${forged()}`, 401, 'jwt_auth_failed'],
  ])('refuses %s', async (_what, protocols, status, code) => {
    expect(await handshake(protocols())).toEqual([status, code]);
  });

  const userJwt = (claims: object = {}) => service.project.userJwt({ user_external_id: 'ada', ...claims });
  const forged = () => `${userJwt().slice(0, -4)}AAAA`;

  test('counts as a read of the user, and is refused above the limit', async () => {
    const project = await service.createProject('limited');
    await limitProject(service.context, project.id, { reads: 2 });
    const jwt = project.userJwt({ user_external_id: 'ada' });
    for (let count = 0; count < 2; count += 1) await open(jwt);
    await expect(open(jwt)).rejects.toEqual(new Refused(429));
  });

  test('is closed when the user is deleted', async () => {
    const { project } = service;
    const { body } = await project.call('PUT', '/users', { external_id: 'leaving' });
    const client = await open(userJwt({ user_external_id: 'leaving' }));
    await project.call('DELETE', `/users/${body.id}`);
    expect((await client.closed).code).toBe(4004);
  });
});

test('a client misses nothing in a restart of the whole service', async () => {
  const { project } = service;
  const jwt = project.userJwt({ user_external_id: 'grace' });
  const before = await openStream(streamUrl(), { jwt });
  const send = (title: string) =>
    project.call('POST', '/broadcasts', { title, recipients: [{ external_id: 'grace' }] });
  await send('one');
  await expect.poll(() => titles(before.frames)).toEqual(['one']);
  const ended = once(before.source, 'error');
  await service.restart();
  await ended;
  before.source.close();
  // Two consecutive broadcasts may be fanned out concurrently; this one has arrived before the client
  // reconnects.
  await processed(project.call, (await send('two')).body.id);
  const after = await openStream(streamUrl(), { jwt, lastEventId: before.lastEventId() });
  onTestFinished(() => after.source.close());
  await send('three');
  await expect.poll(() => after.frames.length).toBeGreaterThanOrEqual(2);
  expect(titles(after.frames)).toEqual(['two', 'three']);
});

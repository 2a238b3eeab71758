import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Client, createClient } from 'graphql-ws';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { rollKey } from '../../src/domain/setup/projects/roll-key.ts';
import { issueToken, revokeToken } from '../../src/domain/setup/projects/tokens.ts';
import { GraphqlClients } from '../../src/http/graphql/clients.ts';
import { Documents } from '../../src/http/graphql/documents.ts';
import { graphqlApi, graphqlSockets } from '../../src/http/graphql/index.ts';
import { graphqlSchema } from '../../src/http/graphql/schema.ts';
import { Rounds } from '../../src/http/realtime/pending.ts';
import { v1Api } from '../../src/http/v1/api.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const bearer = (externalId: string, claims = {}) => ({
  Authorization: `Bearer ${service.project.userJwt({ user_external_id: externalId, ...claims })}`,
});

/** A client of the published library, and how its connection was closed. */
function connect(
  connectionParams: Record<string, unknown>,
  { address = service.address, webSocketImpl = WebSocket as unknown } = {},
) {
  const { promise: closed, resolve } = Promise.withResolvers<{ code: number; reason: string }>();
  const client = createClient({
    url: `${address.replace('http', 'ws')}/graphql`,
    webSocketImpl,
    connectionParams,
    retryAttempts: 0,
    on: { closed: (event) => resolve(event as { code: number; reason: string }) },
  });
  onTestFinished(async () => void (await client.dispose()));
  return { client, closed };
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
type Result = any;

/** Subscribes, and resolves when the hub knows the subscription. */
async function listen(client: Client, query: string) {
  const events: Result[] = [];
  const before = counts().socket;
  const { promise: ended, resolve } = Promise.withResolvers<unknown>();
  const stop = client.subscribe(
    { query },
    {
      next: ({ data, errors }) => events.push(errors ?? data?.inbox),
      error: (error) => resolve(error),
      complete: () => resolve('complete'),
    },
  );
  await Promise.race([
    ended,
    until(
      () => counts().socket,
      (count) => count > before,
    ),
  ]);
  return { events, stop, ended };
}

const counts = () => service.http.context.hub.counts();

// The clients of the test before have left.
beforeEach(() => expect.poll(() => counts().socket).toBe(0));

async function notify(externalId: string, members: object = {}): Promise<void> {
  const recipients = [{ external_id: externalId }];
  const { body } = await service.project.call('POST', '/broadcasts', {
    title: 'Hello',
    recipients,
    ...members,
  });
  await processed(service.project.call, body.id);
}

test('a message whose error is too long for a close frame closes the connection', async () => {
  const socket = new WebSocket(`${service.address.replace('http', 'ws')}/graphql`, 'graphql-transport-ws');
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'connection_init', payload: bearer('ada') }));
  await once(socket, 'message');
  const subscribe = {
    type: 'subscribe',
    id: 'é'.repeat(100),
    payload: { query: 'subscription { inbox { id } }' },
  };
  const closed = once(socket, 'close');
  for (const _ of [1, 2]) socket.send(JSON.stringify(subscribe));
  const [code, reason] = await closed;
  expect([code, String(reason)]).toEqual([4409, expect.stringMatching(/^Subscriber for é+$/)]);
});

const INBOX = 'subscription { inbox { name notificationId clientId notification { id title status } } }';

describe('a subscription', () => {
  test('gets large numbers of custom attributes as they were sent', async () => {
    const texts: string[] = [];
    class Recording extends WebSocket {
      constructor(...of: ConstructorParameters<typeof WebSocket>) {
        super(...of);
        this.on('message', (text) => texts.push(String(text)));
      }
    }
    const { client } = connect(bearer('exact'), { webSocketImpl: Recording });
    await listen(client, 'subscription { inbox { notification { customAttributes } } }');
    const attributes = '{"id":9007199254740993}';
    const body = `{"title":"A","custom_attributes":${attributes},"recipients":[{"external_id":"exact"}]}`;
    await service.project.call('POST', '/broadcasts', body);
    await expect.poll(() => texts.join()).toContain(`"customAttributes":${attributes}`);
  });

  test('gets new notifications and every change', async () => {
    const { client } = connect(bearer('live'));
    const { events } = await listen(client, INBOX);
    const user = service.project.as('live');
    await notify('live');
    await expect.poll(() => events).toHaveLength(1);
    const [{ notificationId: id }] = events;
    expect(events[0]).toEqual({
      name: 'NEW',
      notificationId: id,
      clientId: null,
      notification: { id, title: 'Hello', status: 'UNSEEN' },
    });
    const changes = [
      ['seen', 'SEEN', 'UNREAD'],
      ['read', 'READ', 'READ'],
      ['unread', 'UNREAD', 'UNREAD'],
      ['archive', 'ARCHIVED', 'ARCHIVED'],
      ['unarchive', 'UNARCHIVED', 'UNREAD'],
    ];
    for (const [action, name, status] of changes) {
      const number = events.length;
      await user('POST', `/notifications/${id}/${action}`, undefined, { 'x-service-client-id': 'tab' });
      await expect.poll(() => events).toHaveLength(number + 1);
      const notification = { id, title: 'Hello', status };
      expect(events.at(-1)).toEqual({ name, notificationId: id, clientId: 'tab', notification });
    }
    await user('DELETE', `/notifications/${id}`);
    await expect.poll(() => events).toHaveLength(7);
    expect(events.at(-1)).toMatchObject({ name: 'DELETE', notificationId: id, notification: null });
    await notify('live');
    for (const action of ['seen', 'read', 'archive']) await user('POST', `/notifications/${action}`);
    await expect.poll(() => events).toHaveLength(11);
    expect(events.slice(8)).toEqual(
      ['SEEN_ALL', 'READ_ALL', 'ARCHIVE_ALL'].map((name) => ({
        name,
        notificationId: null,
        clientId: null,
        notification: null,
      })),
    );
  });

  test('gets RESYNC when a filter changes many', async () => {
    const { client } = connect(bearer('many'));
    const { events } = await listen(client, INBOX);
    const { userId } = await identify('many');
    service.context.bus.publish({ type: 'many_changed', userId });
    await expect.poll(() => events).toMatchObject([{ name: 'RESYNC', notificationId: null }]);
  });

  test('gets nothing of other users and projects', async () => {
    const { client } = connect(bearer('alone'));
    const { events } = await listen(client, INBOX);
    const stranger = await service.createProject('stranger');
    const sent = await stranger.call('POST', '/broadcasts', {
      title: 'Another',
      recipients: [{ external_id: 'alone' }],
    });
    await processed(stranger.call, sent.body.id);
    await notify('other');
    await notify('alone');
    await expect.poll(() => events).toHaveLength(1);
    expect(events[0].notification.title).toBe('Hello');
  });

  test('ends when the client stops it, and its connection when the client leaves', async () => {
    const before = counts().socket;
    const { client, closed } = connect(bearer('leaving'));
    const { stop } = await listen(client, INBOX);
    const { ended } = await listen(client, INBOX);
    expect(counts().socket).toBe(before + 2);
    stop();
    await expect.poll(() => counts().socket).toBe(before + 1);
    await client.dispose();
    expect((await closed).code).toBe(1000);
    await ended;
    await expect.poll(() => counts().socket).toBe(before);
  });
});

async function identify(externalId: string): Promise<{ userId: string }> {
  const { body } = await service.project.call('GET', `/users/external_id:${externalId}`);
  return { userId: body.id };
}

describe('a connection is closed', () => {
  const subscribed = (connectionParams: Record<string, unknown>, address?: string) => {
    const { client, closed } = connect(connectionParams, { address });
    return { closed, client, listening: listen(client, INBOX) };
  };

  test.each([
    ['without a credential', () => ({}), 'api_key_not_provided'],
    ['with an unreadable one', () => ({ authorization: 'Bearer x' }), 'unparsable_jwt_token'],
    ['with a wrong one', () => ({ ...bearer('x', { api_key: 'pk_unknown' }) }), 'jwt_auth_failed'],
    ['with one of a project', () => ({ authorization: `Bearer ${service.project.jwt}` }), 'forbidden'],
  ])('%s', async (_name, params, reason) => {
    expect(await subscribed(params()).closed).toMatchObject({ code: 4403, reason });
  });

  test('when its credential expires', async () => {
    const { closed, listening } = subscribed(bearer('short', { exp: Math.floor(Date.now() / 1000) + 3 }));
    await listening;
    expect(await closed).toMatchObject({ code: 4403, reason: 'the credential is no longer valid' });
  });

  test('when its user is deleted', async () => {
    const { closed, listening } = subscribed(bearer('deleted'));
    await listening;
    const { userId } = await identify('deleted');
    await service.project.call('DELETE', `/users/${userId}`);
    expect(await closed).toMatchObject({ code: 4403, reason: 'the user was deleted' });
  });

  test('when its key is rolled, at the next ping', async () => {
    const { visitAll, address } = await ownSockets();
    const own = await service.createProject('rolled');
    const token = own.userJwt({ user_external_id: 'rolled' });
    const { closed, listening } = subscribed({ authorization: `Bearer ${token}` }, address);
    await listening;
    visitAll(); // valid: a ping
    const { projects } = service.http.context;
    const keyOf = async () => (await projects.byId(own.id))?.apiSecrets[0].id;
    const before = await keyOf();
    await rollKey(service.context, { projectId: own.id, kind: 'api_secret', overlapMs: 0 });
    await until(keyOf, (key) => key !== before);
    visitAll();
    expect(await closed).toMatchObject({ code: 4403, reason: 'the credential is no longer valid' });
  });

  test('when its Project JWT is revoked, at the next ping', async () => {
    const { visitAll, address } = await ownSockets();
    const { project } = service;
    const issued = await issueToken(service.context, { projectId: project.id, name: 'acting' });
    const acting = { authorization: `Bearer ${issued?.token}`, 'X-SERVICE-USER-EXTERNAL-ID': 'ada' };
    const { closed, listening } = subscribed(acting, address);
    await listening;
    visitAll(); // valid: a ping
    const { projects } = service.http.context;
    const { jti = '' } = issued?.issued ?? {};
    await revokeToken(service.context, jti);
    await until(
      async () => (await projects.byId(project.id))?.revokedTokens.has(jti),
      (isRevoked) => isRevoked === true,
    );
    visitAll();
    expect(await closed).toMatchObject({ code: 4403, reason: 'the credential is no longer valid' });
  });

  test('when it does not respond to a ping', async () => {
    const { visitAll, address } = await ownSockets();
    const socket = new WebSocket(`${address.replace('http', 'ws')}/graphql`, ['graphql-transport-ws'], {
      autoPong: false,
    });
    const closed = once(socket, 'close');
    await once(socket, 'open');
    socket.send(JSON.stringify({ type: 'connection_init', payload: bearer('silent') }));
    await once(socket, 'message');
    const pinged = once(socket, 'ping');
    visitAll();
    await pinged;
    visitAll();
    expect((await closed)[0]).toBe(1006);
  });

  test('when it reads too slowly', async () => {
    const { client, closed } = connect(bearer('slow'));
    await listen(client, INBOX);
    const { userId } = await identify('slow');
    // All in one turn of the event loop, so nothing is read meanwhile.
    for (let sent = 0; sent < 3_000; sent += 1)
      service.context.bus.publish({ type: 'changed', userId, name: 'read', id: newId(), atMs: Date.now() });
    expect(await closed).toMatchObject({ code: 1013 });
  });

  test('when it sends pings and does not read the responses', async () => {
    const url = `${service.address.replace('http', 'ws')}/graphql`;
    const socket = new WebSocket(url, ['graphql-transport-ws'], { perMessageDeflate: false });
    const closed = once(socket, 'close');
    await once(socket, 'open');
    socket.send(JSON.stringify({ type: 'connection_init', payload: bearer('flooding') }));
    await once(socket, 'message');
    socket.pause();
    const ping = JSON.stringify({ type: 'ping', payload: { text: 'x'.repeat(60_000) } });
    const send = () =>
      new Promise<Error | undefined>((resolve) => socket.send(ping, (e) => resolve(e ?? undefined)));
    let error: Error | undefined;
    for (let sent = 0; error === undefined && sent < 1_000; sent += 1) error = await send();
    expect(error).toBeInstanceOf(Error);
    socket.resume();
    expect((await closed)[0]).toBe(1006);
  });

  test('when the server stops', async () => {
    const other = await startTestService();
    const token = other.project.userJwt({ user_external_id: 'a' });
    const { client, closed } = connect({ authorization: `Bearer ${token}` }, { address: other.address });
    client.subscribe({ query: INBOX }, { next() {}, error() {}, complete() {} });
    await until(
      () => other.http.context.hub.counts().socket,
      (count) => count === 1,
    );
    await other.stop();
    expect((await closed).code).toBe(1001);
  });
});

/** The sockets on a server of their own, whose timers the test calls. */
async function ownSockets() {
  const { context, api, limits } = service.http;
  const server = createServer();
  const ticks: (() => void)[] = [];
  const app = { context, limits, api: graphqlApi(v1Api(context, api)) };
  const clients = new GraphqlClients(app, new Documents(graphqlSchema()));
  const sockets = graphqlSockets(
    { ...app, fastify: { server } },
    async () => clients,
    (_ms, tick) => {
      ticks.push(tick);
      return () => {};
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    await sockets.close();
    server.close();
  });
  const visitAll = () => {
    for (let slice = 0; slice < Rounds.SLICES; slice += 1) for (const tick of ticks) tick();
  };
  return { visitAll, address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

describe('a message is refused', () => {
  /** The errors with which a subscription ends. */
  const refused = async (query: string) => {
    const { client } = connect(bearer('refused'));
    const { promise, resolve } = Promise.withResolvers<Result>();
    client.subscribe({ query }, { next() {}, error: resolve, complete() {} });
    const errors = await promise;
    return errors.map((error: Result) => [error.extensions.code, error.message]);
  };

  test('if it is a query or a mutation', async () => {
    const expected = [['bad_request', 'Send queries and mutations with POST']];
    expect(await refused('{ unreadCount }')).toEqual(expected);
    expect(await refused('mutation { readAllNotifications }')).toEqual(expected);
  });

  test('if it is not valid, or beyond a limit', async () => {
    expect(await refused('subscription {')).toMatchObject([['validation_failed', expect.any(String)]]);
    expect(await refused('subscription { unknown }')).toMatchObject([
      ['validation_failed', 'Cannot query field "unknown" on type "Subscription".'],
    ]);
    expect(await refused('subscription { inbox { name } other: inbox { name } }')).toMatchObject([
      ['validation_failed', 'Anonymous Subscription must select only one top level field.'],
    ]);
    const aliases = Array.from({ length: 31 }, (_, n) => `a${n}: name`).join(' ');
    expect(await refused(`subscription { inbox { ${aliases} } }`)).toEqual([
      ['validation_failed', 'The query has too many aliases: at most 30'],
    ]);
  });

  test('if the connection has too many subscriptions', async () => {
    const { client } = connect(bearer('eager'));
    const errors: Result[] = [];
    for (let opened = 0; opened < 11; opened += 1) {
      const error = (all: Result) => errors.push(...all);
      client.subscribe({ query: INBOX }, { next() {}, error, complete() {} });
    }
    await expect.poll(() => errors).toHaveLength(1);
    expect(errors[0].message).toBe('A connection can have 10 subscriptions');
  });

  test('above the rate limit', async () => {
    const limited = await startTestService({ settings: { RATE_LIMIT_V1_READS: '1' } });
    onTestFinished(() => limited.stop());
    const token = limited.project.userJwt({ user_external_id: 'a' });
    const { client } = connect({ authorization: `Bearer ${token}` }, { address: limited.address });
    const errors: Result[] = [];
    for (let opened = 0; opened < 2; opened += 1) {
      const error = (all: Result) => errors.push(...all);
      client.subscribe({ query: INBOX }, { next() {}, error, complete() {} });
    }
    await expect.poll(() => errors).toMatchObject([{ extensions: { code: 'rate_limit_exceeded' } }]);
  });

  test('over HTTP', async () => {
    const { body } = await service.request('POST', '/graphql', {
      token: service.project.userJwt({ user_external_id: 'a' }),
      body: { query: INBOX },
    });
    expect(body.errors[0].message).toBe('Subscriptions are not supported');
  });
});

/** Opens a connection that subscribes to nothing. Resolves when it is authenticated or closed. */
async function idle(headers: object, address = service.address) {
  const socket = new WebSocket(`${address.replace('http', 'ws')}/graphql`, ['graphql-transport-ws']);
  onTestFinished(() => socket.terminate());
  const opened = { socket, isOpen: true, code: 0 };
  const closed = once(socket, 'close').then(([code]) => {
    Object.assign(opened, { isOpen: false, code });
  });
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'connection_init', payload: headers }));
  await Promise.race([once(socket, 'message'), closed]);
  return opened;
}

test('a user has at most 100 connections, also without a subscription', async () => {
  const opened: Awaited<ReturnType<typeof idle>>[] = [];
  const open = () => opened.filter(({ isOpen }) => isOpen).length;
  while (opened.length < 101) opened.push(await idle(bearer('many')));
  await expect.poll(open).toBe(100);
  expect(opened[0]).toMatchObject({ isOpen: false, code: 4400 });
  opened[1]?.socket.close();
  await expect.poll(open).toBe(99);
  opened.push(await idle(bearer('many')));
  expect(open()).toBe(100);
});

test('the connections of a user are counted, beside the requests', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_V1_READS: '2' } });
  onTestFinished(() => limited.stop());
  const open = (id: string) => {
    const token = limited.project.userJwt({ user_external_id: id });
    return idle({ authorization: `Bearer ${token}` }, limited.address);
  };
  for (const id of ['a', 'a', 'b']) expect((await open(id)).isOpen).toBe(true);
  expect(await open('a')).toMatchObject({ isOpen: false, code: 4403 });
});

test('a client that does not speak the protocol is disconnected', async () => {
  const url = `${service.address.replace('http', 'ws')}/graphql`;
  const closing = (protocol: string[], ...messages: string[]) => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const socket = new WebSocket(url, protocol);
    socket.on('open', () => {
      for (const message of messages) socket.send(message);
    });
    socket.on('close', (code) => resolve(code));
    return promise;
  };
  const init = JSON.stringify({ type: 'connection_init', payload: bearer('raw') });
  const protocol = ['graphql-transport-ws'];
  expect(await closing([])).toBe(4406);
  expect(await closing(protocol, 'x')).toBe(4400);
  expect(await closing(protocol, init, init)).toBe(4429);
  expect(
    await closing(protocol, JSON.stringify({ type: 'subscribe', id: '1', payload: { query: INBOX } })),
  ).toBe(4401);
  expect(await closing(protocol, 'x'.repeat(65 * 1024))).toBe(1009);
  expect(await closing(protocol)).toBe(4408);
});

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  type InboxThemeEvent,
  type NotificationEvent,
  ProjectClient,
  type ResyncEvent,
  type StreamOptions,
  UserClient,
} from '../../../sdk/src/index.ts';
import { StreamParser } from '../../../sdk/src/sse.ts';
import { startProxy, type TestProxy } from '../support/proxy.ts';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;
let proxy: TestProxy;
let belfry: ProjectClient;

beforeAll(async () => {
  service = await startTestService();
  proxy = await startProxy(service.address);
  belfry = new ProjectClient({ baseUrl: `${service.address}/v2`, token: service.project.jwt });
});
afterAll(async () => {
  await proxy.close();
  await service.stop();
});
beforeEach(() => {
  proxy.requests.length = 0;
  proxy.decide = () => 'pass';
});

/** The start of a stream from a stand-in, with a short time to reconnect. */
const SSE = { 'content-type': 'text/event-stream; charset=utf-8' };

const userOf = (externalId: string) =>
  new UserClient({
    baseUrl: `${proxy.url}/v2`,
    token: service.project.userJwt({ user_external_id: externalId }),
  });
const send = (externalId: string, title: string) =>
  belfry.broadcasts.create({ title, recipients: [{ external_id: externalId }] });

/** Listens through the proxy, and collects the events until the loop ends. */
function listen(externalId: string, options: StreamOptions = {}) {
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const events: (NotificationEvent | InboxThemeEvent | ResyncEvent)[] = [];
  const losses: unknown[] = [];
  let opened = 0;
  const stream = userOf(externalId).notifications.stream({
    signal: controller.signal,
    onOpen: () => {
      opened += 1;
    },
    onDisconnect: ({ error }) => losses.push(error),
    ...options,
  });
  const ended = (async () => {
    for await (const event of stream) events.push(event);
  })();
  ended.catch(() => {}); // checked by the tests that expect it
  const titles = () =>
    events.flatMap((event) => (event.name === 'notifications/new' ? event.data.notification?.title : []));
  return { stream, events, losses, ended, titles, end: () => controller.abort(), opened: () => opened };
}

// Events are visible after the oldest open transaction of the database server, which other tests share.
const soon = { interval: 10 };

describe('the stream of notifications', () => {
  test('has the events with their notification, and ends with the signal', async () => {
    const externalId = randomUUID();
    const listener = listen(externalId);
    await expect.poll(listener.opened, soon).toBe(1);
    await send(externalId, 'first');
    await expect.poll(listener.titles, soon).toEqual(['first']);
    const [event] = listener.events;
    if (event?.name !== 'notifications/new') throw new Error('a notification was expected');
    await userOf(externalId).notifications.read(event.data.id);
    await expect.poll(() => listener.events.at(-1)?.name, soon).toBe('notifications/read');
    listener.end();
    await listener.ended;
  });

  test('after a broken connection, has what was missed, in order and once', async () => {
    const externalId = randomUUID();
    const listener = listen(externalId);
    await expect.poll(listener.opened, soon).toBe(1);
    await send(externalId, 'before');
    await expect.poll(listener.titles, soon).toEqual(['before']);
    proxy.decide = () => ({ status: 503 }); // no request succeeds meanwhile
    proxy.cut();
    await expect.poll(() => listener.losses.length, soon).toBeGreaterThan(0);
    await send(externalId, 'while away 1');
    await send(externalId, 'while away 2');
    proxy.decide = () => 'pass';
    await expect.poll(listener.titles, soon).toEqual(['before', 'while away 1', 'while away 2']);
    await send(externalId, 'after');
    await expect.poll(listener.titles, soon).toEqual(['before', 'while away 1', 'while away 2', 'after']);
    expect(listener.events.some(({ name }) => name === 'resync')).toBe(false);
    expect(listener.losses[0]).toMatchObject({ code: 'network_error' });
  });

  test('another stream resumes where an earlier one ended', async () => {
    const externalId = randomUUID();
    const first = listen(externalId);
    await expect.poll(first.opened, soon).toBe(1);
    await send(externalId, 'one');
    await expect.poll(first.titles, soon).toEqual(['one']);
    first.end();
    await first.ended;
    await send(externalId, 'two');
    const second = listen(externalId, { lastEventId: first.stream.lastEventId });
    await expect.poll(second.titles, soon).toEqual(['two']);
  });

  test('break closes the connection', async () => {
    const externalId = randomUUID();
    await expect.poll(() => proxy.open, soon).toBe(0);
    const stream = userOf(externalId).notifications.stream({ onOpen: () => void send(externalId, 'x') });
    for await (const event of stream) {
      expect(event.name).toBe('notifications/new');
      expect(proxy.open).toBe(1);
      break;
    }
    await expect.poll(() => proxy.open, soon).toBe(0);
  });

  test('a gap that is too large is an event of its own', async () => {
    const listener = listen(randomUUID(), { lastEventId: 'nonsense' });
    await expect.poll(() => listener.events.map(({ name }) => name), soon).toEqual(['resync']);
  });

  test('an invalid token ends it with the error', async () => {
    const user = new UserClient({ baseUrl: `${service.address}/v2`, token: 'nonsense' });
    await expect(user.notifications.stream()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      status: 401,
      code: 'unparsable_jwt_token',
    });
  });

  test('waits after a 429', async () => {
    proxy.decide = (_request, number) =>
      number === 1 ? { status: 429, headers: { 'retry-after': '1' } } : 'pass';
    const startedAt = performance.now();
    const listener = listen(randomUUID());
    await expect.poll(listener.opened, soon).toBe(1);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000);
    expect(listener.losses).toMatchObject([{ status: 429, retryAfterMs: 1000 }]);
  });

  test('waits for a day at most', async () => {
    proxy.decide = () => ({ status: 503, headers: { 'retry-after': '9999999' } });
    const listener = listen(randomUUID());
    await expect.poll(() => listener.losses, soon).toMatchObject([{ retryAfterMs: 86_400_000 }]);
  });

  test('fails after maxRetries failures in a row', async () => {
    proxy.decide = () => ({ status: 502, headers: { 'retry-after': '0' } });
    const listener = listen(randomUUID(), { maxRetries: 3 });
    await expect(listener.ended).rejects.toMatchObject({ status: 502 });
    expect(proxy.requests).toHaveLength(4);
  });

  test('a silent connection is closed, and a new one resumes at the same place', async () => {
    proxy.decide = (_request, number) =>
      number === 1
        ? { status: 200, headers: SSE, body: 'retry: 1\nid: here\n\ndata: {"name":"resync"}\n\n' }
        : 'hang';
    const listener = listen(randomUUID(), { timeoutMs: 1_000, idleTimeoutMs: 1_000 });
    await expect.poll(() => proxy.requests.length, soon).toBeGreaterThan(2);
    expect(proxy.requests[1]?.headers['last-event-id']).toBe('here');
    expect(listener.events).toEqual([{ name: 'resync' }]);
    expect(listener.losses.at(-1)).toMatchObject({ code: 'timeout' });
  });

  test('an open stream without events or heartbeats is a timeout', async () => {
    const listener = listen(randomUUID(), { idleTimeoutMs: 1_000, maxRetries: 0 });
    await expect(listener.ended).rejects.toMatchObject({ code: 'timeout' });
    expect(listener.opened()).toBe(1);
  });

  test('a response that is not an event stream, or not JSON, is an error of its own', async () => {
    proxy.decide = () => ({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' });
    await expect(listen(randomUUID()).ended).rejects.toMatchObject({ code: 'invalid_response' });
    proxy.decide = () => ({ status: 200, headers: SSE, body: 'data: {\n\n' });
    await expect(listen(randomUUID()).ended).rejects.toMatchObject({ code: 'invalid_response' });
  });
});

describe('the stream of events', () => {
  test('has the events of the project, also those during a broken connection', async () => {
    const controller = new AbortController();
    onTestFinished(() => controller.abort());
    const { jwt: token } = await service.createProject('events');
    const own = new ProjectClient({ baseUrl: `${service.address}/v2`, token });
    const shaky = new ProjectClient({ baseUrl: `${proxy.url}/v2`, token });
    const seen: string[] = [];
    let opened = 0;
    const onOpen = () => {
      opened += 1;
    };
    const stream = shaky.events.stream({ type: 'user.created' }, { signal: controller.signal, onOpen });
    const ended = (async () => {
      for await (const event of stream) seen.push('type' in event ? event.type : event.name);
    })();
    await expect.poll(() => opened, soon).toBe(1);
    await own.users.save({ external_id: randomUUID() });
    await expect.poll(() => seen, soon).toEqual(['user.created']);
    proxy.cut();
    await own.users.save({ external_id: randomUUID() });
    await expect.poll(() => seen, soon).toEqual(['user.created', 'user.created']);
    expect(proxy.requests[0]?.url).toBe('/v2/events/stream?type=user.created');
    controller.abort();
    await ended;
  });
});

describe('reading Server-Sent Events', () => {
  // The cases of the HTML standard, 9.2.6, with their results.
  const stream =
    '\uFEFF: a comment\r\nretry: 250\r\nid: 1\r\ndata: first\r\ndata: second\r\n\r\n' +
    'event: named\ndata:no space\n\n' +
    'id\rdata\r\r' +
    'id: only\n\n' +
    'nonsense: x\n\n\n' +
    'retry: soon\ndata:  two spaces\nid: a\0b\n\n' +
    'data: never finished';
  const blocks = [
    { event: 'message', data: 'first\nsecond', lastEventId: '1' },
    { event: 'named', data: 'no space', lastEventId: '1' },
    { event: 'message', data: '', lastEventId: '' },
    { event: 'message', data: undefined, lastEventId: 'only' },
    { event: 'message', data: ' two spaces', lastEventId: 'only' },
  ];

  test('is independent of the boundaries of chunks', () => {
    for (let first = 0; first <= stream.length; first += 1) {
      for (const second of [first, first + 1, stream.length]) {
        const parser = new StreamParser('');
        const pieces = [stream.slice(0, first), stream.slice(first, second), stream.slice(second)];
        expect(pieces.flatMap((piece) => parser.push(piece))).toEqual(blocks);
        expect(parser.retryMs).toBe(250);
      }
    }
  });
});

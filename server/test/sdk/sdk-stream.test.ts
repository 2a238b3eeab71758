import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
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

/** The head of a stream that a stand-in answers: it wants to be asked again soon. */
const SSE = { 'content-type': 'text/event-stream; charset=utf-8' };

const userOf = (externalId: string) =>
  new UserClient({
    baseUrl: `${proxy.url}/v2`,
    token: service.project.userJwt({ user_external_id: externalId }),
  });
const send = (externalId: string, title: string) =>
  belfry.broadcasts.create({ title, recipients: [{ external_id: externalId }] });

/** Listens by way of the proxy, and collects what the loop is given until it ends. */
function listen(externalId: string, options: StreamOptions = {}) {
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const events: (NotificationEvent | ResyncEvent)[] = [];
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
  ended.catch(() => {}); // looked at by those tests that expect it
  const titles = () =>
    events.flatMap((event) => (event.name === 'notifications/new' ? event.data.notification?.title : []));
  return { stream, events, losses, ended, titles, end: () => controller.abort(), opened: () => opened };
}

// Events are read behind the oldest open transaction of the whole database server, which other tests share
// and may fill tables in.
const soon = { timeout: 60_000, interval: 10 };
vi.setConfig({ testTimeout: 90_000 });

describe('the stream of notifications', () => {
  test('tells what happens, with the notification itself, and ends with the signal', async () => {
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

  test('who is cut off is told what was missed meanwhile, in order and once', async () => {
    const externalId = randomUUID();
    const listener = listen(externalId);
    await expect.poll(listener.opened, soon).toBe(1);
    await send(externalId, 'before');
    await expect.poll(listener.titles, soon).toEqual(['before']);
    proxy.decide = () => ({ status: 503 }); // nobody gets through while it happens
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

  test('another stream goes on where an earlier one was left', async () => {
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

  test('too much missed is an event of its own', async () => {
    const listener = listen(randomUUID(), { lastEventId: 'nonsense' });
    await expect.poll(() => listener.events.map(({ name }) => name), soon).toEqual(['resync']);
  });

  test('a token that is no good ends it with the error', async () => {
    const user = new UserClient({ baseUrl: `${service.address}/v2`, token: 'nonsense' });
    await expect(user.notifications.stream()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      status: 401,
      code: 'unparsable_jwt_token',
    });
  });

  test('429 is waited out', async () => {
    proxy.decide = (_request, number) =>
      number === 1 ? { status: 429, headers: { 'retry-after': '1' } } : 'pass';
    const startedAt = performance.now();
    const listener = listen(randomUUID());
    await expect.poll(listener.opened, soon).toBe(1);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1000);
    expect(listener.losses).toMatchObject([{ status: 429, retryAfterMs: 1000 }]);
  });

  test('it gives up after maxRetries failures in a row', async () => {
    proxy.decide = () => ({ status: 502, headers: { 'retry-after': '0' } });
    const listener = listen(randomUUID(), { maxRetries: 3 });
    await expect(listener.ended).rejects.toMatchObject({ status: 502 });
    expect(proxy.requests).toHaveLength(4);
  });

  test('a connection without a sign of life is given up, and made again from the same place', async () => {
    proxy.decide = (_request, number) =>
      number === 1
        ? { status: 200, headers: SSE, body: 'retry: 1\nid: here\n\ndata: {"name":"resync"}\n\n' }
        : 'hang';
    const listener = listen(randomUUID(), { timeoutMs: 100, idleTimeoutMs: 100 });
    await expect.poll(() => proxy.requests.length, soon).toBeGreaterThan(2);
    expect(proxy.requests[1]?.headers['last-event-id']).toBe('here');
    expect(listener.events).toEqual([{ name: 'resync' }]);
    expect(listener.losses.at(-1)).toMatchObject({ code: 'timeout' });
  });

  test('a stream that stands but says nothing is a timeout', async () => {
    const listener = listen(randomUUID(), { idleTimeoutMs: 200, maxRetries: 0 });
    await expect(listener.ended).rejects.toMatchObject({ code: 'timeout' });
    expect(listener.opened()).toBe(1);
  });

  test('what is no event stream, or no JSON, is told as such', async () => {
    proxy.decide = () => ({ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' });
    await expect(listen(randomUUID()).ended).rejects.toMatchObject({ code: 'invalid_response' });
    proxy.decide = () => ({ status: 200, headers: SSE, body: 'data: {\n\n' });
    await expect(listen(randomUUID()).ended).rejects.toMatchObject({ code: 'invalid_response' });
  });
});

describe('the stream of events', () => {
  test('tells what happens in the project, also while it was cut off', async () => {
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
  // The cases of the HTML standard, 9.2.6, with what it says of each.
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

  test('gives the same wherever the pieces end', () => {
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

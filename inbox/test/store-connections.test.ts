import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startProxy, type TestProxy } from '../../server/test/support/proxy.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
} from '../../server/test/support/service.ts';
import { createInbox } from '../src/store/index.ts';
import { backoffMs } from '../src/store/live.ts';
import { offlineBrowser, show, storesOf } from './support/stores.ts';

// The store connects by whatever passes the network, and follows the changes without gaps and repeats.

let service: TestService;
let project: TestProject;
let proxy: TestProxy;
const { opened, newUser, open, send } = storesOf({ service: () => service, processed });

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
  proxy = await startProxy(service.address);
});
afterAll(async () => {
  for (const inbox of opened) inbox.close();
  await proxy?.close();
  await service?.stop();
});

test('an inbox opens with one request, that of its stream', async () => {
  const user = newUser();
  for (const title of ['a', 'b', 'c']) await send(user, { title });
  for (const [transport, requests] of [
    ['websocket', []],
    ['sse', ['/v2/notifications/stream?snapshot=2']],
  ] as const) {
    const fetched: string[] = [];
    const inbox = createInbox({
      baseUrl: `${service.address}/v2`,
      token: project.userJwt({ user_external_id: user }),
      transports: [transport],
      pageSize: 2,
      async fetch(input, init) {
        const { pathname, search } = new URL(String(input));
        fetched.push(pathname + search);
        return inParts(await fetch(input, init));
      },
    });
    opened.push(inbox);
    inbox.subscribe(() => {});
    const { list, titles } = show(inbox);
    await inbox.loadPreferences();
    await expect.poll(titles).toEqual(['c', 'b']);
    expect(list.getSnapshot()).toMatchObject({ status: 'ready', hasMore: true });
    expect(inbox.getSnapshot()).toMatchObject({
      counts: { unread: 3, unseen: 3 },
      appearance: { images: null, locale: null, theme: null },
      preferences: { categories: [], time_zone: null },
    });
    expect(fetched).toEqual(requests);
    await list.loadMore();
    expect(titles()).toEqual(['c', 'b', 'a']);
  }
});

for (const [transport, label] of [
  ['sse', 'Server-Sent Events'],
  ['polling', 'polling'],
] as const)
  test(`an inbox follows by ${label} if it is set to`, async () => {
    const user = newUser();
    const inbox = await open(user, { transports: [transport] });
    expect(inbox.getSnapshot().transport).toBe(transport);
    const { titles } = show(inbox);
    await send(user, { title: 'there' });
    if (transport === 'polling') await inbox.refresh();
    await expect.poll(titles).toEqual(['there']);
  });

test('a lost stream continues where it ended, without gaps and repeats', async () => {
  const user = newUser();
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  const { titles } = show(inbox);
  const arrived: string[] = [];
  inbox.onNew(({ title }) => arrived.push(title));
  await send(user, { title: 'before' });
  await expect.poll(titles).toEqual(['before']);
  proxy.decide = () => ({ status: 503 });
  proxy.cut();
  await expect.poll(() => inbox.getSnapshot().connection).toBe('connecting');
  for (const title of ['1', '2', '3']) await send(user, { title });
  proxy.decide = () => 'pass';
  await expect.poll(titles).toEqual(['3', '2', '1', 'before']);
  expect(arrived).toEqual(['before', '1', '2', '3']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 4, unseen: 4 });
});

test('what could not be fetched is fetched after the next connection, although that resumes', async () => {
  const user = newUser();
  for (const title of ['a', 'b', 'c']) await send(user, { title });
  const other = await open(user);
  const there = show(other);
  await expect.poll(there.titles).toEqual(['c', 'b', 'a']);
  const [newest] = there.list.getSnapshot().notifications;
  await other.archive(newest?.id ?? '');
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'], pageSize: 1 });
  const [all, read] = [show(inbox), show(inbox, { status: 'read' })];
  await expect.poll(all.titles).toEqual(['b']);
  await expect.poll(() => read.list.getSnapshot().status).toBe('ready');
  const failed: string[] = [];
  proxy.decide = ({ url = '' }) => {
    if (url.includes('/stream')) return 'pass';
    failed.push(url);
    return { status: 400 };
  };
  await other.markAllRead();
  await other.unarchive(newest?.id ?? '');
  await other.markUnread(newest?.id ?? '');
  await expect.poll(() => failed.join()).toMatch(/status=read/);
  await expect.poll(() => failed.join()).toMatch(/count/);
  await expect.poll(() => failed.join()).toContain(newest?.id);
  expect([all.titles(), read.list.getSnapshot().hasMore]).toEqual([['b'], false]);
  proxy.decide = () => 'pass';
  proxy.cut();
  await expect.poll(all.titles).toEqual(['c']);
  await expect.poll(() => read.list.getSnapshot().hasMore).toBe(true);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 0 });
});

test('what the rate limit refuses is reported at once, and fetched when the server allows it', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  const errors: Error[] = [];
  inbox.onError((error) => errors.push(error));
  const call = project.as(user);
  let refused = 0;
  proxy.decide = ({ method }) => {
    if (method !== 'GET') return 'pass';
    refused += 1;
    return { status: 429, headers: { 'retry-after': '3' } };
  };
  const { list, titles } = show(inbox, { status: 'read' });
  await expect.poll(() => list.getSnapshot()).toMatchObject({ status: 'error', error: { status: 429 } });
  const [{ id }] = (await call('GET', '/notifications')).body.data;
  await call('POST', `/notifications/${id}/read`);
  await expect.poll(() => refused).toBeGreaterThan(1); // also the counts
  expect(errors.length).toBeGreaterThan(0);
  proxy.decide = () => 'pass';
  await expect.poll(titles).toEqual(['a']);
  expect(list.getSnapshot()).toMatchObject({ status: 'ready', error: undefined });
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
});

test.each([
  // A proxy that says how long its maintenance takes, beyond the longest timer.
  [{ status: 503, headers: { 'retry-after': '3000000' } }, 1_000, 8],
  [{ status: 503, headers: { 'retry-after': '0.1' } }, 5_000, 100],
])('what a server refuses for long is requested less and less often: %j', async (fate, forMs, most) => {
  const user = newUser();
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  let refused = 0;
  proxy.decide = ({ url }) => {
    if (url?.includes('/stream')) return 'pass';
    refused += 1;
    return fate;
  };
  await inbox.refresh().catch(() => {});
  await setTimeout(forMs);
  inbox.close();
  proxy.decide = () => 'pass';
  expect(refused).toBeLessThan(most);
});

test('behind proxies, an inbox goes from one transport to the next without gaps and repeats', async () => {
  const user = newUser();
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2` }); // which passes no WebSockets
  expect(inbox.getSnapshot().transport).toBe('sse');
  const { titles } = show(inbox);
  const arrived: string[] = [];
  inbox.onNew(({ title }) => arrived.push(title));
  await send(user, { title: 'live' });
  await expect.poll(titles).toEqual(['live']);
  // A response that a proxy collects never ends.
  proxy.decide = ({ url }) => (url?.includes('/stream') ? 'lose the response' : 'pass');
  proxy.cut();
  for (const title of ['1', '2']) await send(user, { title });
  await expect.poll(() => inbox.getSnapshot().transport).toBe('polling');
  await expect.poll(titles).toEqual(['2', '1', 'live']);
  expect(arrived).toEqual(['live', '1', '2']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 3, unseen: 3 });
  proxy.decide = () => 'pass';
});

test('after a captive portal, an inbox connects by the best transport', async () => {
  const user = newUser();
  const login = { status: 200, headers: { 'content-type': 'text/html' }, body: '<p>Welcome on board' };
  proxy.decide = () => login;
  onTestFinished(() => {
    proxy.decide = () => 'pass';
  });
  const inbox = createInbox({
    baseUrl: `${proxy.url}/v2`,
    token: project.userJwt({ user_external_id: user }),
  });
  opened.push(inbox);
  const failed = new Promise((resolve) => inbox.onError(resolve));
  const { list } = show(inbox);
  await expect(failed).resolves.toMatchObject({ code: 'invalid_response' });
  await expect.poll(() => list.getSnapshot().status).toBe('error');
  proxy.decide = () => 'pass';
  await expect.poll(() => inbox.getSnapshot()).toMatchObject({ connection: 'live', transport: 'sse' });
  await expect.poll(() => list.getSnapshot().status).toBe('ready');
});

test('events that only a newer server sends are ignored', async () => {
  const user = newUser();
  const later = ['{"name":"later/kind"}', '{"name":"notifications/later","data":{"id":"1"}}', '7'];
  let streams = 0;
  const inbox = await open(user, {
    transports: ['sse'],
    async fetch(input, init) {
      const response = await fetch(input, init);
      if (!String(input).includes('/stream')) return response;
      streams += 1;
      let begun = false;
      const newer = new TransformStream<Uint8Array, Uint8Array>({
        transform(part, controller) {
          controller.enqueue(part);
          if (begun) return;
          begun = true; // with a whole block
          for (const data of later)
            controller.enqueue(new TextEncoder().encode(`id: 1\nevent: later\ndata: ${data}\n\n`));
        },
      });
      return new Response(response.body?.pipeThrough(newer), response);
    },
  });
  const { titles } = show(inbox);
  await send(user, { title: 'known' });
  await expect.poll(titles).toEqual(['known']);
  expect(streams).toBe(1);
});

test('a wrong token is reported, and a new one connects by the best transport', async () => {
  const user = newUser();
  let token = 'wrong';
  const inbox = createInbox({ baseUrl: `${service.address}/v2`, token: () => token });
  opened.push(inbox);
  inbox.subscribe(() => {});
  await expect.poll(() => inbox.getSnapshot().connection).toBe('unauthorized');
  token = `${project.userJwt({ user_external_id: user })}\n`; // as from a file
  await expect.poll(() => inbox.getSnapshot()).toMatchObject({ connection: 'live', transport: 'websocket' });
});

test('an inbox is live although each token takes longer than a connection', async () => {
  const user = newUser();
  const connected = (['websocket', 'sse'] as const).map(async (transport) => {
    const inbox = createInbox({
      baseUrl: `${service.address}/v2`,
      transports: [transport],
      async token() {
        await setTimeout(1_000);
        return project.userJwt({ user_external_id: user });
      },
    });
    opened.push(inbox);
    inbox.subscribe(() => {});
    await expect.poll(() => inbox.getSnapshot().connection).toBe('live');
  });
  await Promise.all(connected);
});

test('a page that becomes visible does not request another token while one is on its way', async () => {
  const user = newUser();
  const page = new EventTarget();
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  let requested = 0;
  const inbox = createInbox({
    baseUrl: `${service.address}/v2`,
    async token() {
      requested += 1;
      await setTimeout(300);
      return project.userJwt({ user_external_id: user });
    },
  });
  opened.push(inbox);
  inbox.subscribe(() => {});
  vi.unstubAllGlobals();
  page.dispatchEvent(new Event('pageshow'));
  await expect.poll(() => inbox.getSnapshot().connection).toBe('live');
  expect(requested).toBe(1);
});

test('a token that cannot be one is reported', async () => {
  for (const token of ['a b', '"quoted"', 'line\nbreak', 'ключ']) {
    const inbox = createInbox({ baseUrl: `${service.address}/v2`, token });
    opened.push(inbox);
    inbox.subscribe(() => {});
    await expect.poll(() => inbox.getSnapshot().connection).toBe('unauthorized');
  }
});

test('attempts to connect are further and further apart, at most 30 s, and not all at the same time', () => {
  for (const [failures, longest] of [
    [0, 1_000],
    [3, 8_000],
    [5, 30_000],
    [10_000, 30_000],
  ] as const) {
    const waits = Array.from({ length: 500 }, () => backoffMs(failures));
    expect(Math.max(...waits)).toBeLessThanOrEqual(longest);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(longest / 10);
    expect(Math.max(...waits) - Math.min(...waits)).toBeGreaterThan(longest / 2);
  }
});

/** A response as a network passes it on: in parts that begin and end anywhere. */
function inParts(response: Response): Response {
  const parts = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (let at = 0; at < chunk.length; at += 100) controller.enqueue(chunk.subarray(at, at + 100));
    },
  });
  return new Response(response.body?.pipeThrough(parts) ?? null, response);
}

test.each([['websocket'], ['sse'], ['polling']] as const)(
  'an inbox by %s never mixes notifications of two users, and sends no action of one as the other',
  async (transport) => {
    const [user, other] = [newUser(), newUser()];
    await send(user, { title: 'own' });
    await send(other, { title: 'of another user' });
    let current = user;
    const browser = offlineBrowser();
    const inbox = await open(user, {
      fetch: browser.fetch,
      token: async () => project.userJwt({ user_external_id: current }),
      transports: [transport],
    });
    const { list, titles } = show(inbox);
    await expect.poll(titles).toEqual(['own']);
    current = other;
    await expect(inbox.archive(list.getSnapshot().notifications[0]?.id ?? '')).rejects.toThrow(
      'another user',
    );
    await expect(inbox.savePreferences({ categories: [] })).rejects.toThrow('another user');
    browser.set(false);
    await expect.poll(() => inbox.getSnapshot().connection).toBe('offline');
    browser.set(true);
    await expect.poll(() => inbox.getSnapshot().connection).toBe('unauthorized');
    expect(titles()).toEqual(['own']);
    current = user;
    await list.refresh();
    expect(titles()).toEqual(['own']);
    inbox.close();
  },
);

test.concurrent.for(['websocket', 'sse', 'polling'] as const)(
  'a deleted user stays deleted although an inbox by %s is open',
  { timeout: 60_000 },
  async (transport, { expect }) => {
    const openRecording = async (user: string, through: typeof transport) => {
      const requests: string[] = [];
      const inbox = await open(user, {
        transports: [through],
        fetch(input, init) {
          requests.push(`${init?.method} ${String(input)}`);
          return fetch(input, init);
        },
      });
      const { list } = show(inbox);
      await expect.poll(() => list.getSnapshot().status).toBe('ready');
      // From now on it resumes, which does not restore a user.
      await expect.poll(() => inbox.getSnapshot().connection).toMatch(/^(live|polling)$/);
      return { inbox, requests };
    };
    // Fetches its counts a while after all are read, as the other one would.
    const readAll = async (user: string) => {
      await send(user);
      await project.as(user)('POST', '/notifications/read');
    };
    const [user, living] = [newUser(), newUser()];
    const { inbox, requests } = await openRecording(user, transport);
    const other = await openRecording(living, 'websocket');
    const { body } = await project.call('PUT', '/users', { external_id: user });
    await readAll(user);
    expect((await project.call('DELETE', `/users/${body.id}`)).status).toBe(204);
    await expect.poll(() => inbox.getSnapshot().connection, { timeout: 25_000 }).toBe('unauthorized');
    const [sent, sentByOther] = [requests.length, other.requests.length];
    await readAll(living);
    await expect.poll(() => other.requests.length).toBeGreaterThan(sentByOther);
    expect(requests.slice(sent)).toEqual([]);
    expect((await project.call('GET', `/users/${body.id}`)).status).toBe(404);
    inbox.close();
    other.inbox.close();
  },
);

// Beside those that wait as long.
test.concurrent('an inbox requests another token if one does not come', async ({ expect }) => {
  const user = newUser();
  const tokens: (string | Promise<string>)[] = [new Promise(() => {})];
  const inbox = createInbox({
    baseUrl: `${service.address}/v2`,
    token: () => tokens.shift() ?? project.userJwt({ user_external_id: user }),
  });
  opened.push(inbox);
  inbox.subscribe(() => {});
  await expect.poll(() => inbox.getSnapshot().connection).toBe('live');
});

test.each([['websocket'], ['sse']] as const)(
  'an inbox with %s that was offline does not restore a user deleted meanwhile',
  async (transport) => {
    const user = newUser();
    const browser = offlineBrowser();
    const inbox = await open(user, { transports: [transport], fetch: browser.fetch });
    const { body } = await project.call('PUT', '/users', { external_id: user });
    browser.set(false);
    await expect.poll(() => inbox.getSnapshot().connection).toBe('offline');
    expect((await project.call('DELETE', `/users/${body.id}`)).status).toBe(204);
    browser.set(true);
    await expect.poll(() => inbox.getSnapshot().connection).toBe('unauthorized');
    expect((await project.call('GET', `/users/${body.id}`)).status).toBe(404);
    inbox.close();
  },
);

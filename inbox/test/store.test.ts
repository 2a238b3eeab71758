import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startProxy, type TestProxy } from '../../server/test/support/proxy.ts';
import { rowsOf } from '../../server/test/support/rows.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../../server/test/support/service.ts';
import { createInbox, type Inbox, type InboxOptions, type ListSnapshot } from '../src/store/index.ts';
import { backoffMs } from '../src/store/live.ts';

// The store of an inbox: lists and counts follow the server, and the actions of the user are shown at once.

let service: TestService;
let project: TestProject;
let proxy: TestProxy;
const opened: Inbox[] = [];

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

let users = 0;
const newUser = () => {
  users += 1;
  return `store-${users}`;
};

/** Opens the inbox of a user, connected. */
async function open(user: string, options: Partial<InboxOptions> = {}): Promise<Inbox> {
  const inbox = createInbox({
    baseUrl: `${service.address}/v2`,
    token: () => project.userJwt({ user_external_id: user }),
    ...options,
  });
  opened.push(inbox);
  inbox.subscribe(() => {});
  await until(
    () => inbox.getSnapshot(),
    ({ connection, counts }) => ['live', 'polling'].includes(connection) && counts.unseen !== undefined,
  );
  return inbox;
}

/** Sends a broadcast, and waits until it is in the inbox: the next one is above it. */
async function send(user: string, broadcast: object = {}): Promise<void> {
  const given = { title: 'Hello', recipients: [{ external_id: user }], ...broadcast };
  const { status, body } = await project.call('POST', '/broadcasts', given);
  expect(status).toBe(201);
  await processed(project.call, body.id);
}

const titlesOf = ({ notifications }: ListSnapshot) => notifications.map(({ title }) => title);

/** Subscribes to a list, and returns what reads its titles. */
function show(inbox: Inbox, filter?: Parameters<Inbox['list']>[0]) {
  const list = inbox.list(filter);
  list.subscribe(() => {});
  return { list, titles: () => titlesOf(list.getSnapshot()) };
}

test('a new notification arrives in all lists that it belongs to, and in the counts', async () => {
  const user = newUser();
  const inbox = await open(user);
  const [all, unread, orders] = [
    show(inbox),
    show(inbox, { status: 'unread' }),
    show(inbox, { category: 'orders' }),
  ];
  const arrived: string[] = [];
  inbox.onNew(({ title }) => arrived.push(title));
  await expect.poll(() => all.list.getSnapshot().status).toBe('ready');
  await expect.poll(() => orders.list.getSnapshot().status).toBe('ready');
  await expect.poll(() => unread.list.getSnapshot().status).toBe('ready');
  await send(user, { title: 'First', category: 'orders' });
  await send(user, { title: 'Second', category: 'news' });
  await expect.poll(all.titles).toEqual(['Second', 'First']);
  expect(unread.titles()).toEqual(['Second', 'First']);
  expect(orders.titles()).toEqual(['First']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 2, unseen: 2 });
  expect(arrived).toEqual(['First', 'Second']);
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

/** A response as a network passes it on: in parts that begin and end anywhere. */
function inParts(response: Response): Response {
  const parts = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      for (let at = 0; at < chunk.length; at += 100) controller.enqueue(chunk.subarray(at, at + 100));
    },
  });
  return new Response(response.body?.pipeThrough(parts) ?? null, response);
}

test('without a stream, an inbox fetches what it shows', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  const inbox = await open(user, { transports: ['polling'] });
  const { titles } = show(inbox);
  await expect.poll(titles).toEqual(['a']);
  await inbox.loadPreferences();
  await expect.poll(() => inbox.getSnapshot().appearance).toBeDefined();
  expect(inbox.getSnapshot()).toMatchObject({
    counts: { unread: 1, unseen: 1 },
    preferences: { categories: [] },
  });
});

test('two inboxes of a user show the same after each action', async () => {
  const user = newUser();
  for (const title of ['a', 'b', 'c', 'd']) await send(user, { title });
  const [here, there] = await Promise.all([open(user), open(user)]);
  const [own, other] = [show(here), show(there)];
  const archive = show(there, { status: 'archived' });
  const unread = show(there, { status: 'unread' });
  await expect.poll(own.titles).toHaveLength(4);
  await expect.poll(unread.titles).toHaveLength(4);
  const id = (title: string) =>
    own.list.getSnapshot().notifications.find((one) => one.title === title)?.id ?? '';
  await here.markRead(id('a'));
  await expect.poll(unread.titles).toEqual(['d', 'c', 'b']);
  await here.markUnread(id('a'));
  await expect.poll(unread.titles).toEqual(['d', 'c', 'b', 'a']);
  await here.archive(id('b'));
  await expect.poll(archive.titles).toEqual(['b']);
  await expect.poll(other.titles).toEqual(['d', 'c', 'a']);
  await there.unarchive(archive.list.getSnapshot().notifications[0]?.id ?? '');
  await expect.poll(own.titles).toEqual(['d', 'c', 'b', 'a']);
  await here.remove(id('d'));
  await expect.poll(other.titles).toEqual(['c', 'b', 'a']);
  await here.markAllSeen();
  await expect.poll(() => there.getSnapshot().counts).toEqual({ unread: 3, unseen: 0 });
  await here.markAllRead();
  await expect.poll(() => there.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
  expect(unread.titles()).toEqual([]);
  await here.archiveAll();
  await expect.poll(other.titles).toEqual([]);
  await expect.poll(archive.titles).toEqual(['c', 'b', 'a']);
  expect(here.getSnapshot().counts).toEqual(there.getSnapshot().counts);
});

test('an action is shown before the server responds, and undone if the server rejects it', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['b', 'a']);
  const before = list.getSnapshot();
  proxy.decide = ({ method }) => (method === 'GET' ? 'pass' : { status: 400, body: '{}' });
  const [newest, oldest] = before.notifications;
  const errors: Error[] = [];
  inbox.onError((error) => errors.push(error));
  const archived = inbox.archive(newest?.id ?? '');
  expect(titles()).toEqual(['a']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
  await expect(archived).rejects.toThrow('400');
  expect(titles()).toEqual(['b', 'a']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 2, unseen: 2 });
  expect(inbox.getSnapshot().error?.message).toContain('400');
  const all = inbox.markAllRead();
  expect(list.getSnapshot().notifications.map(({ status }) => status)).toEqual(['read', 'read']);
  expect(inbox.getSnapshot().counts.unread).toBe(0);
  await expect(all).rejects.toThrow('400');
  expect(list.getSnapshot().notifications).toEqual(before.notifications);
  await expect(inbox.remove(oldest?.id ?? '')).rejects.toThrow('400');
  expect(titles()).toEqual(['b', 'a']);
  expect(errors).toHaveLength(3);
  inbox.dismissError();
  expect(inbox.getSnapshot().error).toBeUndefined();
  proxy.decide = () => 'pass';
});

test('a notification stays deleted if the response to its deletion is lost', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['b', 'a']);
  let attempts = 0;
  proxy.decide = ({ method }) => {
    if (method !== 'DELETE') return 'pass';
    attempts += 1;
    return attempts === 1 ? 'lose the response' : 'pass';
  };
  await inbox.remove(list.getSnapshot().notifications[0]?.id ?? '');
  expect(attempts).toBe(2); // the second one gets 404
  expect(titles()).toEqual(['a']);
  expect(inbox.getSnapshot()).toMatchObject({ counts: { unread: 1, unseen: 1 }, error: undefined });
  proxy.decide = () => 'pass';
});

test('a notification that another inbox deletes during an action stays deleted', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const inbox = await open(user, {
    async fetch(input, init) {
      if (init?.method === 'POST') await released;
      return fetch(input, init);
    },
  });
  const [all, archive] = [show(inbox), show(inbox, { status: 'archived' })];
  await expect.poll(all.titles).toEqual(['b', 'a']);
  await expect.poll(() => archive.list.getSnapshot().status).toBe('ready');
  const [newest] = all.list.getSnapshot().notifications;
  const archived = inbox.archive(newest?.id ?? '');
  expect(archive.titles()).toEqual(['b']);
  const other = await open(user);
  await other.remove(newest?.id ?? '');
  release();
  await expect(archived).rejects.toMatchObject({ status: 404 });
  expect([all.titles(), archive.titles()]).toEqual([['a'], []]);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
});

test('a request that is retried does not overtake a later one', async () => {
  const user = newUser();
  for (const title of ['a', 'b', 'c']) await send(user, { title });
  const inbox = await open(user, { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['c', 'b', 'a']);
  const [c = '', b = '', a = ''] = list.getSnapshot().notifications.map(({ id }) => id);
  const failOnce = (path: string, status: number) => {
    let isFirst = true;
    proxy.decide = ({ url = '' }) => {
      if (!isFirst || !url.includes(path)) return 'pass';
      isFirst = false;
      return { status };
    };
  };
  const statuses = (notifications: readonly { title: string; status: string }[]) =>
    notifications.map(({ title, status }) => `${title} ${status}`);
  const stored = async () => statuses((await project.as(user)('GET', '/notifications')).body.data);

  failOnce(`${a}/read`, 503);
  await Promise.all([inbox.markRead(a), inbox.markUnread(a)]);
  expect(await stored()).toEqual(['c unseen', 'b unseen', 'a unread']);
  failOnce(`${b}/unread`, 503);
  await Promise.all([inbox.markUnread(b), inbox.markAllRead()]);
  expect(await stored()).toEqual(['c read', 'b read', 'a read']);
  failOnce('/notifications/archive', 503);
  await Promise.all([inbox.archiveAll(), inbox.unarchive(c)]);
  expect(await stored()).toEqual(['c read']);
  await list.refresh();
  expect(titles()).toEqual(['c']);
  proxy.decide = () => 'pass';
});

test('a list that is fetched while an action is under way has what the action moves into it', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  let held = Promise.withResolvers<boolean>();
  const inbox = await open(user, {
    async fetch(input, init) {
      if (init?.method === 'GET') return fetch(input, init);
      return (await held.promise) ? fetch(input, init) : new Response('{}', { status: 400 });
    },
  });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['b', 'a']);
  const [newest, oldest] = list.getSnapshot().notifications;
  const archived = inbox.archive(newest?.id ?? '');
  const archive = show(inbox, { status: 'archived' });
  await expect.poll(archive.titles).toEqual(['b']);
  held.resolve(false);
  await expect(archived).rejects.toThrow('400');
  expect([titles(), archive.titles()]).toEqual([['b', 'a'], []]);

  held = Promise.withResolvers();
  const snoozed = inbox.snooze(oldest?.id ?? '', new Date(Date.now() + 60_000));
  const later = show(inbox, { status: 'snoozed' });
  await expect.poll(later.titles).toEqual(['a']);
  held.resolve(true);
  await snoozed;
  await later.list.refresh();
  expect([titles(), later.titles()]).toEqual([['b'], ['a']]);
});

test('an action leaves notifications that it does not change as they are', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  const inbox = await open(user);
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['b', 'a']);
  await inbox.markAllSeen();
  const seen = list.getSnapshot().notifications;
  await send(user, { title: 'c' });
  await expect.poll(titles).toEqual(['c', 'b', 'a']);
  await inbox.markAllSeen();
  const [c, ...others] = list.getSnapshot().notifications;
  expect(c?.status).toBe('unread');
  expect(others.map((one, index) => one === seen[index])).toEqual([true, true]);
});

test('a page keeps its place when it is released, and has what changed when it is loaded', async () => {
  const user = newUser();
  for (let index = 0; index < 12; index += 1) await send(user, { title: `${index}` });
  const inbox = await open(user, { pageSize: 5 });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toHaveLength(5);
  await list.loadMore();
  await list.loadMore();
  expect(titles()).toEqual(Array.from({ length: 12 }, (_, index) => `${11 - index}`));
  expect(list.getSnapshot()).toMatchObject({ hasMore: false, isLoadingMore: false });
  const [first, second] = list.getSnapshot().pages;
  const ids = list.getSnapshot().notifications.map(({ id }) => id);
  if (first === undefined || second === undefined) throw new Error('too few pages');
  list.release(first);
  list.release(second);
  expect(titles()).toEqual(['1', '0']);
  expect(list.getSnapshot().pages.map(({ size }) => size)).toEqual([5, 5, 2]);
  // The ends of the second page leave the list, in another window.
  const call = project.as(user);
  for (const index of [5, 9]) await call('POST', `/notifications/${ids[index]}/archive`);
  await send(user, { title: '12' });
  await expect.poll(() => list.getSnapshot().pages[0]?.size).toBe(6);
  for (const page of list.getSnapshot().pages) await list.load(page);
  expect(titles()).toEqual(['12', '11', '10', '9', '8', '7', '5', '4', '3', '1', '0']);
});

test('a list that nothing shows keeps one page, and needs one request when it is shown', async () => {
  const user = newUser();
  const sent = (to: number) => Array.from({ length: to }, (_, index) => `${to - 1 - index}`);
  for (let index = 0; index < 6; index += 1) await send(user, { title: `${index}` });
  const requested: string[] = [];
  const inbox = await open(user, {
    pageSize: 2,
    fetch(input, init) {
      requested.push(String(input));
      return fetch(input, init);
    },
  });
  const list = inbox.list();
  const titles = () => titlesOf(list.getSnapshot());
  const leave = list.subscribe(() => {});
  await expect.poll(titles).toHaveLength(2);
  await list.loadMore();
  const late = list.loadMore(); // of a list that is left meanwhile
  leave();
  await late;
  expect(list.getSnapshot()).toMatchObject({ notifications: { length: 2 }, hasMore: true });
  for (let index = 6; index < 14; index += 1) await send(user, { title: `${index}` });
  await expect.poll(() => titles()[0]).toBe('13');
  expect(titles().length).toBeLessThanOrEqual(4);
  requested.length = 0;
  list.subscribe(() => {});
  await expect.poll(titles).toEqual(['13', '12']);
  expect(requested).toHaveLength(1);
  while (list.getSnapshot().hasMore) await list.loadMore();
  expect(titles()).toEqual(sent(14));
});

test('a page that is released while the list is fetched stays released', async () => {
  const user = newUser();
  for (let index = 0; index < 6; index += 1) await send(user, { title: `${index}` });
  let isHeld = false;
  const requested: string[] = [];
  const { held, release, fetch } = holding(() => isHeld);
  const inbox = await open(user, {
    pageSize: 2,
    fetch(input, init) {
      requested.push(String(input));
      return fetch(input, init);
    },
  });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toHaveLength(2);
  await list.loadMore();
  await list.loadMore();
  const [first, second] = list.getSnapshot().pages;
  if (first === undefined || second === undefined) throw new Error('too few pages');
  requested.length = 0;
  isHeld = true;
  const refreshed = list.refresh();
  await held;
  list.release(first);
  list.release(second);
  release();
  await refreshed;
  expect(titles()).toEqual(['1', '0']);
  expect(requested).toHaveLength(2);
});

test('a page that is released keeps its size when a response lacks what changed in it', async () => {
  const user = newUser();
  for (let index = 0; index < 6; index += 1) await send(user, { title: `${index}` });
  let isHeld = false;
  const { held, release, fetch } = holding(({ pathname }) => isHeld && pathname.endsWith('/notifications'));
  const inbox = await open(user, { pageSize: 2, fetch });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toHaveLength(2);
  await list.loadMore();
  const { pages, notifications } = list.getSnapshot();
  isHeld = true;
  const loaded = list.loadMore();
  await held;
  for (const { id } of notifications) await inbox.markRead(id);
  for (const page of pages) list.release(page);
  release();
  await loaded;
  expect(titles()).toEqual(['1', '0']);
  expect(list.getSnapshot().pages.map(({ size }) => size)).toEqual([2, 2, 2]);
});

test('what leaves and enters the end of a page is in that page, and in no other', async () => {
  const user = newUser();
  for (const title of ['d', 'c', 'b', 'a']) await send(user, { title });
  const inbox = await open(user, { pageSize: 2 });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['a', 'b']);
  await list.loadMore();
  const b = list.getSnapshot().notifications[1]?.id ?? '';
  await inbox.archive(b);
  const archive = show(inbox, { status: 'archived' });
  await expect.poll(archive.titles).toEqual(['b']);
  await inbox.unarchive(b);
  expect(list.getSnapshot().pages.map(({ size }) => size)).toEqual([2, 2]);
  for (const page of list.getSnapshot().pages) {
    list.release(page);
    await list.load(page);
  }
  expect(titles()).toEqual(['a', 'b', 'c', 'd']);
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

test('what the user reads elsewhere costs an inbox without a list few requests, and is counted', async () => {
  const user = newUser();
  for (let index = 0; index < 12; index += 1) await send(user);
  const requested: string[] = [];
  const inbox = await open(user, {
    fetch(input, init) {
      requested.push(String(input));
      return fetch(input, init);
    },
  });
  requested.length = 0;
  const startedAt = performance.now();
  const call = project.as(user);
  for (const { id } of (await call('GET', '/notifications')).body.data)
    expect((await call('POST', `/notifications/${id}/read`)).status).toBe(204);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
  const counts = 2 + (performance.now() - startedAt) / 5_000;
  expect(requested.length).toBeLessThanOrEqual(2 * counts);
  expect(requested.filter((url) => !url.endsWith('/count'))).toEqual([]);
});

test('what the user reads elsewhere is counted although the clock was set back', async () => {
  const user = newUser();
  await send(user);
  const inbox = await open(user);
  await inbox.refresh();
  const now = Date.now;
  vi.spyOn(Date, 'now').mockImplementation(() => now() - 3_600_000);
  onTestFinished(() => void vi.restoreAllMocks());
  const call = project.as(user);
  const [{ id }] = (await call('GET', '/notifications')).body.data;
  expect((await call('POST', `/notifications/${id}/read`)).status).toBe(204);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
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

/** A browser that can go offline. */
function offlineBrowser() {
  const page = new EventTarget();
  let onLine = true;
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  vi.stubGlobal('navigator', {
    get onLine() {
      return onLine;
    },
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  return {
    set(isOnline: boolean) {
      onLine = isOnline;
      page.dispatchEvent(new Event(isOnline ? 'online' : 'offline'));
    },
    async fetch(...parameters: Parameters<typeof fetch>) {
      if (!onLine) throw new TypeError('offline');
      return fetch(...parameters);
    },
  };
}

for (const [what, end] of [
  ['closed', (inbox: Inbox) => inbox.close()],
  ['shown no more', (_: Inbox, leave: () => void) => leave()],
] as const)
  test(`an inbox that is ${what} sends no change that waited for the browser to be online`, async () => {
    const user = newUser();
    const other = newUser();
    await send(user, { title: 'a' });
    const browser = offlineBrowser();
    let loggedIn = user;
    let attempts = 0;
    const inbox = createInbox({
      baseUrl: `${service.address}/v2`,
      token: () => project.userJwt({ user_external_id: loggedIn }),
      fetch(input, init) {
        if (init?.method === 'PUT') attempts += 1;
        return browser.fetch(input, init);
      },
    });
    opened.push(inbox);
    const leave = inbox.subscribe(() => {});
    await expect.poll(() => inbox.getSnapshot().connection).toBe('live');
    browser.set(false);
    const saved = inbox.savePreferences({ categories: [] }).then(
      () => 'saved',
      () => 'undone',
    );
    await expect.poll(() => attempts).toBe(3);
    end(inbox, leave);
    loggedIn = other;
    browser.set(true);
    expect(await saved).toBe('undone');
    expect(attempts).toBe(3);
  });

test('a change of all notifications does not concern those that arrive while offline', async () => {
  const user = newUser();
  await send(user, { title: 'known' });
  const browser = offlineBrowser();
  const inbox = await open(user, { fetch: browser.fetch });
  const { list } = show(inbox);
  await expect.poll(() => titlesOf(list.getSnapshot())).toEqual(['known']);
  const outcome = (action: Promise<void>) =>
    action.then(
      () => 'sent',
      ({ code }) => code,
    );
  const [{ id = '' } = {}] = list.getSnapshot().notifications;
  browser.set(false);
  const archived = inbox.archive(id);
  const outcomes = [outcome(inbox.markAllRead()), outcome(inbox.archiveAll())];
  await send(user, { title: 'new' });
  browser.set(true);
  await archived;
  expect(await Promise.all(outcomes)).toEqual(['network_error', 'network_error']);
  const shown = async () => (await project.as(user)('GET', '/notifications')).body.data;
  expect(await shown()).toMatchObject([{ title: 'new', read_at: null }]);
});

test('a request that only fetches leaves no error behind', async () => {
  const user = newUser();
  proxy.decide = () => ({ status: 400 });
  const inbox = createInbox({
    baseUrl: `${proxy.url}/v2`,
    token: project.userJwt({ user_external_id: user }),
    transports: ['polling'],
  });
  opened.push(inbox);
  const errors: Error[] = [];
  inbox.onError((error) => errors.push(error));
  inbox.subscribe(() => {});
  await expect(inbox.loadPreferences()).rejects.toThrow('400');
  await expect(inbox.refresh()).rejects.toThrow('400');
  await expect.poll(() => errors.length).toBeGreaterThan(1);
  proxy.decide = () => 'pass';
  await expect.poll(() => inbox.getSnapshot().connection).toBe('polling');
  expect(inbox.getSnapshot().error).toBeUndefined();
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

test('an inbox requests another token if one does not come', async () => {
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

test('an inbox is live although each token takes longer than a connection', async () => {
  const user = newUser();
  const connected = (['websocket', 'sse'] as const).map(async (transport) => {
    const inbox = createInbox({
      baseUrl: `${service.address}/v2`,
      transports: [transport],
      async token() {
        await setTimeout(6_000);
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

/** A `fetch` whose responses to some requests are held until `release`. */
function holding(isHeld: (url: URL) => boolean) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  return {
    held,
    release,
    async fetch(...[input, init]: Parameters<typeof fetch>) {
      const response = await fetch(input, init);
      if (isHeld(new URL(String(input)))) {
        hold();
        await released;
      }
      return response;
    },
  };
}

test('no action waits until others are marked as seen, and no preference waits for an action', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  const { held, release, fetch } = holding(({ pathname }) => /notifications\/(seen|read)$/.test(pathname));
  const inbox = await open(user, { fetch });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['a']);
  const seen = inbox.markAllSeen();
  await held;
  await inbox.markRead(list.getSnapshot().notifications[0]?.id ?? '');
  const read = inbox.markAllRead();
  await inbox.savePreferences({ categories: [] });
  release();
  await Promise.all([seen, read]);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
});

test.each(['the same inbox', 'another'])(
  'what %s archives while the archive is being fetched is in it',
  async (who) => {
    const user = newUser();
    await send(user, { title: 'Kept' });
    const { held, release, fetch } = holding(({ search }) => search.includes('status=archived'));
    const inbox = await open(user, { fetch });
    const all = show(inbox);
    await expect.poll(all.titles).toEqual(['Kept']);
    const archive = show(inbox, { status: 'archived' });
    await held;
    const by = who === 'another' ? await open(user) : inbox;
    await by.archive(all.list.getSnapshot().notifications[0]?.id ?? '');
    await expect.poll(all.titles).toEqual([]);
    release();
    await expect.poll(archive.titles).toEqual(['Kept']);
  },
);

test('what arrives while all is marked as read stays unread if the server left it so', async () => {
  const user = newUser();
  await send(user, { title: 'Early' });
  const inbox = await open(user);
  const [all, unread] = [show(inbox), show(inbox, { status: 'unread' })];
  await expect.poll(all.titles).toEqual(['Early']);
  await expect.poll(unread.titles).toEqual(['Early']);
  const waiting = () => service.rows('select 1 from pg_locks where not granted');
  const [marking] = await service.context.db.transaction(async (tx) => {
    await rowsOf(tx, `select id from users where external_id = $1 for no key update`, [user]);
    const marked = project.as(user)('POST', '/notifications/read');
    await until(waiting, ({ length }) => length > 0); // it has read which there are
    await send(user, { title: 'Late' });
    await expect.poll(all.titles).toEqual(['Late', 'Early']);
    return [marked];
  });
  expect((await marking)?.status).toBe(204);
  const states = () => all.list.getSnapshot().notifications.map(({ title, status }) => `${title} ${status}`);
  await expect.poll(states).toEqual(['Late unseen', 'Early read']);
  expect(unread.titles()).toEqual(['Late']);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
});

test('what is marked as seen while a list is fetched is as read as the server has it', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  let isHeld = false;
  const { held, release, fetch } = holding(({ pathname }) => isHeld && pathname.endsWith('/notifications'));
  const inbox = await open(user, { fetch });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['a']);
  isHeld = true;
  // It arrived just before, so the list is fetched.
  await project.as(user)('POST', '/notifications/read');
  await held;
  await inbox.markSeen(list.getSnapshot().notifications[0]?.id ?? '');
  release();
  await expect.poll(() => list.getSnapshot().notifications[0]?.status).toBe('read');
});

test('a list that is fetched during an action has what changed after the action began', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  const { held, release, fetch } = holding(({ pathname }) => pathname.endsWith('/notifications/seen'));
  const inbox = await open(user, { fetch });
  const { list, titles } = show(inbox, { status: 'unread' });
  await expect.poll(titles).toEqual(['a']);
  const seen = inbox.markAllSeen();
  await held;
  await project.as(user)('POST', `/notifications/${list.getSnapshot().notifications[0]?.id}/read`);
  await expect.poll(titles).toEqual([]);
  await list.refresh();
  expect(titles()).toEqual([]);
  release();
  await seen;
});

test('counts are right if a list has a notification before its event comes', async () => {
  const user = newUser();
  await send(user, { title: 'First' });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const inbox = await open(user, {
    transports: ['sse'],
    async fetch(input, init) {
      const response = await fetch(input, init);
      if (!String(input).includes('/stream')) return response;
      const decoder = new TextDecoder();
      const late = new TransformStream<Uint8Array, Uint8Array>({
        async transform(part, stream) {
          if (decoder.decode(part).includes('notifications/new')) await released;
          stream.enqueue(part);
        },
      });
      return new Response(response.body?.pipeThrough(late), response);
    },
  });
  const all = show(inbox);
  await expect.poll(() => all.list.getSnapshot().status).toBe('ready');
  await send(user, { title: 'Early' });
  await all.list.refresh();
  expect(all.titles()).toEqual(['Early', 'First']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
  release();
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 2, unseen: 2 });
});

test('what a stream catches up with does not undo an action of the user', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  let isSlow = false;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  const inbox = await open(user, {
    baseUrl: `${proxy.url}/v2`,
    transports: ['sse'],
    async fetch(input, init) {
      const response = await fetch(input, init);
      if (!isSlow || !String(input).includes('/stream')) return response;
      const decoder = new TextDecoder();
      const late = new TransformStream<Uint8Array, Uint8Array>({
        async transform(part, stream) {
          if (decoder.decode(part).includes('notifications/')) {
            hold();
            await released;
          }
          stream.enqueue(part);
        },
      });
      return new Response(response.body?.pipeThrough(late), response);
    },
  });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['a']);
  proxy.decide = () => ({ status: 503 });
  proxy.cut();
  await expect.poll(() => inbox.getSnapshot().connection).toBe('connecting');
  await project.as(user)('POST', `/notifications/${list.getSnapshot().notifications[0]?.id}/seen`);
  for (const title of ['b', 'c', 'd']) await send(user, { title });
  isSlow = true;
  proxy.decide = () => 'pass';
  await held; // the server has read what was missed
  const arrived: string[] = [];
  inbox.onNew(({ title }) => arrived.push(title));
  await inbox.refresh();
  await inbox.archive(list.getSnapshot().notifications.at(-1)?.id ?? '');
  await inbox.markAllRead();
  expect(inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
  release();
  const states = () => list.getSnapshot().notifications.map(({ title, status }) => `${title} ${status}`);
  const sentLast = send(user, { title: 'last' });
  await expect.poll(() => arrived).toContain('last');
  await sentLast;
  await expect.poll(states).toEqual(['last unseen', 'd read', 'c read', 'b read']);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
});

test('preferences are saved at once, and restored if the server rejects them', async () => {
  await project.call('PUT', '/channels', {
    key: 'news',
    channels: [{ channel: 'in_app' }, { channel: 'email' }],
  });
  const inbox = await open(newUser(), { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  await inbox.loadPreferences();
  const enabled = () =>
    inbox
      .getSnapshot()
      .preferences?.categories.find(({ key }) => key === 'news')
      ?.channels.find(({ name }) => name === 'email')?.enabled;
  expect(enabled()).toBe(true);
  const change = (value: boolean) => ({
    categories: [{ key: 'news', channels: [{ name: 'email' as const, enabled: value }] }],
  });
  const saved = inbox.savePreferences(change(false));
  expect(enabled()).toBe(false);
  await saved;
  await inbox.loadPreferences();
  expect(enabled()).toBe(false);
  proxy.decide = () => ({ status: 400 });
  const rejected = inbox.savePreferences(change(true));
  expect(enabled()).toBe(true);
  await expect(rejected).rejects.toThrow('400');
  expect(enabled()).toBe(false);
  proxy.decide = () => 'pass';
});

test('preferences whose response was lost are loaded after the next connection', async () => {
  let isLost = false;
  const inbox = await open(newUser(), {
    baseUrl: `${proxy.url}/v2`,
    transports: ['sse'],
    async fetch(input, init) {
      const response = await fetch(input, init);
      if (isLost) throw new TypeError('lost');
      return response;
    },
  });
  await inbox.loadPreferences();
  const zone = () => (inbox.getSnapshot().preferences as { time_zone?: string | null }).time_zone;
  isLost = true;
  await expect(inbox.savePreferences({ time_zone: 'Asia/Tokyo' } as object)).rejects.toThrow();
  expect(zone()).toBe(null);
  await expect(inbox.loadPreferences()).rejects.toThrow();
  isLost = false;
  proxy.cut();
  await expect.poll(zone).toBe('Asia/Tokyo');
});

test('a preference that is saved later stays, although an earlier one is retried or rejected', async () => {
  await project.call('PUT', '/channels', {
    key: 'sport',
    channels: [{ channel: 'in_app' }, { channel: 'email' }],
  });
  const inbox = await open(newUser(), { baseUrl: `${proxy.url}/v2`, transports: ['sse'] });
  await inbox.loadPreferences();
  const sport = () =>
    inbox.getSnapshot().preferences?.categories.find(({ key }) => key === 'sport')?.channels ?? [];
  const enabled = () => sport().map(({ name, enabled: isOn }) => `${name} ${isOn}`);
  const save = (name: 'email' | 'in_app', isOn: boolean) =>
    inbox.savePreferences({ categories: [{ key: 'sport', channels: [{ name, enabled: isOn }] }] });
  const failFirst = (status: number) => {
    let puts = 0;
    proxy.decide = ({ method }) => {
      if (method !== 'PUT') return 'pass';
      puts += 1;
      return puts === 1 ? { status } : 'pass';
    };
  };
  failFirst(503);
  await Promise.all([save('email', false), save('email', true)]);
  await inbox.loadPreferences();
  expect(enabled()).toEqual(['in_app true', 'email true']);
  failFirst(400);
  const rejected = save('email', false);
  const saved = save('in_app', false);
  expect(enabled()).toEqual(['in_app false', 'email false']);
  await expect(rejected).rejects.toThrow('400');
  await saved;
  expect(enabled()).toEqual(['in_app false', 'email true']);
  await inbox.loadPreferences();
  expect(enabled()).toEqual(['in_app false', 'email true']);
  proxy.decide = () => 'pass';
});

test('a snoozed notification leaves the lists and counts, on all devices, and returns on top', async () => {
  const user = newUser();
  const [inbox, other] = [await open(user), await open(user)];
  const [all, snoozed, there] = [show(inbox), show(inbox, { status: 'snoozed' }), show(other)];
  await expect.poll(() => snoozed.list.getSnapshot().status).toBe('ready');
  await send(user, { title: 'Old' });
  await send(user, { title: 'New' });
  await expect.poll(all.titles).toEqual(['New', 'Old']);
  await expect.poll(there.titles).toEqual(['New', 'Old']);
  const old = all.list.getSnapshot().notifications.find(({ title }) => title === 'Old');
  const returned: string[] = [];
  inbox.onNew(({ title }) => returned.push(title));

  const snoozing = inbox.snooze(old?.id ?? '', new Date(Date.now() + 3_600_000));
  expect(all.titles()).toEqual(['New']); // at once
  await snoozing;
  expect(snoozed.titles()).toEqual(['Old']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
  await expect.poll(there.titles).toEqual(['New']);

  await expect(inbox.snooze(old?.id ?? '', new Date(0))).rejects.toMatchObject({ status: 422 });
  expect(snoozed.titles()).toEqual(['Old']);

  await inbox.snooze(old?.id ?? '', null);
  await expect.poll(all.titles).toEqual(['Old', 'New']);
  await expect.poll(there.titles).toEqual(['Old', 'New']);
  expect(snoozed.titles()).toEqual([]);
  await expect.poll(() => returned).toEqual(['Old']);
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 2, unseen: 2 });
});

test('a list shows one topic', async () => {
  const user = newUser();
  const inbox = await open(user);
  await send(user, { title: 'One', topic: 'a' });
  const { titles } = show(inbox, { topic: 'a' });
  await send(user, { title: 'Other', topic: 'b' });
  await send(user, { title: 'Two', topic: 'a' });
  await expect.poll(titles).toEqual(['Two', 'One']);
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

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startProxy, type TestProxy } from '../../server/test/support/proxy.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
} from '../../server/test/support/service.ts';
import { createInbox } from '../src/store/index.ts';
import { holding, show, storesOf, titlesOf } from './support/stores.ts';

// The lists and counts of the store follow the server.

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

test('a list shows one topic', async () => {
  const user = newUser();
  const inbox = await open(user);
  await send(user, { title: 'One', topic: 'a' });
  const { titles } = show(inbox, { topic: 'a' });
  await send(user, { title: 'Other', topic: 'b' });
  await send(user, { title: 'Two', topic: 'a' });
  await expect.poll(titles).toEqual(['Two', 'One']);
});

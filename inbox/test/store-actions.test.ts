import { afterAll, beforeAll, expect, test } from 'vitest';
import { startProxy, type TestProxy } from '../../server/test/support/proxy.ts';
import { rowsOf } from '../../server/test/support/rows.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../../server/test/support/service.ts';
import { createInbox, type Inbox } from '../src/store/index.ts';
import { holding, offlineBrowser, show, storesOf, titlesOf } from './support/stores.ts';

// The actions of the user are shown at once, and saved in their order.

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

test('reading one waits for no action on all, and what follows keeps its order', async () => {
  const user = newUser();
  for (const title of ['a', 'b']) await send(user, { title });
  const { held, release, fetch } = holding(({ pathname }) => pathname.endsWith('/notifications/read'));
  const inbox = await open(user, { fetch });
  const { list, titles } = show(inbox);
  await expect.poll(titles).toEqual(['b', 'a']);
  const id = list.getSnapshot().notifications[0]?.id ?? '';
  const all = inbox.markAllRead();
  await held;
  await inbox.markRead(id);
  // Sent now, it would be undone by the action on all.
  const unread = inbox.markUnread(id);
  release();
  await Promise.all([all, unread]);
  const statuses = () => list.getSnapshot().notifications.map(({ status }) => status);
  expect(statuses()).toEqual(['unread', 'read']);
  await inbox.refresh();
  expect(statuses()).toEqual(['unread', 'read']);
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
  await expect.poll(unread.titles).toEqual(['Late']); // each list is fetched by itself
  await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
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

test('what arrives during an action on all that fails stays counted', async () => {
  const user = newUser();
  await send(user, { title: 'a' });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const inbox = await open(user, {
    async fetch(...[input, init]) {
      if (new URL(String(input)).pathname !== '/v2/notifications/read') return fetch(input, init);
      await released;
      return new Response('{}', { status: 400 });
    },
  });
  const { titles } = show(inbox);
  await expect.poll(titles).toEqual(['a']);
  const all = inbox.markAllRead();
  expect(inbox.getSnapshot().counts).toEqual({ unread: 0, unseen: 0 });
  await send(user, { title: 'b' });
  await expect.poll(titles).toEqual(['b', 'a']);
  expect(inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
  release();
  await expect(all).rejects.toThrow('400');
  expect(inbox.getSnapshot().counts).toEqual({ unread: 2, unseen: 2 });
});

test.each(['markRead', 'archive'] as const)(
  'a notification that is shown once more, because the responses of %s were lost, counts once',
  async (action) => {
    const user = newUser();
    for (const title of ['a', 'b']) await send(user, { title });
    let isLost = true;
    const inbox = await open(user, {
      async fetch(input, init) {
        const response = await fetch(input, init);
        if (isLost && /(read|archive)$/.test(String(input))) throw new TypeError('lost');
        return response;
      },
    });
    const { list, titles } = show(inbox);
    const unread = inbox.list({ status: 'unread' });
    const leave = unread.subscribe(() => {});
    await expect.poll(() => titlesOf(unread.getSnapshot())).toEqual(['b', 'a']);
    leave();
    await expect.poll(titles).toEqual(['b', 'a']);
    const id = list.getSnapshot().notifications[0]?.id ?? '';
    await expect(inbox[action](id)).rejects.toThrow('lost');
    isLost = false;
    // The server has done it.
    const states = () => list.getSnapshot().notifications.map(({ title, status }) => `${title} ${status}`);
    await expect.poll(states).toEqual(action === 'archive' ? ['a unseen'] : ['b read', 'a unseen']);
    await expect.poll(() => inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
    if (action === 'markRead') await inbox.archive(id); // as the user sees it now
    expect(titles()).toEqual(['a']);
    expect(inbox.getSnapshot().counts).toEqual({ unread: 1, unseen: 1 });
    unread.subscribe(() => {});
    await expect.poll(() => titlesOf(unread.getSnapshot())).toEqual(['a']);
  },
);

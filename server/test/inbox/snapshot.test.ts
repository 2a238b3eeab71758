import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openStream, openStreamSocket, Refused, type StreamClient, titles } from '../support/realtime.ts';
import { processed, startTestService, type TestProject, type TestService } from '../support/service.ts';

// The state of the inbox with which a stream begins, so that an inbox opens with one request.

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  project = service.project;
});
afterAll(() => service?.stop());

const jwtOf = (user: string, of = project) => of.userJwt({ user_external_id: user });
type Options = { snapshot?: number | string | undefined; lastEventId?: string; of?: TestProject };

const TRANSPORTS = {
  'Server-Sent Events': async (user: string, { snapshot, of, ...options }: Options) => {
    const query = snapshot === undefined ? '' : `?snapshot=${snapshot}`;
    const url = `${service.address}/v2/notifications/stream${query}`;
    const client = await openStream(url, { jwt: jwtOf(user, of), ...options });
    if (snapshot !== undefined) await expect.poll(() => client.state).toBeDefined();
    return client;
  },
  WebSocket: (user: string, { of, ...options }: Options) =>
    openStreamSocket(service.address, { jwt: jwtOf(user, of), ...options }),
};

async function send(user: string, broadcast: object = {}, of = project): Promise<void> {
  const given = { title: 'Hello', recipients: [{ external_id: user }], ...broadcast };
  const { status, body } = await of.call('POST', '/broadcasts', given);
  expect(status, JSON.stringify(body)).toBe(201);
  await processed(of.call, body.id);
}

/** What an inbox would get by requests. */
async function byRequests(user: string, of = project) {
  const as = of.as(user);
  const get = async (path: string) => (await as('GET', path)).body;
  const config = (await as('POST', '/integrations/inbox/installations/start')).body;
  return {
    now: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    counts: {
      unread: (await get('/notifications/unread/count')).count,
      unseen: (await get('/notifications/unseen/count')).count,
    },
    config,
    notifications: (await get('/notifications?limit=100')).data,
    has_more: false,
    preferences: await get('/channels/user_preferences'),
  };
}

describe.each(Object.entries(TRANSPORTS))('by %s', (label, connect) => {
  const name = (user: string) => `${user} ${label}`;
  const open = async (user: string, options: Options): Promise<StreamClient> => {
    const client = await connect(user, options);
    onTestFinished(() => client.source.close());
    return client;
  };

  test('the first message has what the requests of an inbox would return', async () => {
    const own = await service.createProject(`own ${label}`);
    const user = name('ada');
    await own.call('PUT', '/channels', {
      key: 'orders',
      label: 'Orders',
      locales: { de: { label: 'Bestellungen' } },
      channels: [{ channel: 'in_app' }, { channel: 'email' }],
    });
    const texts = { title: 'For {{ user.first_name }}', content: 'Hello {{ user.first_name }}' };
    await own.call('PUT', '/templates/each', { default_locale: 'en', locales: { en: texts } });
    await own.call('PUT', '/integrations/inbox', { locale: 'de', images: null, theme: null });
    await own.as(user)('PUT', '/channels/user_preferences', {
      categories: [{ key: 'orders', channels: [{ name: 'email', enabled: false }] }],
      time_zone: 'Europe/Berlin',
    });
    for (const broadcast of [
      { title: 'Archived' },
      { title: 'Read', category: 'orders', content: 'It <b>arrives</b>.' },
      { title: 'Seen', overrides: { channels: { in_app: { title: 'Of the inbox' } } } },
      { recipients: [{ external_id: user, first_name: 'Ada' }], template: { key: 'each' }, title: undefined },
      { title: 'Unseen', topic: 'a/topic', custom_attributes: { number: 1 } },
    ])
      await send(user, broadcast, own);
    const as = own.as(user);
    const ids = new Map<string, string>(
      (await as('GET', '/notifications')).body.data.map((one: { title: string; id: string }) => [
        one.title,
        one.id,
      ]),
    );
    await as('POST', `/notifications/${ids.get('Archived')}/archive`);
    await as('POST', `/notifications/${ids.get('Read')}/read`);
    await as('POST', `/notifications/${ids.get('Of the inbox')}/seen`);
    const { state } = await open(user, { snapshot: 50, of: own });
    expect(state?.notifications?.map(({ title }) => title)).toEqual([
      'Unseen',
      'For Ada',
      'Of the inbox',
      'Read',
    ]);
    expect(state?.counts).toEqual({ unread: 3, unseen: 2 });
    expect(state).toEqual(await byRequests(user, own));
  });

  test('it has as many notifications as requested, and none with 0', async () => {
    const user = name('page');
    for (const title of ['a', 'b', 'c']) await send(user, { title });
    const listed = async (snapshot: number) => {
      const { state } = await open(user, { snapshot });
      return [state?.notifications?.map(({ title }) => title), state?.has_more, Object.keys(state ?? {})];
    };
    const all = ['now', 'counts', 'config', 'notifications', 'has_more', 'preferences'];
    expect(await listed(2)).toEqual([['c', 'b'], true, all]);
    expect(await listed(3)).toEqual([['c', 'b', 'a'], false, all]);
    expect(await listed(0)).toEqual([undefined, undefined, ['now', 'counts', 'config']]);
    const { state } = await open(name('a user without any'), { snapshot: 50 });
    expect(state).toEqual(await byRequests(name('a user without any')));
  });

  test('what arrives or changes while streams open is in the state or follows it, once', async () => {
    const user = name('race');
    await send(user, { title: 'first' });
    const wanted = Array.from({ length: 40 }, (_, number) => `race ${number}`);
    const sending = Promise.all(wanted.map((title) => send(user, { title })));
    const clients: StreamClient[] = [];
    for (let opened = 0; opened < 20; opened += 1) clients.push(await open(user, { snapshot: 100 }));
    await sending;
    await send(user, { title: 'last' });
    for (const { state, frames } of clients) {
      await expect.poll(() => titles(frames)).toContain('last');
      const before = state?.notifications?.map(({ title }) => title) ?? [];
      const after = titles(frames) as string[];
      expect([...before, ...after].sort()).toEqual(['first', ...wanted, 'last'].sort());
      expect(state?.counts?.unseen).toBe(before.length);
    }
  });

  test('a resumed stream has the time and the config alone, and one that cannot resume all', async () => {
    const user = name('resume');
    await send(user, { title: 'before' });
    const first = await open(user, { snapshot: 50 });
    await send(user, { title: 'seen live' });
    await expect.poll(() => titles(first.frames)).toEqual(['seen live']);
    first.source.close();
    await send(user, { title: 'missed' });
    const second = await open(user, { snapshot: 50, lastEventId: first.lastEventId() });
    const { now = '', ...others } = second.state ?? {};
    expect(Math.abs(Date.parse(now) - Date.now())).toBeLessThan(60_000);
    expect(others).toEqual({ config: { images: null, locale: null, theme: null } });
    await expect.poll(() => titles(second.frames)).toEqual(['missed']);
    const third = await open(user, { snapshot: 50, lastEventId: 'what-another-version-had-sent' });
    expect(third.state?.notifications?.map(({ title }) => title)).toEqual(['missed', 'seen live', 'before']);
    expect(third.resyncs).toBe(0);
  });

  test('long contents are left out, and without the parameter everything is as before', async () => {
    const user = name('long');
    await send(user, { title: 'long', content: 'x'.repeat(100_000) });
    const { state } = await open(user, { snapshot: 50 });
    expect(Object.keys(state ?? {})).toEqual(['now', 'counts', 'config']);
    expect((await open(user, {})).state).toBeUndefined();
  });
});

test('many users of several projects who open at once get their own state each', async () => {
  const other = await service.createProject('other');
  const users = Array.from({ length: 60 }, (_, number) => `crowd ${number}`);
  const recipients = users.map((external_id) => ({ external_id }));
  for (const [of, title] of [
    [project, 'one'],
    [other, 'two'],
  ] as const) {
    const { body } = await of.call('POST', '/broadcasts', { title, recipients });
    await processed(of.call, body.id);
  }
  await other.call('PUT', '/integrations/inbox', { locale: 'ja', images: null, theme: null });
  await project.as('crowd 7')('POST', '/notifications/read');
  const opened = await Promise.all(
    [project, other].flatMap((of) => users.map((user) => TRANSPORTS.WebSocket(user, { snapshot: 10, of }))),
  );
  for (const [index, { state, source }] of opened.entries()) {
    source.close();
    const isOther = index >= users.length;
    const unread = !isOther && users[index] === 'crowd 7' ? 0 : 1;
    expect(state?.counts).toEqual({ unread, unseen: unread });
    expect(state?.notifications?.map(({ title }) => title)).toEqual([isOther ? 'two' : 'one']);
    expect(state?.config).toMatchObject({ locale: isOther ? 'ja' : null });
  }
});

test('a wrong number is rejected, by both transports', async () => {
  const url = (snapshot: string) => `${service.address}/v2/notifications/stream?snapshot=${snapshot}`;
  for (const wrong of ['101', '-1', 'all', '1.5']) {
    const headers = { authorization: `Bearer ${jwtOf('wrong')}` };
    expect((await fetch(url(wrong), { headers })).status).toBe(422);
    await expect(TRANSPORTS.WebSocket('wrong', { snapshot: wrong })).rejects.toEqual(new Refused(422));
  }
});

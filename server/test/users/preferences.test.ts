import { afterAll, beforeAll, expect, test } from 'vitest';
import { savePreferences } from '../../src/domain/setup/preferences/save.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

async function newProject(): Promise<TestProject> {
  made += 1;
  project = await service.createProject(`preferences ${made}`);
  return project;
}

const path = '/channels/user_preferences';
const configure = (key: string, channels: string[], more: object = {}) =>
  project.call('PUT', '/channels', { key, channels: channels.map((channel) => ({ channel })), ...more });
const put = (user: string, key: string, channels: Record<string, boolean>) =>
  project.as(user)('PUT', path, { categories: [entry(key, channels)] });
const categories = async (user: string) => (await project.as(user)('GET', path)).body.categories;
const times = async (user: string) => {
  const { time_zone, quiet_hours } = (await project.as(user)('GET', path)).body;
  return [time_zone, quiet_hours];
};
const entry = (key: string, channels: Record<string, boolean>) => ({
  key,
  label: null,
  channels: Object.entries(channels).map(([name, enabled]) => ({ name, enabled })),
});

async function events(): Promise<unknown[]> {
  const rows = await service.rows<{ details: string }>(
    "select details::text from events where project_id = $1 and type = 'preferences.updated' order by id",
    [project.id],
  );
  return rows.map((row) => JSON.parse(row.details).payload.changes);
}

test('lists the categories of the project with their channels, all enabled by default', async () => {
  await newProject();
  expect(await categories('ada')).toEqual([]);
  await configure('orders/shipped', ['in_app', 'email']);
  await configure('news', ['email', 'sms']);
  await configure('hidden', ['email'], { disabled: true });
  expect(await categories('ada')).toEqual([
    entry('orders/shipped', { in_app: true, email: true }),
    entry('news', { email: true, sms: true }),
  ]);
  const saved = await put('ada', 'news', { email: false });
  expect([saved.status, saved.body]).toEqual([204, undefined]);
  expect(await categories('ada')).toEqual([
    entry('orders/shipped', { in_app: true, email: true }),
    entry('news', { email: false, sms: true }),
  ]);
  expect(await categories('bob')).toContainEqual(entry('news', { email: true, sms: true }));
  await put('ada', 'news', { teams: false });
  expect(await categories('ada')).toContainEqual(entry('news', { email: false, sms: true, teams: false }));
  await put('ada', 'hidden', { email: false });
  expect(await categories('ada')).toContainEqual(entry('hidden', { email: false }));
});

test('a category without config is listed for users with preferences for it', async () => {
  await newProject();
  await put('ada', 'not/known', { sms: false });
  expect(await categories('ada')).toEqual([entry('not/known', { in_app: true, sms: false })]);
  expect(await categories('bob')).toEqual([]);
  await put('ada', 'not/known', { sms: true });
  expect(await categories('ada')).toEqual([entry('not/known', { in_app: true, sms: true })]);
  expect(await events()).toHaveLength(2);
  await put('ada', 'always/on', { email: true });
  expect(await categories('ada')).toContainEqual(entry('always/on', { in_app: true, email: true }));
  expect(await events()).toHaveLength(2);
});

test('a saved copy of the list changes nothing', async () => {
  await newProject();
  await configure('orders', ['in_app', 'email']);
  await put('ada', 'orders', { email: false });
  const read = await project.as('ada')('GET', path);
  expect((await project.as('ada')('PUT', path, read.body)).status).toBe(204);
  expect((await project.as('ada')('GET', path)).body).toEqual(read.body);
  expect(await events()).toHaveLength(1);
});

test('a save of many is one event with the changes, and no event without changes', async () => {
  await newProject();
  const body = {
    categories: [
      entry('b', { email: false, sms: false, in_app: true }),
      entry('a', { email: false }),
      { key: 'c' },
      { key: 'd', channels: [] },
    ],
  };
  for (let count = 0; count < 3; count += 1)
    expect((await project.as('ada')('PUT', path, body)).status).toBe(204);
  expect((await project.as('ada')('PUT', path, {})).status).toBe(204);
  expect((await project.as('ada')('PUT', path, { categories: [] })).status).toBe(204);
  expect((await put('ada', 'b', { sms: true, email: false })).status).toBe(204);
  expect(await events()).toEqual([
    [
      { category: 'a', channel: 'email', enabled: false },
      { category: 'b', channel: 'email', enabled: false },
      { category: 'b', channel: 'sms', enabled: false },
    ],
    [{ category: 'b', channel: 'sms', enabled: true }],
  ]);
});

test('labels and descriptions are in the language of the user', async () => {
  await newProject();
  await configure('orders', ['email'], {
    label: 'Orders',
    description: 'When a parcel leaves',
    locales: { de: { label: 'Bestellungen' }, 'pt-BR': { label: 'Pedidos', description: 'Envio' } },
  });
  await configure('news', ['email'], { locales: { de: { description: 'Monatlich' } } });
  for (const [locale, texts] of [
    [null, [{ label: 'Orders', description: 'When a parcel leaves' }, { label: null }]],
    [
      'de-AT',
      [
        { label: 'Bestellungen', description: 'When a parcel leaves' },
        { label: null, description: 'Monatlich' },
      ],
    ],
    ['pt-BR', [{ label: 'Pedidos', description: 'Envio' }, { label: null }]],
    ['pt', [{ label: 'Orders', description: 'When a parcel leaves' }, { label: null }]],
  ] as const) {
    await project.call('PUT', '/users', { external_id: 'ada', locale });
    expect(await categories('ada')).toEqual(
      ['orders', 'news'].map((key, index) => ({ ...entry(key, { email: true }), ...texts[index] })),
    );
  }
});

test.each([
  [{ label: '' }, "Param 'label' must have at least 1 character"],
  [{ description: 'd'.repeat(301) }, "Param 'description' must have at most 300 characters"],
  [{ locales: { 'de-at': { label: 'x' } } }, "Param 'locales.de-at' must be de-AT"],
  [{ locales: { '!': {} } }, "Param 'locales.!' must be a language tag, such as en or pt-BR"],
  [{ locales: { de: { title: 'x' } } }, "Param 'locales.de' doesn't allow key: title"],
])('a category with %j is rejected', async (more, message) => {
  await newProject();
  const { status, body } = await configure('orders', ['email'], more);
  expect([status, body.errors.map((one: { message: string }) => one.message)]).toEqual([422, [message]]);
});

test('quiet hours and the time zone are saved separately, and recorded when they change', async () => {
  await newProject();
  expect(await times('ada')).toEqual([null, null]);
  const quiet_hours = { days: ['friday', 'saturday'], from: '22:00', to: '07:00' };
  const save = async (body: object) => expect((await project.as('ada')('PUT', path, body)).status).toBe(204);
  await save({ time_zone: null, quiet_hours: null });
  expect(await events()).toEqual([]);
  await save({ quiet_hours });
  expect(await times('ada')).toEqual([null, quiet_hours]);
  await save({ time_zone: 'Asia/Tokyo' });
  await save({ time_zone: 'Asia/Tokyo', quiet_hours });
  expect(await times('ada')).toEqual(['Asia/Tokyo', quiet_hours]);
  expect(await times('bob')).toEqual([null, null]);
  await save({ quiet_hours: null });
  expect(await times('ada')).toEqual(['Asia/Tokyo', null]);
  await save({ time_zone: null });
  expect(await times('ada')).toEqual([null, null]);
  const rows = await service.rows<{ details: string }>(
    `select details::text from events where project_id = $1 and type = 'preferences.updated' order by id`,
    [project.id],
  );
  expect(rows.map(({ details }) => JSON.parse(details).payload)).toEqual([
    { changes: [], quiet_hours },
    { changes: [], time_zone: 'Asia/Tokyo' },
    { changes: [], quiet_hours: null },
    { changes: [], time_zone: null },
  ]);
});

test('they share the time zone with the delivery windows of the user, and do not replace those', async () => {
  await newProject();
  const windows = '/channels/user_delivery_windows';
  const channels = [{ channel: 'sms', windows: [{ from: '08:00', to: '21:00' }] }];
  const quiet_hours = { from: '22:00', to: '07:00' };
  const ada = project.as('ada');
  await ada('PUT', windows, { time_zone: 'Europe/Berlin', channels });
  expect(await times('ada')).toEqual(['Europe/Berlin', null]);
  await ada('PUT', path, { time_zone: 'Asia/Tokyo', quiet_hours });
  expect((await ada('GET', windows)).body).toEqual({ time_zone: 'Asia/Tokyo', channels });
  await ada('PUT', windows, { channels });
  expect(await times('ada')).toEqual([null, quiet_hours]);
});

test('a backend reads and saves those of its users', async () => {
  await newProject();
  const { body: user } = await project.call('PUT', '/users', { external_id: 'ada' });
  const url = `/users/${user.id}/preferences`;
  const body = { time_zone: 'Europe/Berlin', quiet_hours: { from: '22:00', to: '24:00' } };
  expect((await project.call('PUT', url, body)).status).toBe(204);
  const read = await project.call('GET', url);
  expect(read.body).toMatchObject(body);
  expect(read.body).toEqual((await project.as('ada')('GET', path)).body);
  await newProject();
  expect((await project.call('GET', url)).status).toBe(404);
  expect((await project.call('PUT', url, body)).status).toBe(404);
});

test.each([
  [
    { time_zone: 'Mars/Phobos' },
    "Param 'time_zone' is not the IANA name of a time zone, such as Europe/Berlin",
  ],
  [{ quiet_hours: { from: '22:00' } }, "Param 'quiet_hours.to' is missing"],
  [
    { quiet_hours: { from: '22:00', to: '22:00' } },
    "Param 'quiet_hours.to' is the same as from: all day is from 00:00 to 24:00",
  ],
  [
    { quiet_hours: { from: '22:00', to: '22:09' } },
    "Param 'quiet_hours.to' is less than 10 minutes after from",
  ],
  [
    { quiet_hours: { from: '00:00', to: '24:00' } },
    "Param 'quiet_hours' must leave ten minutes of the day: choose days, or switch channels off",
  ],
  [
    { quiet_hours: { from: '07:05', to: '07:00' } },
    "Param 'quiet_hours' must leave ten minutes of the day: choose days, or switch channels off",
  ],
  [
    { quiet_hours: { from: '22:00', to: '07:00', channels: [] } },
    "Param 'quiet_hours' doesn't allow key: channels",
  ],
])('%j is rejected, and nothing is saved', async (wrong, message) => {
  await newProject();
  const body = { categories: [entry('news', { email: false })], ...wrong };
  const { status, body: response } = await project.as('ada')('PUT', path, body);
  expect([status, response.errors.map((one: { message: string }) => one.message)]).toEqual([422, [message]]);
  expect(await categories('ada')).toEqual([]);
  expect(await times('ada')).toEqual([null, null]);
});

test('whole days can be quiet, and concurrent first saves all succeed', async () => {
  await newProject();
  await project.as('ada')('GET', path);
  const quiet_hours = { days: ['saturday', 'sunday'], from: '00:00', to: '24:00' };
  const saves = Array.from({ length: 8 }, (_none, index) =>
    project.as('ada')('PUT', path, index % 2 === 0 ? { quiet_hours } : { time_zone: 'Asia/Tokyo' }),
  );
  expect((await Promise.all(saves)).map(({ status }) => status)).toEqual(saves.map(() => 204));
  expect(await times('ada')).toEqual(['Asia/Tokyo', quiet_hours]);
});

test('a category named uncategorized differs from the default category', async () => {
  await newProject();
  const off = async (category: string | null) => {
    const rows = await service.rows<{ category: string }>(
      `select p.category from preferences p join users u on u.id = p.user_id
        where u.project_id = $1 and p.category = $2 and not p.enabled`,
      [project.id, category ?? ''],
    );
    return rows.length > 0;
  };
  await put('ada', 'uncategorized', { email: false });
  expect([await off(null), await off('uncategorized')]).toEqual([true, false]);
  expect(await categories('ada')).toEqual([entry('uncategorized', { in_app: true, email: false })]);
  await configure('uncategorized', ['email']);
  expect(await categories('ada')).toEqual([entry('uncategorized', { email: true })]);
  await put('ada', 'uncategorized', { email: false });
  expect(await off('uncategorized')).toBe(true);
});

test.each<[string, unknown, string[]]>([
  [
    'all problems together',
    {
      categories: [
        { channels: [{ name: 'fax', enabled: 1 }, {}], extra: 1 },
        { key: 'a b', channels: null },
      ],
      x: 1,
    },
    [
      "Param '(root)' doesn't allow key: x",
      "Param 'categories.0' doesn't allow key: extra",
      "Param 'categories.0.channels.0.enabled' must be a boolean",
      "Param 'categories.0.channels.0.name' must be one of: in_app, slack, web_push, mobile_push, " +
        'teams, email, sms',
      "Param 'categories.0.channels.1.enabled' is missing",
      "Param 'categories.0.channels.1.name' is missing",
      "Param 'categories.0.key' is missing",
      "Param 'categories.1.channels' must be an array",
      "Param 'categories.1.key' must match the pattern ^[A-Za-z0-9_.\\-:\\/]+$",
    ],
  ],
  [
    'a contradiction',
    {
      categories: [
        { key: 'a', channels: [{ name: 'email', enabled: false }] },
        { key: 'a', channels: [{ name: 'email', enabled: true }] },
      ],
    },
    ["Param 'categories.1.channels.0.enabled' contradicts an earlier item: a on email"],
  ],
])('%s is rejected, and nothing of it is saved', async (_what, body, messages) => {
  await newProject();
  const { status, body: response } = await project.as('ada')('PUT', path, body);
  expect(status).toBe(422);
  expect(response.errors.map((error: { message: string }) => error.message).toSorted()).toEqual(messages);
  expect(await categories('ada')).toEqual([]);
  expect(await events()).toEqual([]);
});

test('preferences need a User JWT, and their path is not read as a category', async () => {
  await newProject();
  expect((await project.call('GET', path)).status).toBe(403);
  expect((await project.call('PUT', path, {})).status).toBe(403);
  expect((await fetch(`${service.address}/v2${path}`)).status).toBe(401);
});

test('the same user of another project has separate preferences', async () => {
  const first = await newProject();
  await put('ada', 'news', { email: false });
  await newProject();
  expect(await categories('ada')).toEqual([]);
  project = first;
  expect(await categories('ada')).toHaveLength(1);
});

test('concurrent saves of the same categories, in any order, neither fail nor lose anything', async () => {
  await newProject();
  await project.as('ada')('GET', path);
  const keys = Array.from({ length: 20 }, (_none, index) => `c${index}`);
  const bodies = Array.from({ length: 10 }, (_none, index) => ({
    categories: (index % 2 === 0 ? keys : keys.toReversed()).map((key) =>
      entry(key, { email: false, sms: false }),
    ),
  }));
  const responses = await Promise.all(bodies.map((body) => project.as('ada')('PUT', path, body)));
  expect(responses.map(({ status }) => status)).toEqual(bodies.map(() => 204));
  expect(await categories('ada')).toHaveLength(20);
  expect((await events()).flat()).toHaveLength(40);
});

test('preferences are limited per user; a user at the limit can still unsubscribe', async () => {
  await newProject();
  const channels = {
    in_app: true,
    slack: true,
    web_push: true,
    mobile_push: true,
    teams: true,
    email: true,
    sms: true,
  };
  const some = (name: string, number: number, first = 0) => ({
    categories: Array.from({ length: number }, (_none, index) => entry(`${name}${first + index}`, channels)),
  });
  const save = project.as('ada');
  for (let first = 0; first < 999; first += 111)
    expect((await save('PUT', path, some('a', 111, first))).status).toBe(204);
  const { status, body } = await save('PUT', path, some('b', 2));
  expect([status, body.errors.length, body.errors[0].message]).toEqual([
    422,
    1,
    "Param 'categories' has too many preferences: a user can have at most 7000",
  ]);
  expect(await categories('ada')).toHaveLength(999);
  expect((await save('PUT', path, some('b', 1))).status).toBe(204);
  expect((await put('ada', 'c', { email: false })).status).toBe(422);
  expect((await save('PUT', path, { categories: [entry('a5', { email: false })] })).status).toBe(204);
  const { body: user } = await project.call('PUT', '/users', { external_id: 'ada' });
  const preferences = [{ category: 'c', channel: 'email', enabled: false }];
  await savePreferences(service.context, { projectId: project.id, userId: user.id, preferences });
  expect(await categories('ada')).toHaveLength(1_001);
});

test('a user of another project or a deleted one is ignored', async () => {
  await newProject();
  const { body: user } = await project.call('PUT', '/users', { external_id: 'ada' });
  const other = await newProject();
  const preferences = [{ category: 'a', channel: 'email', enabled: false }];
  await savePreferences(service.context, { projectId: other.id, userId: user.id, preferences });
  expect(await events()).toEqual([]);
});

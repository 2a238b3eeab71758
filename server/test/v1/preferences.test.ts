import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

let service: TestService;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`preferences ${made}`);
  await project.call('PUT', '/integrations/ping_email', { url: 'http://127.0.0.1:1/mail' });
  const channels = ['in_app', 'email', 'mobile_push'].map((channel) => ({ channel }));
  await project.call('PUT', '/channels', { key: 'comments', channels });
});

const path = '/notification_preferences';
const asList = { 'accept-version': 'v2' };
const get = async (headers = {}) =>
  (await project.v1As('ada')('GET', path, undefined, headers)).body.notification_preferences;
const put = (preferences: unknown, headers = {}) =>
  project.v1As('ada')('PUT', path, { notification_preferences: preferences }, headers);
const flags = (category: string, channels: object) => ({ categories: { [category]: channels } });
const inV2 = async (key: string) =>
  (await project.as('ada')('GET', '/channels/user_preferences')).body.categories.find(
    (one: { key: string }) => one.key === key,
  );

describe('the preferences', () => {
  test('are flags for each channel that is enabled for the project', async () => {
    expect(await get()).toEqual(flags('comments', { email: true, in_app: true }));
    const saved = await put(flags('comments', { email: false }));
    expect(saved.status).toBe(200);
    expect(saved.body.notification_preferences).toEqual(flags('comments', { email: false, in_app: true }));
    expect(await get()).toEqual(flags('comments', { email: false, in_app: true }));
    expect((await inV2('comments')).channels).toContainEqual({ name: 'email', enabled: false });
  });

  test('are a list with labels if the client asks for version 2', async () => {
    const list = (enabled: boolean) => ({
      categories: [
        {
          slug: 'comments',
          label: 'comments',
          channels: [
            { slug: 'in_app', label: 'In app', enabled: true },
            { slug: 'email', label: 'Email', enabled },
          ],
        },
      ],
    });
    expect(await get(asList)).toEqual(list(true));
    const saved = await put(list(false), asList);
    expect(saved.body.notification_preferences).toEqual(list(false));
    expect(await get()).toEqual(flags('comments', { email: false, in_app: true }));
    expect((await put(flags('comments', { email: true }), asList)).body.notification_preferences).toEqual(
      list(true),
    );
  });

  test('of channels that are not enabled for the project stay as they are', async () => {
    const saved = await put(flags('comments', { mobile_push: false, web_push: false, email: false }));
    expect(saved.status).toBe(200);
    expect((await inV2('comments')).channels).toEqual([
      { name: 'in_app', enabled: true },
      { name: 'email', enabled: false },
      { name: 'mobile_push', enabled: true },
    ]);
  });

  test('can be for categories that the project has not configured', async () => {
    await put(flags('new/one', { in_app: false }));
    expect((await get()).categories).toEqual({
      comments: { email: true, in_app: true },
      'new/one': { email: true, in_app: false },
    });
  });

  test('of a category apply to its messages', async () => {
    await put(flags('comments', { in_app: false }));
    const sent = await project.call('POST', '/broadcasts', {
      title: 'T',
      category: 'comments',
      recipients: [{ external_id: 'ada' }],
    });
    const deliveries = () => project.call('GET', `/broadcasts/${sent.body.id}/deliveries?channel=in_app`);
    await expect.poll(async () => (await deliveries()).body.data[0]?.code).toBe('switched_off');
  });
});

test.each<[string, unknown, string[]]>([
  ['no member', {}, ["Param 'notification_preferences' is missing"]],
  [
    'an unknown channel',
    { notification_preferences: flags('a', { sms: true }) },
    ["Param 'notification_preferences.categories.a' doesn't allow key: sms"],
  ],
  [
    'a flag that is no boolean',
    { notification_preferences: flags('a', { email: 'no' }) },
    ["Param 'notification_preferences.categories.a.email' must be a boolean"],
  ],
  [
    'a map with several errors',
    { notification_preferences: { categories: { a: { email: 'no', fax: true }, b: { in_app: 1 } } } },
    [
      "Param 'notification_preferences.categories.a' doesn't allow key: fax",
      "Param 'notification_preferences.categories.a.email' must be a boolean",
      "Param 'notification_preferences.categories.b.in_app' must be a boolean",
    ],
  ],
  [
    'a list with several errors',
    {
      notification_preferences: { categories: [{ slug: 'a', channels: [{ slug: 'fax', enabled: 1 }] }, {}] },
    },
    [
      "Param 'notification_preferences.categories.0.channels.0.slug' must be one of: in_app, slack, " +
        'web_push, mobile_push, teams, email, sms',
      "Param 'notification_preferences.categories.0.channels.0.enabled' must be a boolean",
      "Param 'notification_preferences.categories.1.slug' is missing",
      "Param 'notification_preferences.categories.1.channels' is missing",
    ],
  ],
  [
    'neither a map nor a list',
    { notification_preferences: { categories: 'all', version: 2 } },
    [
      "Param 'notification_preferences' doesn't allow key: version",
      "Param 'notification_preferences.categories' must be an object or an array",
    ],
  ],
  [
    'contradictions, in a list',
    {
      notification_preferences: {
        categories: [
          { slug: 'a', channels: [{ slug: 'email', enabled: true }] },
          { slug: 'a', channels: [{ slug: 'email', enabled: false }] },
        ],
      },
    },
    [
      "Param 'notification_preferences.categories.1.channels.0.enabled' contradicts an earlier item: " +
        'a on email',
    ],
  ],
])('%s is rejected', async (_what, body, messages) => {
  const response = await project.v1As('ada')('PUT', path, body);
  const codes = [...new Set(response.codes)];
  expect([response.status, codes, response.messages]).toEqual([422, ['validation_failed'], messages]);
});

test('a category that is no key is rejected', async () => {
  const response = await put(flags('a b', { email: true }));
  expect([response.status, response.codes[0]]).toEqual([422, 'validation_failed']);
  expect(response.messages.join()).toContain('notification_preferences.categories');
});

test('a critical category cannot be switched off', async () => {
  await project.call('PUT', '/channels', {
    key: 'security',
    critical: true,
    channels: [{ channel: 'email' }],
  });
  const response = await put(flags('security', { email: false }));
  expect([response.status, response.messages]).toEqual([
    422,
    [
      "Param 'notification_preferences.categories.security.email' must be true: security is required and " +
        'cannot be switched off',
    ],
  ]);
  const list = { 'accept-version': 'v2' };
  const read = await project.v1As('ada')('GET', path, undefined, list);
  const { categories } = read.body.notification_preferences;
  expect(categories).toContainEqual(expect.objectContaining({ slug: 'security', required: true }));
  expect(categories.filter((one: object) => 'required' in one)).toHaveLength(1);
  // As it was read, in both shapes.
  expect((await project.v1As('ada')('PUT', path, read.body, list)).body).toEqual(read.body);
  const map = await project.v1As('ada')('GET', path);
  expect((await project.v1As('ada')('PUT', path, map.body)).body).toEqual(map.body);
});

import { createHmac } from 'node:crypto';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { ProjectClient } from 'magicbell/project-client';
import { UserClient } from 'magicbell/user-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { startTestService, type TestService, until } from '../support/service.ts';

// The published client of v1 works with Belfry after a change of its host. The test calls every operation
// that the client has, and validates the responses with the client's own schemas.

let service: TestService;
let project: ProjectClient;
let user: UserClient;
const called = new Set<string>();

beforeAll(async () => {
  service = await startTestService({ settings: { BRAND: 'magicbell', LEGACY_TIMESTAMPS: 'unix' } });
  const { apiKey, apiSecret } = service.project;
  const options = { host: service.address, apiKey, maxRetries: 0, cacheTTL: 0, telemetry: false };
  project = new ProjectClient({ ...options, apiSecret });
  user = new UserClient({
    ...options,
    userExternalId: 'ann',
    userHmac: createHmac('sha256', apiSecret).update('ann').digest('base64'),
    socketURL: `${service.address.replace('http', 'ws')}/`,
  });
  const category = { key: 'billing', channels: [{ channel: 'in_app' }] };
  await service.project.call('PUT', '/channels', category);
});
afterAll(() => service.stop());

const OPERATIONS: Record<string, object> = {
  'project.broadcasts': { file: 'broadcasts', schema: 'Broadcasts' },
  'project.broadcasts.notifications': {
    file: 'broadcasts/notifications',
    schema: 'BroadcastsNotifications',
  },
  'project.imports': { file: 'imports', schema: 'Imports' },
  'project.metrics': { file: 'metrics', schema: 'Metrics' },
  'project.metrics.categories': { file: 'metrics/categories', schema: 'MetricsCategories' },
  'project.metrics.topics': { file: 'metrics/topics', schema: 'MetricsTopics' },
  'project.users': { file: 'users', schema: 'Users' },
  'project.users.notifications': { file: 'users/notifications', schema: 'UsersNotifications' },
  'project.users.pushSubscriptions': {
    file: 'users/push-subscriptions',
    schema: 'UsersPushSubscriptions',
  },
  'user.notificationPreferences': { file: 'notification-preferences', schema: 'NotificationPreferences' },
  'user.notifications': { file: 'notifications', schema: 'Notifications' },
  'user.pushSubscriptions': { file: 'push-subscriptions', schema: 'PushSubscriptions' },
  'user.subscriptions': { file: 'subscriptions', schema: 'Subscriptions' },
};
type OperationOf = { file: string; schema: string };

const ajv = new Ajv({ strict: false, allErrors: true });
addFormats.default(ajv);
const main = createRequire(import.meta.url).resolve('magicbell/project-client');

/** The client's schema of a response: `Get` + `Users` + `ResponseSchema`; undefined if it has none. */
async function schemaOf({ file, schema }: OperationOf, method: string): Promise<object | undefined> {
  const path = main.replace(/dist\/.*$/, `dist/esm/schemas/${file}.js`);
  const schemas = (await import(pathToFileURL(path).href)) as Record<string, object>;
  const of = (name: string) => schemas[`${name}${schema}ResponseSchema`];
  return of(`${method[0]?.toUpperCase()}${method.slice(1)}`);
}

/** Calls an operation of a client, and validates the response. */
async function call<Result>(name: string, run: () => PromiseLike<Result>): Promise<Result> {
  called.add(name);
  const at = name.lastIndexOf('.');
  const schema = await schemaOf(OPERATIONS[name.slice(0, at)] as OperationOf, name.slice(at + 1));
  const result = await run();
  if (schema !== undefined) {
    const isValid = ajv.compile(schema);
    const plain: unknown = JSON.parse(JSON.stringify(result));
    expect([name, isValid(plain) ? [] : isValid.errors, plain]).toEqual([name, [], plain]);
  }
  return result;
}

/** The operations of both clients: every method of their resources. */
function operations(): string[] {
  return Object.keys(OPERATIONS).flatMap((path) => {
    const [kind, ...names] = path.split('.');
    let resource: object = kind === 'project' ? project : user;
    for (const name of names) resource = Reflect.get(resource, name) as object;
    return Object.getOwnPropertyNames(Object.getPrototypeOf(resource))
      .filter((method) => method !== 'constructor')
      .map((method) => `${path}.${method}`);
  });
}

interface Listed {
  id: string;
  title: string;
}

/** Sends a notification to Ann, and returns it when it is in her inbox. */
async function notified(title: string): Promise<Listed> {
  await call('project.broadcasts.create', () =>
    project.broadcasts.create({
      title,
      category: 'billing',
      topic: 'news',
      recipients: [{ external_id: 'ann' }],
    }),
  );
  const list = await until(
    async () => user.notifications.list(),
    ({ notifications = [] }) => notifications.some((one) => one.title === title),
  );
  return list.notifications?.find((one) => one.title === title) as Listed;
}

const notFound = (message: string) => expect.objectContaining({ type: 'NotFoundError', message });

describe('users', () => {
  test('are created, read, listed, updated and deleted by every name', async () => {
    const ada = await call('project.users.create', () =>
      project.users.create({
        external_id: 'ada',
        email: 'ada@example.com',
        first_name: 'Ada',
        custom_attributes: { plan: 'pro' },
        phone_numbers: ['+15005550006'],
      }),
    );
    const id = String(ada.id);
    expect(await call('project.users.get', () => project.users.get(id))).toMatchObject({
      external_id: 'ada',
    });
    const { users = [] } = await call('project.users.list', () => project.users.list());
    expect(users).toContainEqual(expect.objectContaining({ id }));
    const byId = await call('project.users.update', () => project.users.update(id, { external_id: 'ada2' }));
    expect(byId).toMatchObject({ id, external_id: 'ada2', first_name: 'Ada' });
    const byEmail = await call('project.users.updateByEmail', () =>
      project.users.updateByEmail('ada@example.com', { last_name: 'Lovelace' }),
    );
    expect(byEmail).toMatchObject({ id, last_name: 'Lovelace' });
    const byExternalId = await call('project.users.updateByExternalId', () =>
      project.users.updateByExternalId('ada2', { first_name: 'Augusta' }),
    );
    expect(byExternalId).toMatchObject({ id, first_name: 'Augusta' });
    await call('project.users.delete', () => project.users.delete(id));
    await expect(project.users.get(id)).rejects.toEqual(
      notFound("A user with the the given id doesn't exist"),
    );
    for (const [externalId, remove] of [
      [
        'by-mail',
        () => call('project.users.deleteByEmail', () => project.users.deleteByEmail('m@example.com')),
      ],
      [
        'by-id',
        () => call('project.users.deleteByExternalId', () => project.users.deleteByExternalId('by-id')),
      ],
    ] as const) {
      const made = await project.users.create({
        external_id: externalId,
        ...(externalId === 'by-mail' ? { email: 'm@example.com' } : {}),
      });
      await remove();
      await expect(project.users.get(String(made.id))).rejects.toMatchObject({ status: 404 });
    }
  });

  test('are imported', async () => {
    const { id } = await call('project.imports.create', () =>
      project.imports.create({
        users: [{ external_id: 'imported', first_name: 'Ida' }, { first_name: 'No one' }],
      }),
    );
    const done = await until(
      () => call('project.imports.get', () => project.imports.get(String(id))),
      ({ status }) => status === 'processed',
    );
    expect(done.summary).toEqual({ total: 2, failures: 1 });
    expect(done.failures?.users).toHaveLength(1);
    expect(await project.users.get('external_id:imported')).toMatchObject({ first_name: 'Ida' });
  });
});

describe('notifications', () => {
  test('are listed, read and changed', async () => {
    const { id } = await notified('Invoice');
    const list = await call('user.notifications.list', () =>
      user.notifications.list({ per_page: 5, category: 'billing', topic: 'news' }),
    );
    expect(list).toMatchObject({ total: 1, unread_count: 1, unseen_count: 1, per_page: 5 });
    expect(await call('user.notifications.get', () => user.notifications.get(id))).toMatchObject({
      title: 'Invoice',
      recipient: { external_id: 'ann' },
      read_at: null,
      sent_at: expect.any(Number),
    });
    const changed = async (change: () => PromiseLike<unknown>) => {
      await change();
      return user.notifications.get(id);
    };
    const set = expect.any(Number);
    expect(
      await changed(() => call('user.notifications.markAsRead', () => user.notifications.markAsRead(id))),
    ).toMatchObject({ read_at: set, seen_at: set });
    expect(
      await changed(() => call('user.notifications.markAsUnread', () => user.notifications.markAsUnread(id))),
    ).toMatchObject({ read_at: null });
    expect(
      await changed(() => call('user.notifications.archive', () => user.notifications.archive(id))),
    ).toMatchObject({ archived_at: set });
    expect((await user.notifications.list()).total).toBe(0);
    expect(
      await changed(() => call('user.notifications.unarchive', () => user.notifications.unarchive(id))),
    ).toMatchObject({ archived_at: null });
    await call('user.notifications.delete', () => user.notifications.delete(id));
    await expect(user.notifications.get(id)).rejects.toEqual(
      notFound("A notification with the the given id doesn't exist"),
    );
  });

  test('are all marked, also with a filter', async () => {
    const { id } = await notified('Receipt');
    await call('user.notifications.markAllSeen', () => user.notifications.markAllSeen());
    expect(await user.notifications.get(id)).toMatchObject({ seen_at: expect.any(Number), read_at: null });
    await user.notifications.markAllRead({ category: 'other' });
    expect(await user.notifications.get(id)).toMatchObject({ read_at: null });
    await call('user.notifications.markAllRead', () =>
      user.notifications.markAllRead({ category: 'billing' }),
    );
    expect(await user.notifications.get(id)).toMatchObject({ read_at: expect.any(Number) });
  });

  test('of a user and of a broadcast are listed with their deliveries', async () => {
    const { id } = await notified('Delivered');
    const ofUser = await call('project.users.notifications.list', () =>
      project.users.notifications.list('external_id:ann'),
    );
    expect(ofUser.notifications[0]).toMatchObject({ id, status: 'unseen', title: 'Delivered' });
    const { broadcasts } = await call('project.broadcasts.list', () => project.broadcasts.list());
    const broadcastId = String(broadcasts[0]?.id);
    expect(await call('project.broadcasts.get', () => project.broadcasts.get(broadcastId))).toMatchObject({
      title: 'Delivered',
      status: { summary: { total: 1, failures: 0 } },
    });
    const ofBroadcast = await call('project.broadcasts.notifications.list', () =>
      project.broadcasts.notifications.list(broadcastId),
    );
    expect(ofBroadcast.notifications).toMatchObject([
      {
        id,
        recipient: { user: { external_id: 'ann' } },
        deliveries: [{ channel: 'in_app', status: 'sent' }],
      },
    ]);
  });

  test('reach the inbox in real time', async () => {
    const frames: string[] = [];
    const listener = user.listen();
    const listening = listener.forEach((event: unknown) => {
      frames.push((event as { name?: string }).name ?? '');
    });
    await until(
      () => service.project.call('GET', '/users/external_id:ann/channels/in_app/inbox/tokens'),
      ({ body }) => body.data.length > 0,
    );
    // Its token is saved before its socket opens, so the first messages may be too early for it.
    const { id } = await notified('Live');
    await until(
      async () => {
        await user.notifications.markAsRead(id);
        await user.notifications.markAsUnread(id);
        return frames;
      },
      () => frames.includes('notifications/read'),
    );
    listener.close();
    await listening;
  });

  test('have metrics', async () => {
    const { metrics, labels } = await call('project.metrics.get', () => project.metrics.get());
    expect(metrics).toHaveLength(labels.length);
    await call('project.metrics.categories.get', () => project.metrics.categories.get());
    await call('project.metrics.topics.get', () => project.metrics.topics.get());
  });
});

describe('what a user chooses', () => {
  test('preferences', async () => {
    const billing = (enabled: boolean) =>
      expect.objectContaining({
        slug: 'billing',
        channels: expect.arrayContaining([expect.objectContaining({ slug: 'in_app', enabled })]),
      });
    const before = await call('user.notificationPreferences.get', () => user.notificationPreferences.get());
    expect(before.categories).toContainEqual(billing(true));
    const after = await call('user.notificationPreferences.update', () =>
      user.notificationPreferences.update({
        categories: [{ slug: 'billing', channels: [{ slug: 'in_app', enabled: false }] }],
      }),
    );
    expect(after.categories).toContainEqual(billing(false));
    await user.notificationPreferences.update({
      categories: [{ slug: 'billing', channels: [{ slug: 'in_app', enabled: true }] }],
    });
  });

  test('devices', async () => {
    const token = newId().replaceAll('-', '').repeat(2);
    const created = await call('user.pushSubscriptions.create', () =>
      user.pushSubscriptions.create({ device_token: token, platform: 'ios' }),
    );
    expect(created).toMatchObject({ device_token: token, platform: 'ios' });
    const { push_subscriptions: own } = await call('user.pushSubscriptions.list', () =>
      user.pushSubscriptions.list(),
    );
    expect(own).toMatchObject([{ device_token: token }]);
    const { push_subscriptions: ofUser } = await call('project.users.pushSubscriptions.list', () =>
      project.users.pushSubscriptions.list('external_id:ann'),
    );
    expect(ofUser).toMatchObject([{ device_token: token }]);
    await call('user.pushSubscriptions.delete', () => user.pushSubscriptions.delete(token));
    await expect(user.pushSubscriptions.delete(token)).rejects.toEqual(
      notFound('No subscription with the provided device token was found'),
    );
  });

  test('topics, whose slashes the client does not encode', async () => {
    await call('user.subscriptions.create', () =>
      user.subscriptions.create({ topic: 'acme/orders', categories: [{ slug: '*', reason: 'watching' }] }),
    );
    const { subscriptions = [] } = await call('user.subscriptions.list', () => user.subscriptions.list());
    expect(subscriptions).toContainEqual(expect.objectContaining({ topic: 'acme/orders' }));
    expect(await call('user.subscriptions.get', () => user.subscriptions.get('acme/orders'))).toMatchObject({
      categories: [{ slug: '*', reason: 'watching' }],
    });
    await call('user.subscriptions.unsubscribe', () =>
      user.subscriptions.unsubscribe('acme/orders', { categories: [{ slug: 'billing' }] }),
    );
    await user.subscriptions.delete('acme/orders', { categories: [{ slug: 'billing' }] });
    expect(await user.subscriptions.get('acme/orders')).toMatchObject({
      categories: [{ slug: '*', reason: 'watching' }],
    });
    await call('user.subscriptions.delete', () => user.subscriptions.delete('acme/orders'));
    await expect(user.subscriptions.get('acme/orders')).rejects.toMatchObject({ status: 404 });
  });
});

test('every operation of the client was called', () => {
  expect([...called].toSorted()).toEqual(operations().toSorted());
});

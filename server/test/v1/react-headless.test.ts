import { createHmac } from 'node:crypto';
import {
  type buildStore,
  clientSettings,
  postAPI,
  useConfig,
  useNotificationPreferences,
  useNotificationStoresCollection,
} from '@magicbell/react-headless';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { processed, startTestService, type TestService } from '../support/service.ts';

// The stores of the published React inbox, which run without a browser.

let service: TestService;

beforeAll(async () => {
  service = await startTestService({ settings: { BRAND: 'magicbell', LEGACY_TIMESTAMPS: 'unix' } });
  const { apiKey, apiSecret, call } = service.project;
  clientSettings.setState({
    apiKey,
    userEmail: 'ann@example.com',
    userKey: createHmac('sha256', apiSecret).update('ann@example.com').digest('base64'),
    serverURL: service.address,
    network: { cacheTTL: 0, maxRetries: 0 },
  });
  await call('PUT', '/channels', { key: 'billing', channels: [{ channel: 'in_app' }, { channel: 'email' }] });
  for (const title of ['First', 'Second', 'Third']) {
    const { body } = await call('POST', '/broadcasts', {
      title,
      category: 'billing',
      recipients: [{ email: 'ann@example.com' }],
    });
    await processed(call, body.id);
  }
});
afterAll(() => service.stop());

const collection = () => useNotificationStoresCollection.getState();
const inbox = () => collection().stores.inbox as ReturnType<typeof buildStore>;
const fetched = async () => {
  await collection().fetchStore('inbox', {}, { reset: true });
  return inbox();
};

test('the inbox is fetched with its counts', async () => {
  collection().setStore('inbox', { archived: false });
  collection().setStore('read', { read: true });
  await collection().fetchAllStores();
  expect(inbox()).toMatchObject({ total: 3, unreadCount: 3, unseenCount: 3, currentPage: 1 });
  expect(inbox().notifications.map(({ title }) => title)).toEqual(['Third', 'Second', 'First']);
  expect(inbox().notifications[0]).toMatchObject({ sentAt: expect.any(Number), readAt: null });
  expect(collection().stores.read?.total).toBe(0);
});

test('each change of a notification is saved', async () => {
  const [third, second] = inbox().notifications;
  if (third === undefined || second === undefined) throw new Error('the inbox is empty');
  expect(await collection().markNotificationAsRead(third)).toBe(true);
  expect(await fetched()).toMatchObject({ unreadCount: 2, unseenCount: 2 });
  expect(await collection().markNotificationAsUnread(third)).toBe(true);
  expect(await fetched()).toMatchObject({ unreadCount: 3, unseenCount: 2 });
  expect(await collection().archiveNotification(second)).toBe(true);
  expect((await fetched()).total).toBe(2);
  expect(await collection().unarchiveNotification(second)).toBe(true);
  expect((await fetched()).total).toBe(3);
  expect(await collection().deleteNotification(second)).toBe(true);
  expect((await fetched()).total).toBe(2);
  expect(await collection().markAllAsSeen({ storeId: 'inbox', persist: true, updateModels: true })).toBe(
    true,
  );
  expect(await fetched()).toMatchObject({ unreadCount: 2, unseenCount: 0 });
  expect(await collection().markAllAsRead({ storeId: 'inbox', persist: true, updateModels: true })).toBe(
    true,
  );
  expect(await fetched()).toMatchObject({ unreadCount: 0, unseenCount: 0 });
});

test('the configuration has what the components read', async () => {
  await useConfig.getState().fetch();
  expect(useConfig.getState().channels?.webPush.enabled).toBe(false);
  // Makes the keys of the project.
  await postAPI('/integrations/web_push/installations/start');
  await useConfig.getState().fetch();
  const { channels, inbox: features } = useConfig.getState();
  expect(features).toMatchObject({
    features: { notificationPreferences: { enabled: true }, noMagicbellBranding: { enabled: true } },
  });
  expect(channels?.webPush.config.vapidAuthentication.publicKey).toMatch(/^[\w-]{80,}$/);
  expect(new URL(channels?.webPush.config.subscribeUrl ?? '').origin).toBe(service.address);
});

test('preferences are read and saved', async () => {
  const billing = () =>
    useNotificationPreferences.getState().categories.find(({ slug }) => slug === 'billing');
  await useNotificationPreferences.getState().fetch();
  expect(billing()?.channels).toContainEqual(expect.objectContaining({ slug: 'in_app', enabled: true }));
  await useNotificationPreferences.getState().save({
    categories: [{ slug: 'billing', channels: [{ slug: 'in_app', enabled: false }] }],
  } as never);
  expect(billing()?.channels).toContainEqual(expect.objectContaining({ slug: 'in_app', enabled: false }));
});

test('a browser is registered for web push', async () => {
  const data = {
    endpoint: 'https://push.example.com/send/1',
    keys: {
      auth: 'tBHItJI5svbpez7KI4CCXg',
      p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM',
    },
  };
  await postAPI('/web_push_subscriptions', { web_push_subscription: { data } });
  const { body } = await service.project.call('GET', '/users/email:ann@example.com/channels/web_push/tokens');
  expect(body.data).toMatchObject([{ endpoint: data.endpoint }]);
});

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { deliveriesOf, devices, reachEverywhere, saveToken } from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// Sends broadcasts on every channel through the whole service, to vendors on loopback that check requests as
// the real ones do.

let service: TestService;
let vendors: Vendors;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`channels ${made}`);
  vendors.reset();
});

async function send(body: object = {}, users = ['ada']): Promise<string> {
  const sent = await project.call('POST', '/broadcasts', {
    title: 'Shipped',
    content: '<p>It arrives on <b>Monday</b> &amp; not before.</p>',
    action_url: 'https://shop.example.com/orders/42',
    recipients: users.map((external_id) => ({ external_id })),
    ...body,
  });
  expect([sent.status, sent.body]).toEqual([201, expect.anything()]);
  return sent.body.id;
}
const texts = () => vendors.phone.requests.map(({ body }) => Object.fromEntries(new URLSearchParams(body)));
const cards = () =>
  vendors.teams.requests.map(({ path, body }) => ({
    path,
    texts: JSON.parse(body).attachments[0].content.body.map((block: { text: string }) => block.text),
  }));
const states = async (id: string) =>
  Object.fromEntries((await deliveriesOf(service, id)).map(({ channel, state }) => [channel, state]));

const TEXT = 'It arrives on Monday & not before.';

test('a broadcast reaches a user on every channel, with the texts of each, and is summarized', async () => {
  await vendors.setUp(project);
  const { browser, channel } = await reachEverywhere(project, vendors, 'ada');
  const id = await send({ custom_attributes: { order: 42 }, category: 'orders', topic: 'order-42' });
  const { status } = await processed(project.call, id);
  expect(status).toMatchObject({ summary: { total: 1, failures: 0, pending: 0 }, errors: null });

  const { mail, apple, google, expo, slack } = vendors;
  const inbox = (await project.as('ada')('GET', '/notifications')).body.data;
  const [{ id: notificationId }] = inbox;
  expect(await Promise.all(mail.received.map(async (one) => (await one.parsed()).subject))).toEqual([
    'Shipped',
  ]);
  expect(texts()).toEqual([
    expect.objectContaining({
      To: '+15005550001',
      From: '+14155550100',
      Body: `Shipped\n${TEXT}\nhttps://shop.example.com/orders/42`,
    }),
  ]);
  expect(apple.pushes).toMatchObject([
    {
      deviceToken: devices.apns('ada'),
      payload: {
        aps: { alert: { title: 'Shipped', body: TEXT }, badge: 1 },
        id: notificationId,
        custom_attributes: { order: 42 },
      },
    },
  ]);
  expect(google.messages).toMatchObject([
    { token: devices.fcm('ada'), notification: { title: 'Shipped', body: TEXT } },
  ]);
  expect(expo.messages).toMatchObject([
    { to: devices.expo('ada'), title: 'Shipped', body: TEXT, badge: 1, data: { id: notificationId } },
  ]);
  const [pushed] = await vendors.browsers.notifications(browser.clientHash);
  expect(JSON.parse(pushed ?? '')).toMatchObject({ id: notificationId, title: 'Shipped', content: TEXT });
  expect(new Map(slack.posted.map(({ to, body }) => [to, body.text]))).toEqual(
    new Map(
      [channel, `${channel}BOT`, '/services/ada'].map((to) => [
        to,
        expect.stringContaining('It arrives on *Monday* &amp; not before.'),
      ]),
    ),
  );
  expect(cards()).toEqual([{ path: '/ada', texts: ['Shipped', TEXT] }]);
  expect(await deliveriesOf(service, id)).toMatchObject([
    { channel: 'email', state: 'sent', provider: 'smtp', targets: null },
    { channel: 'mobile_push', state: 'sent', targets: { accepted: 3, gone: 0, failed: 0 } },
    { channel: 'slack', state: 'sent', targets: { accepted: 3, gone: 0, failed: 0 } },
    { channel: 'sms', state: 'sent', provider: 'twilio', targets: null },
    { channel: 'teams', state: 'sent', provider: 'teams', targets: null },
    { channel: 'web_push', state: 'sent', provider: 'web_push', targets: null },
  ]);
});

test('overrides replace texts of a channel; those of a provider are merged into its payload', async () => {
  await vendors.setUp(project);
  const { browser } = await reachEverywhere(project, vendors, 'ada');
  const other = (name: string) => ({
    title: `For ${name}`,
    content: `<i>${name}</i> only`,
    action_url: null,
  });
  const names = ['mobile_push', 'sms', 'web_push', 'slack', 'teams', 'email'];
  const id = await send({
    overrides: {
      channels: Object.fromEntries(names.map((name) => [name, other(name)])),
      providers: {
        apns: { aps: { sound: 'bell.aiff' } },
        fcm: { android: { collapse_key: 'orders' } },
        expo: { channelId: 'orders' },
        twilio: { MessagingServiceSid: 'MG1' },
        slack: { unfurl_links: true },
        web_push: { icon: '/icon.png' },
        teams: { summary: 'An order' },
      },
    },
  });
  await processed(project.call, id);
  const { apple, google, expo, slack, teams } = vendors;
  const alert = { title: 'For mobile_push', body: 'mobile_push only' };
  expect(apple.pushes[0]?.payload).toMatchObject({ aps: { alert, sound: 'bell.aiff' } });
  expect(apple.pushes[0]?.payload).not.toHaveProperty('action_url');
  expect(google.messages[0]).toMatchObject({ notification: alert, android: { collapse_key: 'orders' } });
  expect(expo.messages[0]).toMatchObject({ ...alert, channelId: 'orders' });
  expect(texts()).toEqual([
    expect.objectContaining({ Body: 'For sms\nsms only', MessagingServiceSid: 'MG1' }),
  ]);
  const [pushed] = await vendors.browsers.notifications(browser.clientHash);
  expect(JSON.parse(pushed ?? '')).toMatchObject({ title: 'For web_push', icon: '/icon.png' });
  expect(slack.posted).toHaveLength(3);
  for (const { body } of slack.posted)
    expect(body).toMatchObject({ text: expect.stringContaining('_slack_ only'), unfurl_links: true });
  expect(JSON.parse(teams.requests[0]?.body ?? '')).toMatchObject({ summary: 'An order' });
  expect(cards()[0]?.texts).toEqual(['For teams', 'teams only']);
});

describe('a user who cannot be reached on other channels', () => {
  test('has the notification in the inbox, and a reason why each channel was skipped', async () => {
    await vendors.setUp(project);
    await project.call('PUT', '/integrations/teams', {}); // no webhook for users without a destination
    const id = await send({}, ['unreachable']);
    const { status } = await processed(project.call, id);
    expect(status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await deliveriesOf(service, id)).toEqual([]);
    const { data } = (await project.call('GET', '/events?type=delivery.skipped')).body;
    expect(
      data
        .map(({ context }: { context: { channel: string; code: string } }) => [context.channel, context.code])
        .sort(),
    ).toEqual(
      ['email', 'mobile_push', 'slack', 'sms', 'teams', 'web_push'].map((name) => [name, 'unreachable']),
    );
    expect((await project.as('unreachable')('GET', '/notifications')).body.data).toHaveLength(1);
  });

  test('is also unreachable through a provider without integration or a disabled Slack app', async () => {
    await vendors.setUp(project, ['expo']);
    await project.call('PUT', '/integrations/service_slackbot', { enabled: false });
    await saveToken(project, 'ada', 'mobile_push/fcm', { device_token: devices.fcm('ada') });
    const id = await send();
    await processed(project.call, id);
    const { data } = (await project.call('GET', '/events?type=delivery.*')).body;
    expect(data.map((event: { context: { channel: string } }) => event.context.channel)).toEqual([
      'mobile_push',
      'in_app',
    ]);
  });
});

test('preferences and the category config apply on every channel', async () => {
  await vendors.setUp(project);
  for (const user of ['ada', 'bob']) await reachEverywhere(project, vendors, user);
  const listed = ['in_app', 'sms', 'mobile_push', 'slack'];
  await project.call('PUT', '/channels', {
    key: 'orders',
    channels: [...listed.map((channel) => ({ channel })), { channel: 'web_push', if: 'notification.read' }],
  });
  await project.as('bob')('PUT', '/channels/user_preferences', {
    categories: [{ key: 'orders', channels: ['sms', 'slack'].map((name) => ({ name, enabled: false })) }],
  });
  const id = await send({ category: 'orders' }, ['ada', 'bob']);
  const { status } = await processed(project.call, id);
  expect(status.summary).toEqual({ total: 2, failures: 0, pending: 0 });
  const { mail, apple, slack, teams } = vendors;
  expect([mail.received.length, teams.requests.length]).toEqual([0, 0]);
  expect([texts().length, apple.pushes.length, slack.posted.length]).toEqual([1, 2, 3]);
  const rows = await deliveriesOf(service, id);
  expect(rows.map(({ channel, state, code }) => [channel, state, code])).toEqual([
    ['mobile_push', 'sent', null],
    ['mobile_push', 'sent', null],
    ['slack', 'sent', null],
    ['sms', 'sent', null],
    ['web_push', 'skipped', 'condition_false'],
    ['web_push', 'skipped', 'condition_false'],
  ]);
});

test('a channel with a delay uses the addresses that the user has when it is due', async () => {
  await vendors.setUp(project, ['expo', 'teams']);
  await project.call('PUT', '/integrations/teams', {}); // no webhook for users without a destination
  await project.call('PUT', '/channels', {
    key: 'later',
    channels: [{ channel: 'mobile_push', delay: 2 }, { channel: 'teams' }],
  });
  const first = await saveToken(project, 'ada', 'mobile_push/expo', { device_token: devices.expo('old') });
  const id = await send({ category: 'later' });
  await until(
    () => project.call('GET', '/events?type=delivery.scheduled'),
    ({ body }) => body.data.length === 1,
  );
  await project.as('ada')('DELETE', `/channels/mobile_push/expo/tokens/${first}`);
  await saveToken(project, 'ada', 'mobile_push/expo', { device_token: devices.expo('new') });
  await processed(project.call, id);
  expect(vendors.expo.messages.map(({ to }) => to)).toEqual([devices.expo('new')]);
  expect(await states(id)).toEqual({ mobile_push: 'sent' });
});

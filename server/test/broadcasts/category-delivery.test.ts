import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { listPages } from '../support/pages.ts';
import { openStream, titles } from '../support/realtime.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { STORED_EVENTS } from '../support/stored-events.ts';

let service: TestService;
let mail: SmtpStandIn;
let project: TestProject;
let made = 0;

beforeAll(async () => {
  [service, mail] = await Promise.all([
    startTestService({ pollMs: 50 }),
    startSmtpStandIn({ account: { username: 'mailer', password: 'open sesame' } }),
  ]);
});
afterAll(async () => {
  await Promise.all([service?.stop(), mail?.stop()]);
});
beforeEach(async () => {
  made += 1;
  mail.received.length = 0;
  project = await service.createProject(`category ${made}`);
});

const withMail = () =>
  project.call('PUT', '/integrations/smtp', {
    host: '127.0.0.1',
    port: mail.port,
    username: 'mailer',
    password: 'open sesame',
    from: { email: 'news@example.com' },
    security: 'none',
  });
const configure = async (channels: object[], more: object = {}) => {
  const saved = await project.call('PUT', '/channels', { key: 'orders', channels, ...more });
  expect(saved.status).toBe(200);
};
const send = async (body: object = {}): Promise<string> =>
  (
    await project.call('POST', '/broadcasts', {
      title: 'Hello',
      category: 'orders',
      recipients: [{ external_id: 'ada', email: 'ada@example.com' }],
      ...body,
    })
  ).body.id;
const prefer = (user: string, channels: Record<string, boolean>, key = 'orders') =>
  project.as(user)('PUT', '/channels/user_preferences', {
    categories: [{ key, channels: Object.entries(channels).map(([name, enabled]) => ({ name, enabled })) }],
  });
const inbox = async (user = 'ada') =>
  (await project.as(user)('GET', '/notifications')).body.data.map((one: { title: string }) => one.title);
const mailed = async () => Promise.all(mail.received.map(async (email) => (await email.parsed()).subject));

interface Recorded {
  type: string;
  channel: string;
  code: string | undefined;
  log: string | undefined;
  users: number;
}

/** The event of the users whose inboxes show the notification at once. */
const shownTo = (users: number): Recorded => ({
  type: 'sent',
  channel: 'in_app',
  code: undefined,
  log: undefined,
  users,
});

/** The events of a broadcast's deliveries, each row once. */
async function deliveryEvents(broadcastId: string): Promise<Recorded[]> {
  const rows = await service.rows<{ type: string; details: string; users: number }>(
    `select type, details::text, cardinality(user_ids) as users
      from ${STORED_EVENTS}
      where broadcast_id = $1 and type like 'delivery.%'
      order by id, place`,
    [broadcastId],
  );
  return rows.flatMap(({ type, details, users }) => {
    const read = JSON.parse(details);
    const all = Array.isArray(read) ? read : [read];
    return all.map(({ code, log, context }) => ({
      type: type.replace('delivery.', ''),
      channel: context.channel,
      code,
      log,
      users: Array.isArray(read) ? 1 : users,
    }));
  });
}

/** Makes all scheduled jobs due now. */
const bringForward = () =>
  service.rows("update jobs set due_at = now() - interval '1 second' where due_at is not null");
const waiting = () =>
  service.rows<{ due_at: Date; payload: string }>(
    'select due_at, payload::text from jobs where project_id = $1 and due_at is not null',
    [project.id],
  );
const scheduled = (count = 1) => until(waiting, (jobs) => jobs.length === count);

describe('without a category config', () => {
  test('a category is sent on every configured channel, and no event names the other channels', async () => {
    await withMail();
    const id = await send();
    await processed(project.call, id);
    expect([await inbox(), await mailed()]).toEqual([['Hello'], ['Hello']]);
    expect(await deliveryEvents(id)).toMatchObject([shownTo(1), { type: 'sent', channel: 'email' }]);
  });

  test('users that cannot be reached on a channel are one event, whatever their number', async () => {
    await withMail();
    const recipients = Array.from({ length: 120 }, (_none, index) => ({ external_id: `u${index}` }));
    const id = await send({ recipients });
    await processed(project.call, id);
    expect(await deliveryEvents(id)).toEqual([
      shownTo(120),
      {
        type: 'skipped',
        channel: 'email',
        code: 'unreachable',
        log: 'the user has no e-mail address',
        users: 120,
      },
    ]);
    expect(await inbox('u119')).toEqual(['Hello']);
  });

  test('a user who disabled a channel for the category gets the others', async () => {
    await withMail();
    await prefer('ada', { email: false });
    const id = await send({
      recipients: [
        { external_id: 'ada', email: 'ada@example.com' },
        { external_id: 'bob', email: 'bob@example.com' },
      ],
    });
    await processed(project.call, id);
    expect(mail.received.map((one) => one.to)).toEqual(['bob@example.com']);
    expect(await inbox()).toEqual(['Hello']);
    expect(await deliveryEvents(id)).toMatchObject([
      shownTo(2),
      { type: 'skipped', channel: 'email', code: 'switched_off', users: 1 },
      { type: 'sent', channel: 'email' },
    ]);
    await processed(project.call, await send({ category: 'other' }));
    await processed(project.call, await send({ category: null }));
    expect(mail.received).toHaveLength(3);
  });

  test('preferences for the default category apply only to broadcasts without a category', async () => {
    await withMail();
    await prefer('ada', { email: false }, 'uncategorized');
    await processed(project.call, await send({ category: null, title: 'none' }));
    await processed(project.call, await send({ category: 'uncategorized', title: 'named so' }));
    expect(await mailed()).toEqual(['named so']);
  });
});

describe('the inbox', () => {
  test('shows nothing of a disabled category to the user, in no list, count or stream', async () => {
    const jwt = project.userJwt({ user_external_id: 'ada' });
    const stream = await openStream(`${service.address}/v2/notifications/stream`, { jwt });
    onTestFinished(() => stream.source.close());
    await prefer('ada', { in_app: false });
    const recipients = [{ external_id: 'ada' }, { external_id: 'bob' }];
    const id = await send({ recipients });
    await processed(project.call, id);
    expect([await inbox('ada'), await inbox('bob')]).toEqual([[], ['Hello']]);
    expect((await project.as('ada')('GET', '/notifications/unread/count')).body).toEqual({ count: 0 });
    await project.as('ada')('POST', '/notifications/read');
    expect(await deliveryEvents(id)).toEqual([
      {
        type: 'skipped',
        channel: 'in_app',
        code: 'switched_off',
        log: 'the user has switched this category off on this channel',
        users: 1,
      },
      shownTo(1),
    ]);
    const [held] = await service.rows<{ id: string }>(
      `select n.id from notifications n join users u on u.id = n.user_id where n.broadcast_id = $1
          and u.external_id = 'ada'`,
      [id],
    );
    expect((await project.as('ada')('GET', `/notifications/${held?.id}`)).status).toBe(404);
    expect((await project.as('ada')('POST', `/notifications/${held?.id}/read`)).status).toBe(404);
    expect((await project.as('ada')('DELETE', `/notifications/${held?.id}`)).status).toBe(404);
    await processed(project.call, await send({ category: 'other', title: 'Shown' }));
    await expect.poll(() => stream.frames.length).toBeGreaterThan(0);
    const announced = stream.frames.filter(({ name }) => name === 'notifications/new');
    expect(titles(announced)).toEqual(['Shown']);
  });

  test('sends no hidden notification to a client that reconnects', async () => {
    const jwt = project.userJwt({ user_external_id: 'ada' });
    const url = `${service.address}/v2/notifications/stream`;
    const disconnected = await openStream(url, { jwt });
    await processed(project.call, await send({ category: 'other', title: 'first' }));
    await expect.poll(() => titles(disconnected.frames)).toEqual(['first']);
    disconnected.source.close();
    await configure([{ channel: 'email' }]);
    await processed(project.call, await send({ title: 'hidden' }));
    const reconnected = await openStream(url, { jwt, lastEventId: disconnected.lastEventId() });
    onTestFinished(() => reconnected.source.close());
    await processed(project.call, await send({ category: 'other', title: 'second' }));
    await expect.poll(() => titles(reconnected.frames)).toEqual(['second']);
  });

  test('shows nothing if the category does not list in_app, while listed channels send', async () => {
    await withMail();
    await configure([{ channel: 'email' }]);
    const id = await send();
    expect((await processed(project.call, id)).status).toEqual({
      status: 'processed',
      summary: { total: 1, failures: 0, pending: 0 },
      errors: null,
    });
    expect([await inbox(), await mailed()]).toEqual([[], ['Hello']]);
    expect(await deliveryEvents(id)).toMatchObject([
      { type: 'skipped', channel: 'in_app', code: 'channel_not_listed', users: 1 },
      { type: 'sent', channel: 'email' },
    ]);
  });

  test('with a delay shows it when due, as the newest, to connected and reconnecting clients', async () => {
    await configure([{ channel: 'in_app', delay: 600 }]);
    const jwt = project.userJwt({ user_external_id: 'ada' });
    const url = `${service.address}/v2/notifications/stream`;
    const [disconnected, stream] = [await openStream(url, { jwt }), await openStream(url, { jwt })];
    onTestFinished(() => stream.source.close());
    await processed(project.call, await send({ category: 'other', title: 'first' }));
    await expect.poll(() => titles(disconnected.frames)).toEqual(['first']);
    disconnected.source.close();
    const id = await send();
    const [job] = await scheduled();
    const delayMs = (job?.due_at.getTime() ?? 0) - service.context.clock.now();
    expect(delayMs).toBeGreaterThan(590_000);
    expect(delayMs).toBeLessThanOrEqual(600_000);
    expect(await inbox()).toEqual(['first']);
    expect((await project.call('GET', `/broadcasts/${id}`)).body.status).toMatchObject({
      status: 'processed',
      summary: { pending: 1 },
    });
    await bringForward();
    await processed(project.call, id);
    expect(await inbox()).toEqual(['Hello', 'first']);
    await expect.poll(() => titles(stream.frames)).toEqual(['first', 'Hello']);
    const reconnected = await openStream(url, { jwt, lastEventId: disconnected.lastEventId() });
    onTestFinished(() => reconnected.source.close());
    await expect.poll(() => reconnected.frames.length).toBeGreaterThan(0);
    await processed(project.call, await send({ category: 'other', title: 'last' }));
    await expect.poll(() => titles(reconnected.frames)).toContain('last');
    expect(reconnected.frames.map(({ name }) => name)).toEqual(['notifications/new', 'notifications/new']);
    expect(titles(reconnected.frames)).toEqual(['Hello', 'last']);
    expect(await deliveryEvents(id)).toMatchObject([
      { type: 'scheduled', channel: 'in_app', users: 1 },
      { type: 'sent', channel: 'in_app' },
    ]);
  });

  test('with a delay lists it where it arrived, above later ones, in both paging directions', async () => {
    await configure([{ channel: 'in_app', delay: 600 }]);
    await processed(project.call, await send({ category: 'other', title: 'before' }));
    const delayed = await send();
    await processed(project.call, await send({ category: 'other', title: 'meanwhile' }));
    await scheduled();
    await bringForward();
    await processed(project.call, delayed);
    await processed(project.call, await send({ category: 'other', title: 'after' }));
    const order = ['after', 'Hello', 'meanwhile', 'before'];
    expect(await inbox()).toEqual(order);

    const user = project.as('ada');
    const pages = async (from: string, direction: 'next' | 'prev') => {
      const found = await listPages<{ title: string }>(user, from, direction);
      return found.flat().map(({ title }) => title);
    };
    expect(await pages('/notifications?limit=1', 'next')).toEqual(order);
    const { body } = await user('GET', '/notifications?limit=4');
    const oldest = body.data.at(-1).id;
    expect(await pages(`/notifications?limit=1&ending_before=${oldest}`, 'prev')).toEqual(
      order.slice(0, -1).reverse(),
    );
  });

  test('with a condition shows it only to users for whom the condition is true', async () => {
    await configure([{ channel: 'in_app', if: "user.custom_attributes.plan == 'premium'" }]);
    const id = await send({
      recipients: [
        { external_id: 'ada', custom_attributes: { plan: 'premium' } },
        { external_id: 'bob', custom_attributes: { plan: 'free' } },
        { external_id: 'eve' },
      ],
    });
    await processed(project.call, id);
    expect([await inbox('ada'), await inbox('bob'), await inbox('eve')]).toEqual([['Hello'], [], []]);
    const events = await deliveryEvents(id);
    expect(events.filter(({ type }) => type === 'skipped')).toEqual(
      Array(2).fill({
        type: 'skipped',
        channel: 'in_app',
        code: 'condition_false',
        log: "the condition is false: user.custom_attributes.plan == 'premium'",
        users: 1,
      }),
    );
    expect(events.filter(({ type }) => type === 'sent')).toHaveLength(1);
  });
});

describe('a delayed e-mail that requires an unseen notification', () => {
  beforeEach(async () => {
    await withMail();
    await configure([
      { channel: 'in_app' },
      { channel: 'email', delay: 900, if: '{{notification.unseen}} == true' },
    ]);
  });

  test('is sent only to users that have not seen the notification', async () => {
    const id = await send({
      recipients: ['ada', 'bob', 'eve', 'joe'].map((name) => ({
        external_id: name,
        email: `${name}@example.com`,
      })),
    });
    await scheduled();
    expect(await inbox('bob')).toEqual(['Hello']);
    await project.as('bob')('POST', '/notifications/seen');
    const [one] = (await project.as('eve')('GET', '/notifications')).body.data;
    await project.as('eve')('DELETE', `/notifications/${one.id}`);
    const [other] = (await project.as('joe')('GET', '/notifications')).body.data;
    await project.as('joe')('POST', `/notifications/${other.id}/archive`);
    expect(mail.received).toEqual([]);
    await bringForward();
    await processed(project.call, id);
    expect(mail.received.map((email) => email.to)).toEqual(['ada@example.com']);
    const skipped = (await deliveryEvents(id)).filter(({ type }) => type === 'skipped');
    expect(skipped).toHaveLength(3);
    expect(skipped[0]).toMatchObject({ channel: 'email', code: 'condition_false' });
  });

  test('is not sent if the category or the channel of the user was disabled meanwhile', async () => {
    const first = await send();
    await scheduled();
    await configure([{ channel: 'in_app' }, { channel: 'email' }], { disabled: true });
    await bringForward();
    await processed(project.call, first);
    await configure([{ channel: 'in_app' }, { channel: 'email', delay: 900 }]);
    const second = await send();
    await scheduled();
    await prefer('ada', { email: false });
    await bringForward();
    await processed(project.call, second);
    await prefer('ada', { email: true });
    const third = await send();
    await scheduled();
    await configure([{ channel: 'in_app' }]);
    await bringForward();
    await processed(project.call, third);
    expect(mail.received).toEqual([]);
    const codes = async (id: string) => (await deliveryEvents(id)).map(({ type, code }) => code ?? type);
    expect(await codes(first)).toEqual(['sent', 'scheduled', 'category_disabled']);
    expect(await codes(second)).toEqual(['sent', 'scheduled', 'switched_off']);
    expect(await codes(third)).toEqual(['sent', 'scheduled', 'channel_not_listed']);
  });

  test('survives a restart of the service', async () => {
    const id = await send();
    await scheduled();
    await service.restart();
    await bringForward();
    await processed(project.call, id);
    expect(await mailed()).toEqual(['Hello']);
  });

  test('a delay of 400 days is kept, and outlives the retention of broadcasts', async () => {
    await configure([{ channel: 'email', delay: 34_560_000 }]);
    const id = await send();
    const [job] = await scheduled();
    const days = ((job?.due_at.getTime() ?? 0) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(399.9);
    expect(days).toBeLessThanOrEqual(400);
    const clock = { now: () => Date.now() + 399 * 86_400_000 };
    expect(service.context.config.NOTIFICATIONS_RETENTION_DAYS).toBeLessThan(399);
    await purgeExpired({ ...service.context, clock }, new AbortController().signal);
    await bringForward();
    await processed(project.call, id);
    expect(await mailed()).toEqual(['Hello']);
  });
});

test('a disabled category sends nothing; the broadcast ends with events that give the reason', async () => {
  await withMail();
  await configure([{ channel: 'in_app' }, { channel: 'email' }], { disabled: true });
  const id = await send();
  expect((await processed(project.call, id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
  expect([await inbox(), await mailed()]).toEqual([[], []]);
  const skipped = { type: 'skipped', code: 'category_disabled', log: 'the category is disabled', users: 1 };
  expect(await deliveryEvents(id)).toEqual([
    { ...skipped, channel: 'in_app' },
    { ...skipped, channel: 'email' },
  ]);
});

test('a condition that cannot be evaluated over the data sends nothing and gives the reason', async () => {
  await configure([{ channel: 'in_app', if: "user.custom_attributes.age > 'x'" }]);
  const id = await send({ recipients: [{ external_id: 'ada', custom_attributes: { age: 5 } }] });
  await processed(project.call, id);
  expect(await inbox()).toEqual([]);
  expect(await deliveryEvents(id)).toMatchObject([
    {
      type: 'skipped',
      code: 'condition_failed',
      log: 'the condition cannot be evaluated: no such overload: dyn<double> > string',
    },
  ]);
});

test.each([
  ["user.custom_attributes.plan == 'pro'", 'condition_failed'],
  ["{{ user.custom_attributes.plan }} == 'pro'", 'condition_failed'],
  ["input.custom_attributes.plan == 'pro'", 'condition_failed'],
  ['{{ notification.custom_attributes }} != null', 'condition_failed'],
  ["user.external_id == 'ada' && notification.title == 'Hello'", undefined],
])('attributes too large to evaluate fail only conditions that read them: %s', async (text, code) => {
  await configure([{ channel: 'in_app', if: text }]);
  const custom_attributes = { plan: 'pro', large: 'x'.repeat(128 * 1024) };
  const id = await send({ recipients: [{ external_id: 'ada', custom_attributes }], custom_attributes });
  await processed(project.call, id);
  expect(await inbox()).toEqual(code === undefined ? ['Hello'] : []);
  const events = await deliveryEvents(id);
  expect(events.find(({ type }) => type === 'skipped')?.code).toBe(code);
  if (code !== undefined)
    expect(events[0]?.log).toContain('custom_attributes have more than 131072 characters');
});

test('broadcasts of many categories and projects in one batch each follow their own rules', async () => {
  await withMail();
  const other = await service.createProject(`category ${made} other`);
  await configure([{ channel: 'email' }]);
  await prefer('ada', { email: false }, 'news');
  const bodies = ['orders', 'news', 'plain', null].map((category) => ({ title: `${category}`, category }));
  const ids = await Promise.all(bodies.map((body) => send(body)));
  const elsewhere = await other.call('POST', '/broadcasts', {
    title: 'elsewhere',
    category: 'orders',
    recipients: [{ external_id: 'ada', email: 'ada@example.com' }],
  });
  await Promise.all(ids.map((id) => processed(project.call, id)));
  await processed(other.call, elsewhere.body.id);
  expect((await mailed()).toSorted()).toEqual(['null', 'orders', 'plain']);
  expect((await inbox()).toSorted()).toEqual(['news', 'null', 'plain']);
  const { body } = await other.as('ada')('GET', '/notifications');
  expect(body.data).toHaveLength(1);
});

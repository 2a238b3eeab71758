import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DeliveryRecord } from '../../src/contract/delivery.ts';
import type { Event } from '../../src/contract/event.ts';
import { bringForward, devices, saveToken } from '../support/all-channels.ts';
import { listAll } from '../support/pages.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { QUEUED, startVendors, type Vendors } from '../support/vendors.ts';

// Sends many broadcasts on all channels. Users differ in the channels that reach them and in their
// preferences. Each vendor rejects one user for good and fails now and then. Some failed deliveries are
// replayed. In the end, every notification has one final state on every channel, and the deliveries, the
// events and the summaries of the broadcasts agree. FAULT_SEED repeats a run.

const USERS = 22;
const BROADCASTS = 14;
const CHANNELS = ['in_app', 'email', 'sms', 'mobile_push', 'web_push', 'slack', 'teams'];
const FINAL = new Set(['sent', 'failed', 'skipped']);

const seed = newSeed();
const random = randomFrom(seed);
const chance = (share: number) => random() < share;
const some = <Item>(items: readonly Item[], share: number) => items.filter(() => chance(share));

let vendors: Vendors;
let service: TestService;
let project: TestProject;

beforeAll(async () => {
  console.info(`accounting: FAULT_SEED=${seed}`);
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
  project = service.project;
  await vendors.setUp(project);
  // The project has no Teams webhook of its own: users without a destination would share it, and Microsoft
  // allows a hundred messages an hour.
  expect((await project.call('PUT', '/integrations/teams', {})).status).toBe(200);
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});

const users = Array.from({ length: USERS }, (_none, index) => `u${index}`);
const categories = ['plain', 'mixed', 'later', 'conditional', 'off', 'inbox-last'];

/** The channels of each category. */
async function configureCategories(): Promise<void> {
  const configs: Record<string, object[]> = {
    mixed: some(CHANNELS, 0.6).map((channel) => ({ channel })),
    later: CHANNELS.map((channel) => ({
      channel,
      ...(chance(0.5) ? { delay: 1 + Math.floor(random() * 900) } : {}),
    })),
    conditional: CHANNELS.map((channel) => ({
      channel,
      ...(chance(0.6) ? { if: "user.custom_attributes.plan == 'premium'", delay: chance(0.5) ? 5 : 0 } : {}),
    })),
    'inbox-last': [
      { channel: 'email' },
      { channel: 'in_app', delay: 60, if: '{{notification.unseen}} == true' },
    ],
  };
  for (const [key, channels] of Object.entries(configs)) {
    const saved = await project.call('PUT', '/channels', { key, channels });
    expect([key, saved.status]).toEqual([key, 200]);
  }
  const off = { key: 'off', channels: CHANNELS.map((channel) => ({ channel })), disabled: true };
  expect((await project.call('PUT', '/channels', off)).status).toBe(200);
}

/** Users that differ in their channels and preferences. */
async function makeUser(name: string, index: number): Promise<void> {
  const saved = await project.call('PUT', '/users', {
    external_id: name,
    ...(chance(0.8) ? { email: `${name}@example.com` } : {}),
    ...(chance(0.7) ? { phone_numbers: [`+1500555${String(1000 + index)}`] } : {}),
    custom_attributes: { plan: chance(0.5) ? 'premium' : 'free' },
  });
  expect(saved.status).toBe(200);
  for (const platform of some(['apns', 'fcm', 'expo'] as const, 0.6))
    await saveToken(project, name, `mobile_push/${platform}`, { device_token: devices[platform](name) });
  if (chance(0.6)) {
    const { public_key: publicKey } = vendors.configs.web_push as { public_key: string };
    const { endpoint, keys, clientHash } = await vendors.browsers.subscribe(publicKey);
    await saveToken(project, name, 'web_push', { endpoint, keys });
    if (chance(0.3)) await vendors.browsers.expire(clientHash);
  }
  if (chance(0.5))
    await saveToken(project, name, 'slack', { webhook: { url: `${vendors.slack.webhooksUrl}/${name}` } });
  if (chance(0.5))
    await saveToken(project, name, 'teams', { webhook: { url: `${vendors.teams.address}/${name}` } });
  if (chance(0.4)) {
    const wishes = some(categories, 0.5).map((key) => ({
      key,
      channels: some(CHANNELS, 0.3).map((channel) => ({ name: channel, enabled: false })),
    }));
    const response = await project.as(name)('PUT', '/channels/user_preferences', {
      categories: wishes.filter(({ channels }) => channels.length > 0),
    });
    expect(response.status).toBe(204);
  }
}

/** For each vendor: the user that it rejects for good, and the users for whom it fails at first. */
function breakVendors(): void {
  const { mail, phone, apple, google, expo, slack, teams } = vendors;
  for (const name of users) {
    const to = `${name}@example.com`;
    if (chance(0.15))
      mail.fail({ at: 'rcpt', how: { reply: '550 5.1.1 No such user' }, when: (email) => email.to === to });
    if (chance(0.15))
      mail.fail({
        at: 'end',
        how: { reply: '554 5.7.1 Not this' },
        when: (email) => email.to === to,
        times: 3,
      });
    if (chance(0.3))
      mail.fail({
        at: 'rcpt',
        how: { reply: '451 4.3.0 Later' },
        when: (email) => email.to === to,
        times: 2,
      });
    const fate = random();
    if (fate < 0.15)
      apple.fail(devices.apns(name), 410, 'Unregistered', { timestamp: Date.now() + 3_600_000 });
    else if (fate < 0.3) apple.fail(devices.apns(name), 413, 'PayloadTooLarge');
    if (chance(0.15))
      google.fail(devices.fcm(name), {
        status: 404,
        body: { error: { code: 404, status: 'NOT_FOUND', details: [{ errorCode: 'UNREGISTERED' }] } },
      });
    if (chance(0.2)) expo.fail(devices.expo(name), 'MessageTooBig');
    if (chance(0.3))
      slack.refusals.set(`/services/${name}`, [
        { status: 500, headers: {} },
        { status: 404, headers: {} },
      ]);
  }
  const bad = some(
    users.map((_name, index) => `+1500555${String(1000 + index)}`),
    0.3,
  );
  let requests = 0;
  phone.reply(({ body }) => {
    requests += 1;
    const to = new URLSearchParams(body).get('To') ?? '';
    if (bad.includes(to)) return { status: 400, body: { code: 21211, message: 'Invalid To', status: 400 } };
    return requests % 5 === 0
      ? { status: 429, body: { code: 20429, message: 'Too many', status: 429 } }
      : QUEUED;
  });
  let posted = 0;
  teams.reply(() => {
    posted += 1;
    return posted % 4 === 0 ? { status: 500 } : { status: posted % 7 === 0 ? 400 : 202 };
  });
}

/** Every vendor accepts every user again. */
async function healVendors(): Promise<void> {
  for (const { id } of await listAll<{ id: string }>(project.call, '/suppressions?limit=100'))
    expect((await project.call('DELETE', `/suppressions/${id}`)).status).toBe(204);
  vendors.mail.heal();
  vendors.phone.reply(QUEUED);
  vendors.teams.reply({ status: 202 });
}

interface Sent {
  id: string;
  users: ReadonlySet<string>;
}

async function sendAll(): Promise<Sent[]> {
  const subscribers = some(users, 0.5);
  for (const name of subscribers)
    expect((await project.as(name)('POST', '/subscriptions', { topic: 'news' })).status).toBe(200);
  const sent: Sent[] = [];
  for (let number = 0; number < BROADCASTS; number += 1) {
    const named = some(users, 0.4);
    const topic = chance(0.3) || named.length === 0;
    const { status, body } = await project.call('POST', '/broadcasts', {
      title: `Number ${number}`,
      content: 'Hello',
      topic: 'news',
      category: chance(0.2) ? null : categories[Math.floor(random() * categories.length)],
      recipients: [
        ...named.map((external_id) => ({ external_id })),
        ...(topic ? [{ topic: { subscribers: true } }] : []),
      ],
    });
    expect([status, body.errors]).toEqual([201, undefined]);
    sent.push({ id: body.id, users: new Set([...named, ...(topic ? subscribers : [])]) });
  }
  return sent;
}

/** Waits until no delivery is in flight; deferred and scheduled ones have their time to finish. */
async function allProcessed(sent: readonly Sent[]): Promise<void> {
  await until(
    async () => {
      await bringForward(service);
      const { body } = await project.call('GET', '/broadcasts?limit=100');
      const left = body.data.filter(
        ({ status }: { status: { status: string; summary: { pending: number } } }) =>
          status.status !== 'processed' || status.summary.pending > 0,
      );
      return [body.data.length, left.length];
    },
    ([all, left]) => all === sent.length && left === 0,
    { everyMs: 200 },
  );
}

type DeliveryEvent = Event & { context: Record<string, string> };

/** The events of each delivery, oldest first, and the context of each `broadcast.processed` event. */
async function eventsSoFar(): Promise<{
  ofDelivery: Map<string, string[]>;
  processed: Map<string, unknown[]>;
}> {
  const events = (
    await listAll<DeliveryEvent>(project.call, '/events?limit=100&type=delivery.*,broadcast.processed')
  ).reverse();
  const ofDelivery = new Map<string, string[]>();
  const processed = new Map<string, unknown[]>();
  for (const { type, context, payload } of events)
    if (type === 'broadcast.processed') {
      const id = context.broadcast_id ?? '';
      processed.set(id, [...(processed.get(id) ?? []), payload]);
    } else {
      const id = context.delivery_id ?? '';
      ofDelivery.set(id, [...(ofDelivery.get(id) ?? []), type.replace('delivery.', '')]);
    }
  return { ofDelivery, processed };
}

/** Compares deliveries, events and broadcasts. Returns the number of deliveries in each state. */
async function takeStock(sent: readonly Sent[]): Promise<Record<string, number>> {
  const { ofDelivery, processed } = await eventsSoFar();
  const names = await externalIds();
  const states: Record<string, number> = {};
  const listed = new Set<string>();
  for (const { id, users: reached } of sent) {
    const list = await listAll<DeliveryRecord>(project.call, `/broadcasts/${id}/deliveries?limit=100`);
    const pairs = list.map(({ user_id, channel }) => `${names.get(user_id)} ${channel}`).toSorted();
    const expected = [...reached]
      .flatMap((name) => CHANNELS.map((channel) => `${name} ${channel}`))
      .toSorted();
    expect(pairs, `${id}: every user on every channel, once`).toEqual(expected);
    for (const delivery of list) {
      const { state } = delivery;
      expect([delivery.id, FINAL.has(state) ? 'final' : state]).toEqual([delivery.id, 'final']);
      const events = ofDelivery.get(delivery.id) ?? [];
      const ends = events.filter((type) => FINAL.has(type));
      listed.add(delivery.id);
      const described = `${delivery.id} is ${state}, events: ${events.join(', ')}`;
      expect(ends.at(-1), described).toBe(state);
      expect(ends.length, described).toBe(1 + delivery.replays);
      expect(events.filter((type) => type === 'replayed').length, described).toBe(delivery.replays);
      states[state] = (states[state] ?? 0) + 1;
    }
    const { status } = (await project.call('GET', `/broadcasts/${id}`)).body;
    const failed = list.filter(({ state }) => state === 'failed');
    const failures = new Set(failed.map((one) => one.user_id)).size;
    expect([id, status.summary]).toEqual([id, { total: reached.size, failures, pending: 0 }]);
    expect([id, processed.get(id)]).toEqual([id, [expect.objectContaining({ total: reached.size })]]);
    expect(status.errors ?? []).toHaveLength(failed.length);
    expect(await listAll(project.call, `/broadcasts/${id}/deliveries?state=failed&limit=100`)).toEqual(
      failed.toSorted((a, b) => (`${a.user_id}${a.channel}` < `${b.user_id}${b.channel}` ? -1 : 1)),
    );
    const one = list[Math.floor(random() * list.length)];
    if (one !== undefined)
      expect(await listAll(project.call, `/notifications/${one.notification_id}/deliveries`)).toEqual(
        list.filter((other) => other.notification_id === one.notification_id),
      );
  }
  expect([...ofDelivery.keys()].filter((id) => !listed.has(id))).toEqual([]);
  // A job ends a moment after its last delivery.
  await until(
    async () =>
      service.rows<{
        pending: number;
        jobs: number;
      }>(`select sum(abs(pending) + abs(awaited))::int as pending,
              (select count(*)::int from jobs
               where kind in ('fan_out', 'deliver', 'replay')) as jobs
          from broadcasts`),
    ([left]) => left?.pending === 0 && left.jobs === 0,
  );
  return states;
}

async function externalIds(): Promise<Map<string, string>> {
  const list = await listAll<{ id: string; external_id: string }>(project.call, '/users?limit=100');
  return new Map(list.map((user) => [user.id, user.external_id]));
}

test('every notification ends once per channel, and all records agree, even after replays', async () => {
  await configureCategories();
  for (const [index, name] of users.entries()) await makeUser(name, index);
  breakVendors();
  const sent = await sendAll();
  await allProcessed(sent);
  const before = await takeStock(sent);
  console.info(`accounting: ${JSON.stringify(before)}`);
  // Each kind of event occurred, so the comparison had something to compare.
  for (const state of FINAL)
    expect([state, before[state] ?? 0]).toEqual([state, expect.toSatisfy((n) => n > 20)]);

  await healVendors();
  let replayed = 0;
  const ids = [...(await externalIds()).keys()];
  await Promise.all(
    sent.flatMap(({ id }) => {
      if (chance(0.2)) return [];
      const bodies = [
        {},
        { channel: 'email' },
        { user_ids: some(ids, 0.5).concat(ids[0] ?? '') },
        { state: 'skipped', user_ids: ids },
      ];
      const chosen = some(bodies, 0.4);
      return [...chosen, ...(chance(0.3) ? chosen : [])].map(async (body) => {
        const response = await project.call('POST', `/broadcasts/${id}/deliveries/replay`, body);
        expect([response.status, response.body.errors]).toEqual([202, undefined]);
        replayed += response.body.replayed;
      });
    }),
  );
  expect(replayed).toBeGreaterThan(20);
  await allProcessed(sent);
  const after = await takeStock(sent);
  console.info(`accounting: ${replayed} replayed, then ${JSON.stringify(after)}`);
  expect(after.failed ?? 0).toBeLessThan(before.failed ?? 0);
  const all = sent.reduce((sum, one) => sum + one.users.size * CHANNELS.length, 0);
  for (const states of [before, after])
    expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(all);
});

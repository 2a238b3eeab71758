import { afterAll, beforeAll, expect, test } from 'vitest';
import { devices, saveToken } from '../support/all-channels.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// The number on the icon of an app, while its user reads on another device.

const PUSHES = 60;
const USER = 'ada';

let service: TestService;
let vendors: Vendors;
beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings });
  await vendors.setUp(service.project, ['apns']);
  await saveToken(service.project, USER, 'mobile_push/apns', { device_token: devices.apns(USER) });
});
afterAll(async () => {
  await Promise.all([service?.stop(), vendors?.stop()]);
});

/** A change of the unread count, which takes effect at some time between its request and its response. */
interface Change {
  by: number;
  beganAt: number;
  endedAt: number;
}

/** A push, whose count was read at some time between the request for it and its arrival. */
interface Push {
  badge: number;
  beganAt: number;
  endedAt: number;
}

test('the badge of each push is the count of the inbox at a time before it arrived', async () => {
  const seed = newSeed();
  const random = randomFrom(seed);
  const { project } = service;
  const asUser = project.as(USER);
  const changes: Change[] = [];
  const pushes: Push[] = [];
  /** Whether each notification that has arrived is unread. */
  const unread = new Map<string, boolean>();
  let isSending = true;

  const send = async () => {
    for (let sent = 1; sent <= PUSHES; sent += 1) {
      const beganAt = performance.now();
      const { status } = await project.call('POST', '/broadcasts', {
        title: `Number ${sent}`,
        recipients: [{ external_id: USER }],
      });
      expect(status).toBe(201);
      await until(
        () => vendors.apple.pushes.length,
        (count) => count === sent,
        { everyMs: 1 },
      );
      const { aps } = vendors.apple.pushes.at(-1)?.payload ?? {};
      const endedAt = performance.now();
      changes.push({ by: 1, beganAt, endedAt });
      pushes.push({ badge: (aps as { badge: number }).badge, beganAt, endedAt });
      const { body } = await asUser('GET', '/notifications?limit=1');
      unread.set(body.data[0].id, true);
    }
    isSending = false;
  };
  const read = async () => {
    while (isSending) {
      const ids = [...unread.keys()];
      const id = ids[Math.floor(random() * ids.length)];
      if (id === undefined) {
        await until(
          () => unread.size,
          (size) => size > 0,
        );
        continue;
      }
      const becomesUnread = unread.get(id) === false;
      const beganAt = performance.now();
      const { status } = await asUser('POST', `/notifications/${id}/${becomesUnread ? 'unread' : 'read'}`);
      expect(status).toBe(204);
      changes.push({ by: becomesUnread ? 1 : -1, beganAt, endedAt: performance.now() });
      unread.set(id, becomesUnread);
    }
  };
  await Promise.all([send(), read()]);

  const impossible = pushes.filter((push) => !countsDuring(push, changes).has(push.badge));
  expect(impossible, `FAULT_SEED=${seed}`).toEqual([]);
  // The user read meanwhile: the badge is not just the number of the push.
  expect(pushes.filter(({ badge }, index) => badge < index + 1).length).toBeGreaterThan(PUSHES / 2);
});

/** The counts that an inbox may have had during a push. */
function countsDuring({ beganAt, endedAt }: Push, changes: readonly Change[]): Set<number> {
  const times = [beganAt, ...changes.flatMap((one) => [one.beganAt, one.endedAt])];
  const counts = new Set<number>();
  for (const time of times.filter((one) => one >= beganAt && one <= endedAt)) {
    const certain = changes.filter((one) => one.endedAt < time).reduce((sum, { by }) => sum + by, 0);
    const open = changes.filter((one) => one.beganAt <= time && one.endedAt >= time);
    const most = open.filter(({ by }) => by > 0).length;
    const least = open.filter(({ by }) => by < 0).length;
    for (let count = certain - least; count <= certain + most; count += 1) counts.add(count);
  }
  return counts;
}

test('a badge counts unread or unseen notifications, as the integration for APNs says', async () => {
  const project = await service.createProject('badges of all kinds');
  const user = 'bob';
  await vendors.setUp(project, ['apns', 'fcm', 'expo']);
  for (const platform of ['apns', 'fcm', 'expo'] as const)
    await saveToken(project, user, `mobile_push/${platform}`, { device_token: devices[platform](user) });
  const apnsShows = async (badge: 'unread' | 'unseen') =>
    expect(await project.call('PUT', '/integrations/apns', { ...vendors.configs.apns, badge })).toMatchObject(
      {
        status: 200,
      },
    );
  const as = project.as(user);
  const change = async (path: string) => expect((await as('POST', `/notifications${path}`)).status).toBe(204);
  /** Sends a push. Returns its badge on the devices of each vendor, and the id of its notification. */
  const push = async () => {
    vendors.reset();
    const recipients = [{ external_id: user }];
    const { body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients });
    await processed(project.call, body.id);
    const arrived = () => [vendors.apple.pushes, vendors.google.messages, vendors.expo.messages] as const;
    await until(arrived, (all) => all.every(({ length }) => length === 1));
    const [[apple], [google], [expo]] = arrived();
    const aps = (payload: unknown) => (payload as { aps: { badge: number } }).aps.badge;
    const { apns } = google as unknown as { apns: { payload: unknown } };
    const { data } = (await as('GET', '/notifications?limit=1')).body;
    return { id: data[0].id, badges: [aps(apple?.payload), aps(apns.payload), expo?.badge] };
  };

  await apnsShows('unseen');
  const first = await push();
  expect(first.badges).toEqual([1, 1, 1]);
  await change('/seen');
  const second = await push();
  expect(second.badges).toEqual([1, 2, 2]);
  await change(`/${first.id}/read`);
  expect((await push()).badges).toEqual([2, 2, 2]);
  await change(`/${second.id}/archive`);
  expect((await push()).badges).toEqual([2, 2, 2]);
  await change(`/${first.id}/unread`); // it stays seen
  expect((await push()).badges).toEqual([3, 4, 4]);
  await apnsShows('unread');
  expect((await push()).badges).toEqual([5, 5, 5]);
});

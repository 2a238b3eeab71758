import { afterAll, beforeAll, expect, test } from 'vitest';
import { bringForward, reachEverywhere, saveToken } from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

// A broadcast is processed when every delivery that is due at once has had its first attempt. Later attempts
// change its summary.

let vendors: Vendors;
let service: TestService;
let project: TestProject;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings, pollMs: 50 });
  project = service.project;
  await vendors.setUp(project);
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});

const send = async (body: object): Promise<string> => {
  const sent = await project.call('POST', '/broadcasts', { title: 'Hello', ...body });
  expect([sent.status, sent.body.status?.summary.pending]).toEqual([201, 0]);
  return sent.body.id;
};
const statusOf = async (id: string) => (await project.call('GET', `/broadcasts/${id}`)).body.status;
const reaches = (id: string, status: string) =>
  until(
    () => statusOf(id),
    (found) => found.status === status,
  );
const processedEvents = async (id: string) => {
  const { body } = await project.call('GET', '/events?limit=100&type=broadcast.processed');
  return body.data.filter(
    (event: { context: { broadcast_id: string } }) => event.context.broadcast_id === id,
  );
};

test('a broadcast is processed although a chat host refuses connections and a browser is gone', async () => {
  await project.call('PUT', '/users', { external_id: 'ada' });
  const { public_key: publicKey } = vendors.configs.web_push as { public_key: string };
  const { endpoint, keys, clientHash } = await vendors.browsers.subscribe(publicKey);
  await saveToken(project, 'ada', 'web_push', { endpoint, keys });
  await vendors.browsers.expire(clientHash);
  vendors.teams.reply({ status: 503 });
  await saveToken(project, 'ada', 'teams', { webhook: { url: `${vendors.teams.address}/ada` } });

  const id = await send({ recipients: [{ external_id: 'ada' }] });
  const status = await reaches(id, 'processed');
  expect(status.summary).toEqual({ total: 1, failures: 1, pending: 1 });
  expect(status.errors).toEqual([
    { message: expect.stringMatching(/^web_push to user \S+ \(ada\) failed: /) },
  ]);
  expect(await processedEvents(id)).toMatchObject([{ payload: { total: 1, failures: 1, pending: 1 } }]);

  // Neither the replay of the failed deliveries nor the end of the rest undoes that.
  const other = await vendors.browsers.subscribe(publicKey);
  await saveToken(project, 'ada', 'web_push', { endpoint: other.endpoint, keys: other.keys });
  const { body } = await project.call('POST', `/broadcasts/${id}/deliveries/replay`, {});
  expect(body).toEqual({ replayed: 1 });
  expect(await statusOf(id)).toMatchObject({ status: 'processed' });
  vendors.teams.reply({ status: 202 });
  await until(
    async () => {
      await bringForward(service);
      return statusOf(id);
    },
    ({ status: state, summary }) => state === 'processed' && summary.pending === 0,
  );
  expect(await statusOf(id)).toEqual({
    status: 'processed',
    summary: { total: 1, failures: 0, pending: 0 },
    errors: null,
  });
  expect(await processedEvents(id)).toHaveLength(1);
});

test('a delayed delivery is pending in a processed broadcast', async () => {
  await reachEverywhere(project, vendors, 'bob');
  await project.call('PUT', '/channels', {
    key: 'later',
    channels: [{ channel: 'in_app' }, { channel: 'email', delay: 900 }, { channel: 'sms' }],
  });
  const id = await send({ recipients: [{ external_id: 'bob' }], category: 'later' });
  await until(
    () => statusOf(id),
    ({ status, summary }) => status === 'processed' && summary.pending === 1,
  );
  expect(await processedEvents(id)).toHaveLength(1);
  await bringForward(service);
  expect((await processed(project.call, id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
  expect(await processedEvents(id)).toHaveLength(1);
});

test('mail that a server defers is retried in a processed broadcast and counted once', async () => {
  const names = Array.from({ length: 20 }, (_none, index) => `slow${index}`);
  const isSlow = ({ to }: { to?: string | undefined }) => /slow1\d/.test(to ?? '');
  vendors.mail.fail({ at: 'end', how: { reply: '451 4.3.0 Later' }, when: isSlow });
  const id = await send({
    recipients: names.map((name) => ({ external_id: name, email: `${name}@example.com` })),
  });
  await reaches(id, 'processed');
  const [row] = await service.rows<{ awaited: number; pending: number }>(
    'select awaited, pending from broadcasts where id = $1',
    [id],
  );
  expect(row).toMatchObject({ awaited: 0 });
  vendors.mail.heal();
  await until(
    async () => {
      await bringForward(service);
      return statusOf(id);
    },
    ({ summary }) => summary.pending === 0,
  );
  expect(await processedEvents(id)).toHaveLength(1);
});

test('a delivery that waits for a delivery window is pending in a processed broadcast', async () => {
  await reachEverywhere(project, vendors, 'eve');
  const hour = new Date(Date.now() + 12 * 3_600_000).getUTCHours();
  const windows = [
    { from: `${String(hour).padStart(2, '0')}:00`, to: `${String(hour).padStart(2, '0')}:59` },
  ];
  const saved = await project.call('PUT', '/channels/delivery_windows', {
    time_zone: 'UTC',
    channels: [
      { channel: 'email', windows },
      { channel: 'sms', windows },
      { channel: 'mobile_push', windows },
      { channel: 'slack', windows },
    ],
  });
  expect([saved.status, saved.body.errors]).toEqual([200, undefined]);
  const held = await send({ recipients: [{ external_id: 'eve' }], category: 'orders' });
  const { summary } = await reaches(held, 'processed');
  expect(summary.pending).toBe(4);
});

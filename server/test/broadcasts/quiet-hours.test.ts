import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

let service: TestService;
let vendors: Vendors;
let project: TestProject;
let made = 0;

// Eleven at night in Berlin, on a Wednesday in summer. Tests move the clock.
const NIGHT = Date.UTC(2026, 6, 15, 21);
const HOUR_MS = 3_600_000;
const MORNING = NIGHT + 8 * HOUR_MS;
let nowMs = NIGHT;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({
    settings: vendors.settings,
    clock: { now: () => nowMs },
    pollMs: 50,
  });
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});

/** A project that sends e-mails and text messages to Ada, whose nights are quiet. */
async function newProject(): Promise<string> {
  nowMs = NIGHT;
  made += 1;
  project = await service.createProject(`quiet ${made}`);
  vendors.reset();
  await vendors.setUp(project, ['smtp', 'twilio']);
  const { body: ada } = await project.call('PUT', '/users', {
    external_id: 'ada',
    email: 'ada@example.com',
    phone_numbers: ['+12025550143'],
  });
  await save({ time_zone: 'Europe/Berlin', quiet_hours: { from: '22:00', to: '07:00' } });
  return ada.id;
}
const save = (body: object) => project.as('ada')('PUT', '/channels/user_preferences', body);
const send = async (body: object = {}): Promise<string> => {
  const recipients = [{ external_id: 'ada' }];
  return (await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...body })).body.id;
};
const texts = () => vendors.phone.requests.length;
const textMessage = async (id: string) =>
  (await project.call('GET', `/broadcasts/${id}/deliveries?channel=sms`)).body.data[0];
const waiting = (id: string) =>
  until(
    () => textMessage(id),
    (one) => one?.code === 'quiet_hours',
  );

test('a text message waits until the quiet hours end; the e-mail and the inbox do not', async () => {
  const userId = await newProject();
  const id = await send();
  const delivery = await waiting(id);
  expect(delivery).toMatchObject({
    state: 'scheduled',
    code: 'quiet_hours',
    reason: 'deferred until the quiet hours of the user end',
    attempts: 0,
  });
  const dueMs = Date.parse(delivery.due_at);
  expect(dueMs).toBeGreaterThanOrEqual(MORNING);
  expect(dueMs).toBeLessThan(MORNING + 300_000);
  await until(
    () => vendors.mail.received,
    ({ length }) => length === 1,
  );
  expect((await project.as('ada')('GET', '/notifications')).body.data).toHaveLength(1);
  expect(texts()).toBe(0);
  const { body: events } = await project.call('GET', '/events?type=delivery.scheduled');
  expect(events.data).toMatchObject([
    {
      log: 'deferred until the quiet hours of the user end',
      context: { channel: 'sms', user_id: userId, code: 'quiet_hours' },
      payload: { due_at: delivery.due_at },
    },
  ]);
  // Longer than the time to live of a text message, which begins when the quiet hours end.
  nowMs = dueMs + 1;
  await processed(project.call, id);
  expect(texts()).toBe(1);
  expect(await textMessage(id)).toMatchObject({ state: 'sent', code: null, due_at: null });
});

test('a category that is critical does not wait, and users without quiet hours do not', async () => {
  await newProject();
  await project.call('PUT', '/channels', {
    key: 'auth/code',
    critical: true,
    channels: [{ channel: 'sms' }],
  });
  await processed(project.call, await send({ category: 'auth/code' }));
  expect(texts()).toBe(1);
  const bob = { external_id: 'bob', phone_numbers: ['+12025550144'] };
  await processed(project.call, await send({ recipients: [bob] }));
  expect(texts()).toBe(2);
});

test('quiet hours that change meanwhile count when the message is due', async () => {
  await newProject();
  const id = await send();
  const first = await waiting(id);
  await save({ quiet_hours: { from: '22:00', to: '09:00' } });
  await service.restart();
  nowMs = Date.parse(first.due_at) + 1;
  const second = await until(
    () => textMessage(id),
    ({ code, due_at }) => code === 'quiet_hours' && due_at !== first.due_at,
  );
  expect(Date.parse(second.due_at)).toBeGreaterThanOrEqual(MORNING + 2 * HOUR_MS);
  expect(texts()).toBe(0);
  await save({ quiet_hours: null });
  nowMs = Date.parse(second.due_at) + 1;
  await processed(project.call, id);
  expect(texts()).toBe(1);
});

test('a message waits for the window of the project after the quiet hours', async () => {
  await newProject();
  await project.call('PUT', '/channels/delivery_windows', {
    channels: [{ channel: 'sms', windows: [{ from: '10:00', to: '23:30' }] }],
  });
  const delivery = await waiting(await send());
  expect(Date.parse(delivery.due_at)).toBeGreaterThanOrEqual(MORNING + 3 * HOUR_MS);
});

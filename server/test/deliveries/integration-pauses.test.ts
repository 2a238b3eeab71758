/** An integration that its provider rejects, through the whole service. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkProjects } from '../../src/cli/doctor/projects.ts';
import { newId } from '../../src/lib/ids.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

let service: TestService;
let mailer: VendorStandIn;
let aheadMs = 0;

beforeAll(async () => {
  mailer = await startVendor();
  service = await startTestService({
    clock: { now: () => Date.now() + aheadMs },
    pollMs: 50,
    logLevel: 'info',
    settings: { PROVIDER_EXPO_BASE_URL: mailer.address },
  });
  await save();
});
afterAll(async () => {
  await service?.stop();
  await mailer?.stop();
});

const save = () =>
  service.project.call('PUT', '/integrations/ping_email', {
    url: `${mailer.address}/mail`,
    max_per_second: 100,
  });

async function broadcast(): Promise<string> {
  const recipients = [{ external_id: '42', email: 'ada@example.com' }];
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'Hello', recipients });
  return body.id;
}

const eventsOf = async (filter: string) =>
  (await service.project.call('GET', `/events?type=${filter}`)).body.data;

/** When deferred deliveries are due. */
const dueTimes = () =>
  service.rows<{ due_at: Date }>("select due_at from jobs where kind = 'deliver' and due_at is not null");

test('the rejected message fails, and the others wait without an attempt until it is repaired', async () => {
  mailer.reply({ status: 403, body: 'unknown account' });
  const failed = await processed(service.project.call, await broadcast());
  expect(failed).toMatchObject({ status: { summary: { failures: 1 } } });
  await expect
    .poll(() => eventsOf('integration.paused'))
    .toMatchObject([
      {
        level: 'error',
        code: 403,
        log: 'the mailer responded with 403: unknown account',
        context: { provider: 'ping_email', channel: 'email' },
        payload: { name: 'ping_email' },
      },
    ]);

  const waiting = await broadcast();
  await expect.poll(dueTimes).toHaveLength(1);
  await isShownAsPaused(waiting);
  const [due] = await dueTimes();
  const waitMs = Number(due?.due_at) - Date.now();
  expect(waitMs).toBeGreaterThan(40_000);
  expect(waitMs).toBeLessThan(75_000);
  expect(mailer.requests).toHaveLength(1);
  expect(await eventsOf('delivery.retried')).toEqual([]);

  mailer.reply({ status: 200 });
  await save();
  // Saved, it is tried again, and what waits with it.
  expect(await stateOfIntegration()).toBeUndefined();
  const sent = await processed(service.project.call, waiting);
  expect(sent).toMatchObject({ status: { summary: { failures: 0 } } });
  expect((await eventsOf('delivery.sent')).filter(isMail)).toMatchObject([{ context: { attempt: 1 } }]);
  await expect
    .poll(() => eventsOf('integration.resumed'))
    .toMatchObject([{ level: 'info', payload: { name: 'ping_email' } }]);
  await expect.poll(pausesWritten).toEqual([]);
  const lines = service.logged.map((line): Record<string, unknown> => JSON.parse(line));
  expect(lines.filter(({ integration }) => integration !== undefined)).toMatchObject([
    {
      level: 'warn',
      projectId: expect.any(String),
      integration: { name: 'ping_email' },
      code: '403',
      reason: 'the mailer responded with 403: unknown account',
    },
    { level: 'info', integration: { name: 'ping_email' } },
  ]);
});

const stateOfIntegration = async () =>
  (await service.project.call('GET', '/integrations/ping_email')).body.data[0].state;
const pausesWritten = () => service.rows('select integration_id, code from integration_pauses');

/** In the lists of integrations and deliveries, in the metrics and in `doctor`. */
async function isShownAsPaused(broadcastId: string): Promise<void> {
  const paused = {
    status: 'paused',
    since: expect.any(String),
    until: expect.any(String),
    code: '403',
    reason: 'the mailer responded with 403: unknown account',
  };
  await expect.poll(stateOfIntegration).toEqual(paused);
  const { body: all } = await service.project.call('GET', '/integrations');
  expect(all.data).toMatchObject([{ name: 'ping_email', state: paused }]);

  const { body } = await service.project.call('GET', `/broadcasts/${broadcastId}/deliveries?channel=email`);
  const deferred = {
    state: 'scheduled',
    code: 'integration_paused',
    reason: 'the integration ping_email is paused: the mailer responded with 403: unknown account',
    provider: 'ping_email',
    integration_id: all.data[0].id,
    due_at: expect.any(String),
    attempts: 0,
  };
  expect(body.data).toMatchObject([deferred]);
  const notificationId = body.data[0].notification_id;
  const { body: same } = await service.project.call('GET', `/notifications/${notificationId}/deliveries`);
  expect(same.data.filter(({ channel }: { channel: string }) => channel === 'email')).toEqual(body.data);

  const metrics = await (await fetch(`${service.address}/metrics`)).text();
  expect(metrics).toContain('belfry_integrations_paused{provider="ping_email"} 1');
  const { findings } = await checkProjects(service.context.config, service.context.db);
  expect(findings).toContainEqual({
    check: 'integrations',
    status: 'warning',
    message: expect.stringMatching(
      /^ping_email of project .* is paused since .*: the mailer responded with 403: unknown account \(403\)$/,
    ),
    advice: expect.any(String),
  });
}

test('saving an integration ends its pause, but does not say that it works', async () => {
  const before = await eventsOf('integration.resumed');
  mailer.reply({ status: 403, body: 'unknown account' });
  await processed(service.project.call, await broadcast());
  await expect.poll(stateOfIntegration).toMatchObject({ status: 'paused' });
  await save();
  expect(await stateOfIntegration()).toBeUndefined();
  expect(await eventsOf('integration.resumed')).toEqual(before);
});

test('what waits for a paused integration uses one that is saved beside it', async () => {
  mailer.reply({ status: 403, body: 'unknown account' });
  await processed(service.project.call, await broadcast());
  const waiting = await broadcast();
  await expect.poll(dueTimes).toHaveLength(1);
  mailer.reply(({ path }) => ({ status: path === '/other' ? 200 : 403 }));
  const id = newId();
  await service.project.call('PUT', `/integrations/ping_email?id=${id}`, { url: `${mailer.address}/other` });
  const sent = await processed(service.project.call, waiting);
  expect(sent).toMatchObject({ status: { summary: { failures: 0 } } });
  await service.project.call('DELETE', `/integrations/ping_email?id=${id}`);
});

test('what waits for a permit of a rate is sent when the rate is removed, and says so before', async () => {
  const url = `${mailer.address}/mail`;
  await service.project.call('PUT', '/integrations/ping_email', { url, max_per_second: 0.01 });
  mailer.reply({ status: 200 });
  const recipients = ['a', 'b', 'c'].map((name) => ({ external_id: name, email: `${name}@example.com` }));
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'Hello', recipients });
  await expect.poll(dueTimes).toHaveLength(2);
  const { body: listed } = await service.project.call(
    'GET',
    `/broadcasts/${body.id}/deliveries?channel=email&state=scheduled`,
  );
  const limited = {
    state: 'scheduled',
    code: 'rate_limited',
    reason: 'the rate limit of the integration or of its provider is reached',
    attempts: 0,
  };
  expect(listed.data).toMatchObject([limited, limited]);

  // A new rate begins with a permit. The other one waits once more.
  await service.project.call('PUT', '/integrations/ping_email', { url, max_per_second: 0.02 });
  await expect.poll(() => mailer.requests.length).toBe(2);
  await expect.poll(wakingJobs, { timeout: 20_000 }).toEqual([]);
  await expect.poll(dueTimes).toHaveLength(1);
  expect(mailer.requests).toHaveLength(2);

  await service.project.call('PUT', '/integrations/ping_email', { url });
  expect(await processed(service.project.call, body.id)).toMatchObject({
    status: { summary: { failures: 0 } },
  });
  expect(mailer.requests).toHaveLength(3);
});

const wakingJobs = () => service.rows("select due_at from jobs where kind = 'wake_waiting'");

test('devices that wait for a paused integration are sent to when it is saved', async () => {
  const config = { access_token: 'expo-access-token' };
  const expo = () => service.project.call('PUT', '/integrations/expo', config);
  await expo();
  for (const device of ['phone', 'tablet'])
    await service.project.as('42')('PUT', '/channels/mobile_push/expo/tokens', {
      device_token: `ExponentPushToken[${device}]`,
    });
  await save();
  const rejection = { status: 401, body: { errors: [{ code: 'UNAUTHORIZED', message: 'no' }] } };
  mailer.reply(({ path }) => (path === '/mail' ? { status: 200 } : rejection));
  await processed(service.project.call, await broadcast());
  const waiting = await broadcast();
  await expect.poll(dueTimes).toHaveLength(1);
  mailer.reply(({ path, body }) =>
    path === '/mail'
      ? { status: 200 }
      : { status: 200, body: { data: JSON.parse(body).map(() => ({ status: 'ok', id: newId() })) } },
  );
  await expo();
  await processed(service.project.call, waiting);
  const { body } = await service.project.call('GET', `/broadcasts/${waiting}/deliveries?channel=mobile_push`);
  expect(body.data).toMatchObject([{ state: 'sent', attempts: 1, targets: { accepted: 2 } }]);
  await service.project.call('DELETE', '/integrations/expo');
});

test('deliveries that the provider defers together are retried as one job', async () => {
  mailer.reply({ status: 429, headers: { 'retry-after': '0' } });
  const recipients = Array.from({ length: 30 }, (_, n) => ({
    external_id: `${n}`,
    email: `${n}@example.com`,
  }));
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'Hello', recipients });
  // The number of jobs at each retry.
  const counts: number[] = [];
  for (const attempts of [30, 60, 90]) {
    await expect
      .poll(async () => {
        aheadMs += 10_000;
        return mailer.requests.length;
      })
      .toBeGreaterThanOrEqual(attempts);
    await expect.poll(async () => counts.push((await dueTimes()).length) && counts.at(-1)).toBeGreaterThan(0);
  }
  expect(Math.max(...counts)).toBe(1);
  mailer.reply({ status: 200 });
  aheadMs += 3_600_000;
  await processed(service.project.call, body.id);
});

test('a pause survives a restart, and ends when the integration works', async () => {
  await save();
  mailer.reply({ status: 401, body: 'who are you?' });
  await processed(service.project.call, await broadcast());
  await expect.poll(stateOfIntegration).toMatchObject({ status: 'paused', code: '401' });
  await service.restart();
  const waiting = await broadcast();
  await expect.poll(dueTimes).toHaveLength(1);
  expect(mailer.requests).toHaveLength(1);
  expect(await stateOfIntegration()).toMatchObject({ status: 'paused', code: '401' });

  mailer.reply({ status: 200 });
  const [due] = await dueTimes();
  aheadMs += Number(due?.due_at) - Date.now() + 1_000;
  await processed(service.project.call, waiting);
  await expect.poll(stateOfIntegration).toBeUndefined();
});

const isMail = ({ context }: { context: { channel?: string } }) => context.channel === 'email';

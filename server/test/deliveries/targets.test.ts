import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  bringForward,
  deliveriesOf,
  devices,
  installSlack,
  processedAtOnce,
  saveToken,
} from '../support/all-channels.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { SLACK_APP, startVendors, type Vendors } from '../support/vendors.ts';

// Deliveries to users with several devices, browsers and chats, of which some accept a message and others do
// not.

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
  project = await service.createProject(`targets ${made}`);
  vendors.reset();
});

async function send(body: object = {}, users = ['ada']): Promise<string> {
  const recipients = users.map((external_id) => ({ external_id }));
  return (await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...body })).body.id;
}
const pushed = () => vendors.expo.messages.map(({ to }) => to);
const postedTo = () => vendors.slack.posted.map(({ to }) => to).sort();
/** Waits until all targets have ended, and runs every retry at once. */
async function endedAtOnce(id: string) {
  await until(
    async () => {
      await bringForward(service);
      return service.rows(
        "select 1 from jobs where kind in ('fan_out', 'deliver') and payload->>'broadcast_id' = $1",
        [id],
      );
    },
    (jobs) => jobs.length === 0,
    { everyMs: 50 },
  );
  return processedAtOnce(service, project.call, id);
}
/** Waits until one attempt was made and the next is scheduled. */
const retrying = (id: string) =>
  until(
    () =>
      service.rows<{ attempt: number }>(
        `select (payload->>'attempt')::int as attempt from jobs
        where payload->>'broadcast_id' = $1 and due_at is not null`,
        [id],
      ),
    (jobs) => jobs.length === 1 && jobs[0]?.attempt === 1,
  );
const events = async (type: string) => (await project.call('GET', `/events?type=${type}`)).body.data;
const sentOn = async (channel: string) =>
  (await events('delivery.sent')).filter(
    (one: { context: { channel: string } }) => one.context.channel === channel,
  );

/** Saves Slack channels of the project's own app. */
async function withSlack(channels: string[], user = 'ada') {
  await vendors.setUp(project, ['slack']);
  const installation = await installSlack(project, vendors, user);
  for (const channel_id of channels)
    await saveToken(project, user, 'slack', { oauth: { installation_id: installation.id, channel_id } });
  return installation;
}

describe('one of two devices is gone', () => {
  test('the other gets the message, the delivery is sent, and the gone one is not used again', async () => {
    await vendors.setUp(project, ['expo']);
    const [old, present] = [devices.expo(`old${made}`), devices.expo(`new${made}`)];
    const oldId = await saveToken(project, 'ada', 'mobile_push/expo', { device_token: old });
    await saveToken(project, 'ada', 'mobile_push/expo', { device_token: present });
    vendors.expo.fail(old, 'DeviceNotRegistered');
    const id = await send();
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'sent', code: null, targets: { accepted: 1, gone: 1, failed: 0 } },
    ]);
    expect((await events('delivery.sent'))[0]).toMatchObject({
      payload: { accepted: 1, gone: 1, failed: 0 },
    });
    const discarded = await until(
      () => events('token.discarded'),
      (all) => all.length > 0,
    );
    expect(discarded).toMatchObject([{ context: { token_id: oldId } }]);
    const requests = vendors.expo.requests.length;
    await processed(project.call, await send());
    expect(vendors.expo.requests.slice(requests).flatMap(({ messages }) => messages)).toMatchObject([
      { to: present },
    ]);
  });

  test("and so is the other: the delivery has failed, with the provider's reason", async () => {
    await vendors.setUp(project, ['expo']);
    const device = devices.expo(`gone${made}`);
    await saveToken(project, 'ada', 'mobile_push/expo', { device_token: device });
    vendors.expo.fail(device, 'DeviceNotRegistered', `"${device}" is not a registered push recipient`);
    const id = await send();
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 1, failures: 1, pending: 0 });
    const [delivery] = await deliveriesOf(service, id);
    expect(delivery).toMatchObject({ state: 'failed', code: 'DeviceNotRegistered', targets: null });
    expect(delivery?.reason).toContain('is not a registered push recipient');
    expect(delivery?.reason).not.toContain(device);
    const [discarded] = await until(
      () => events('token.discarded'),
      (all) => all.length > 0,
    );
    expect(discarded?.log).toContain('is not a registered push recipient');
    expect(JSON.stringify(discarded)).not.toContain(device);
  });
});

describe('a target with a transient failure', () => {
  // Long enough for what the tests do before the retry.
  const LATER = { status: 429, headers: { 'retry-after': '30' } };

  test('is retried, and targets that accepted the message do not get it twice', async () => {
    await withSlack(['C0A', 'C0B', 'C0C']);
    vendors.slack.refusals.set('C0B', [LATER, LATER]).set('C0C', ['channel_not_found']);
    const id = await send();
    // The delivery is sent, with its event, when the first target has accepted it.
    await retrying(id);
    const [a, b] = ['1700000000.000001', '1700000000.000002'];
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', attempts: 1 }]);
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(await sentOn('slack')).toMatchObject([{ payload: { accepted: 1, gone: 1, failed: 0 } }]);
    expect((await endedAtOnce(id)).status.summary).toEqual({ total: 1, failures: 0, pending: 0 });
    expect(postedTo()).toEqual(['C0A', 'C0B']);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'sent', attempts: 3, targets: { accepted: 2, gone: 1, failed: 0 } },
    ]);
    const retried = await events('delivery.retried');
    expect(retried.map(({ payload }: { payload: object }) => payload)).toEqual([
      { accepted: 2, gone: 1, failed: 0 },
      { accepted: 1, gone: 1, failed: 0 },
    ]);
    const all = { accepted: 2, gone: 1, failed: 0, provider_ids: [a, b] };
    expect(await sentOn('slack')).toHaveLength(1);
    const listed = (await project.call('GET', `/broadcasts/${id}/deliveries?channel=slack`)).body.data;
    expect(listed).toMatchObject([{ provider: 'slack', provider_id: a, targets: all }]);
  });

  test('alone is retried after a crash between its outcome and the end of the job', async () => {
    await withSlack(['C0A', 'C0B']);
    vendors.slack.refusals.set('C0B', [LATER]);
    const id = await send();
    await retrying(id);
    // As if the job of the first attempt still existed and had started once.
    await service.rows(
      `update jobs set attempt = 1,
          payload = (payload::jsonb - 'progress' - 'back' || '{"attempt": 0, "awaited": true}')::json
        where payload->>'broadcast_id' = $1`,
      [id],
    );
    await endedAtOnce(id);
    expect(postedTo()).toEqual(['C0A', 'C0B']);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'sent', attempts: 2, targets: { accepted: 2, gone: 0, failed: 0 } },
    ]);
    expect(await sentOn('slack')).toHaveLength(1);
    // The first attempt counts once.
    const [broadcast] = await service.rows('select awaited, pending from broadcasts where id = $1', [id]);
    expect(broadcast).toEqual({ awaited: 0, pending: 0 });
  });

  test('is not used if it was discarded meanwhile, nor are targets saved since then', async () => {
    await withSlack(['C0A', 'C0B']);
    vendors.slack.refusals.set('C0B', [LATER]);
    const id = await send();
    await retrying(id);
    await project.as('ada')('DELETE', `/channels/slack/tokens/A0TEST-T0TEAM-C0B`);
    await saveToken(project, 'ada', 'slack', { webhook: { url: `${vendors.slack.webhooksUrl}/new` } });
    await endedAtOnce(id);
    expect(postedTo()).toEqual(['C0A']);
    expect(await deliveriesOf(service, id)).toMatchObject([
      { state: 'sent', targets: { accepted: 1, gone: 1, failed: 0 } },
    ]);
  });

  test('gets nothing if the user disabled the channel meanwhile; accepted messages were sent', async () => {
    await withSlack(['C0A', 'C0B']);
    vendors.slack.refusals.set('C0B', [LATER]);
    const id = await send({ category: 'news' });
    await retrying(id);
    await project.as('ada')('PUT', '/channels/user_preferences', {
      categories: [{ key: 'news', channels: [{ name: 'slack', enabled: false }] }],
    });
    await endedAtOnce(id);
    expect(postedTo()).toEqual(['C0A']);
    expect(await deliveriesOf(service, id)).toMatchObject([
      {
        state: 'sent',
        code: null,
        attempts: 1,
        provider: 'slack',
        targets: { accepted: 1, gone: 0, failed: 0, provider_ids: [expect.any(String)] },
      },
    ]);
  });

  const EXPIRED = { state: 'failed', code: 'expired', attempts: 1 };
  test.each([
    ['it was the only one', ['C0A'], [], { ...EXPIRED, targets: null }],
    [
      'the other is gone',
      ['C0A', 'C0B'],
      ['C0B'],
      { ...EXPIRED, targets: { accepted: 0, gone: 1, failed: 1 } },
    ],
    [
      'another has taken it',
      ['C0A', 'C0B'],
      [],
      { state: 'sent', code: null, attempts: 1, targets: { accepted: 1, gone: 0, failed: 1 } },
    ],
  ])('expires a day after the message was due: %s', async (_name, channels, gone, expected) => {
    await withSlack(channels);
    vendors.slack.refusals.set('C0A', [LATER]);
    for (const channel of gone) vendors.slack.refusals.set(channel, ['channel_not_found']);
    const id = await send();
    await retrying(id);
    await service.rows(
      `update jobs set payload = jsonb_set(payload::jsonb, '{first_attempt_ms}', $1::text::jsonb)
        where payload->>'broadcast_id' = $2`,
      [String(Date.now() - 24 * 3_600_000 - 1_000), id],
    );
    await endedAtOnce(id);
    expect(postedTo()).toEqual(channels.slice(1 + gone.length));
    expect(await deliveriesOf(service, id)).toMatchObject([expected]);
  });
});

describe('the bot of a Slack installation', () => {
  test('gets a new token once for all users when Slack reports an expired one', async () => {
    vendors.slack.rotate = 43_200;
    const { id: installation_id, accessToken } = await withSlack(['C0ADA']);
    await saveToken(project, 'bob', 'slack', { oauth: { installation_id, channel_id: 'C0BOB' } });
    vendors.slack.tokenRequests.length = 0;
    vendors.slack.expired.add(accessToken);
    const id = await send({}, ['ada', 'bob']);
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 2, failures: 0, pending: 0 });
    expect(postedTo()).toEqual(['C0ADA', 'C0BOB']);
    expect(vendors.slack.tokenRequests).toHaveLength(1);
    expect(vendors.slack.posted.every(({ token }) => token !== accessToken)).toBe(true);
    expect(await deliveriesOf(service, id)).toMatchObject([{ attempts: 1 }, { attempts: 1 }]);
  });

  test('that is not installed posts nothing; its token is discarded, others are kept', async () => {
    await withSlack(['C0ADA']);
    await saveToken(project, 'bob', 'slack', {
      oauth: { installation_id: 'A0TEST-T0OTHER', channel_id: 'C0BOB' },
    });
    const id = await send({}, ['ada', 'bob']);
    expect((await processed(project.call, id)).status.summary).toEqual({ total: 2, failures: 1, pending: 0 });
    expect((await deliveriesOf(service, id)).map(({ state, code }) => [state, code]).sort()).toEqual([
      ['failed', 'not_installed'],
      ['sent', null],
    ]);
    await until(
      () => project.as('bob')('GET', '/channels/slack/tokens'),
      ({ body }) => body.data.length === 0,
    );
    expect((await project.as('ada')('GET', '/channels/slack/tokens')).body.data).toHaveLength(1);
  });

  test('with wrong credentials of its app fails as a config, and keeps the token', async () => {
    vendors.slack.rotate = 1; // it must be renewed at once
    await withSlack(['C0A']);
    await project.call('PUT', '/integrations/slack', { ...SLACK_APP, client_secret: 'x'.repeat(32) });
    const id = await send();
    await processed(project.call, id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'failed', code: 'bad_client_secret' }]);
    expect((await project.as('ada')('GET', '/channels/slack/tokens')).body.data).toHaveLength(1);
  });
});

test('receipts of sent targets are polled while another target of the user waits', async () => {
  await vendors.setUp(project, ['expo', 'apns']);
  // A key that Apple does not know: the first push pauses the integration.
  await project.call('PUT', '/integrations/apns', { ...vendors.configs.apns, key_id: 'UNKNOWNKEY' });
  await saveToken(project, 'bob', 'mobile_push/apns', { device_token: devices.apns('bob') });
  await processed(project.call, await send({}, ['bob']));
  await expect.poll(() => events('integration.paused')).toHaveLength(1);
  const [waits, takes] = [devices.apns('ada'), devices.expo(`ada${made}`)];
  await saveToken(project, 'ada', 'mobile_push/apns', { device_token: waits });
  await saveToken(project, 'ada', 'mobile_push/expo', { device_token: takes });
  const id = await send();
  await retrying(id);
  expect(pushed()).toEqual([takes]);
  expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'sent', targets: { accepted: 1 } }]);
  const polled = await service.rows<{ sent: string }>(
    "select payload->'sent' as sent from jobs where kind = 'poll_receipts' and project_id = $1",
    [project.id],
  );
  const ticket = vendors.expo.tickets.at(-1);
  expect(polled.map(({ sent }) => JSON.parse(sent))).toMatchObject([[{ id: ticket, broadcast_id: id }]]);
});

describe('the webhook of the project’s Teams integration', () => {
  const paths = () => vendors.teams.requests.map(({ path }) => path);

  test('gets messages for users without a destination of their own, with a token or without', async () => {
    await vendors.setUp(project, ['teams']);
    await processed(project.call, await send());
    expect(paths()).toEqual(['/default']);
    await saveToken(project, 'ada', 'teams', {});
    await processed(project.call, await send());
    expect(paths()).toEqual(['/default', '/default']);
    await saveToken(project, 'bob', 'teams', { webhook: { url: `${vendors.teams.address}/bob` } });
    const recipients = [{ external_id: 'bob' }, { external_id: 'eve' }];
    await processed(project.call, await send({ recipients }));
    expect(paths().slice(2).toSorted()).toEqual(['/bob', '/default']);
  });

  test('does not affect how users are reached on other channels', async () => {
    await vendors.setUp(project, ['teams', 'smtp', 'apns']);
    await saveToken(project, 'ada', 'mobile_push/apns', { device_token: devices.apns('ada') });
    const recipients = [{ external_id: 'ada', email: 'ada@example.com' }];
    const id = await send({ recipients });
    await processed(project.call, id);
    expect((await deliveriesOf(service, id)).map(({ channel, state }) => [channel, state])).toEqual([
      ['email', 'sent'],
      ['mobile_push', 'sent'],
      ['teams', 'sent'],
    ]);
  });

  test('is retried after an outage', async () => {
    await vendors.setUp(project, ['teams']);
    vendors.teams.reply({ status: 503 });
    const id = await send();
    await retrying(id);
    vendors.teams.reply({ status: 202 });
    await endedAtOnce(id);
    const [delivery] = await deliveriesOf(service, id);
    expect(delivery).toMatchObject({ channel: 'teams', state: 'sent' });
    expect(delivery?.attempts).toBeGreaterThanOrEqual(2);
    expect(paths()).toEqual(['/default']);
  });

  test('is rejected as a config when it is gone, and no token is discarded', async () => {
    await vendors.setUp(project, ['teams']);
    await saveToken(project, 'ada', 'teams', {});
    vendors.teams.reply({ status: 404 });
    const id = await send();
    await processed(project.call, id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'failed', code: '404' }]);
    expect((await project.as('ada')('GET', '/channels/teams/tokens')).body.data).toHaveLength(1);
  });

  test('can be absent: users without a token cannot be reached', async () => {
    await project.call('PUT', '/integrations/teams', {});
    const unreachable = await send();
    await processed(project.call, unreachable);
    expect(await deliveriesOf(service, unreachable)).toEqual([]);
    await saveToken(project, 'ada', 'teams', {});
    const id = await send();
    await processed(project.call, id);
    expect(await deliveriesOf(service, id)).toMatchObject([{ state: 'failed', code: 'no_destination' }]);
    expect(vendors.teams.requests).toHaveLength(0);
  });
});

test('the badge of the icon is the number of unread or, if the app counts those, unseen ones', async () => {
  await vendors.setUp(project, ['apns']);
  await saveToken(project, 'ada', 'mobile_push/apns', { device_token: devices.apns('ada') });
  await processed(project.call, await send());
  await processed(project.call, await send());
  const [{ id }] = (await project.as('ada')('GET', '/notifications')).body.data;
  await project.as('ada')('POST', '/notifications/seen');
  await project.as('ada')('POST', `/notifications/${id}/read`);
  await processed(project.call, await send());
  await project.call('PUT', '/integrations/apns', { ...vendors.configs.apns, badge: 'unseen' });
  await processed(project.call, await send());
  const badges = vendors.apple.pushes.map(({ payload }) => (payload.aps as { badge: number }).badge);
  expect(badges).toEqual([1, 2, 2, 2]);
});

test('a user with tokens of several platforms gets a message on the newest hundred of all', async () => {
  await vendors.setUp(project, ['expo', 'fcm']);
  for (const name of ['older', 'newer'])
    await saveToken(project, 'ada', 'mobile_push/expo', { device_token: devices.expo(name) });
  const [platform, tokens] = ['mobile_push/fcm', Array.from({ length: 99 }, (_, index) => `f${index}`)];
  await Promise.all(
    tokens.map((name) => saveToken(project, 'ada', platform, { device_token: devices.fcm(name) })),
  );
  vendors.google.messages.length = 0;
  await processed(project.call, await send());
  expect(pushed()).toEqual([devices.expo('newer')]);
  expect(vendors.google.messages).toHaveLength(99);
});

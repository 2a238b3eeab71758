/** Delivery reports of Twilio, Slack and Expo, through the whole service. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Event } from '../../src/contract/event.ts';
import { type Database, sql } from '../../src/db/client.ts';
import type { DeliveryOutcome } from '../../src/domain/line/deliver/delivery.ts';
import { createOutcomeRecorder } from '../../src/domain/line/deliver/record.ts';
import { newId } from '../../src/lib/ids.ts';
import { createSealer } from '../../src/lib/seal.ts';
import { startEmulator } from '../support/emulator.ts';
import { type ExpoStandIn, startExpoStandIn } from '../support/expo-stand-in.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

const BOT_SECRET = 'b'.repeat(32);
const ACCESS_TOKEN = 'canary-expo';
const TWILIO = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'canary', from: '+14155550100' };
const clock = { offsetMs: 0, machineMs: Date.now, now: () => clock.machineMs() + clock.offsetMs };
let service: TestService;
let project: TestProject;
let vendor: VendorStandIn;
let expo: ExpoStandIn;
let twilio: Awaited<ReturnType<typeof startEmulator>>;
let proxy: Awaited<ReturnType<typeof startProxy>>;
let made = 0;

beforeAll(async () => {
  [vendor, expo, twilio] = await Promise.all([
    startVendor(),
    startExpoStandIn({ accessToken: ACCESS_TOKEN }),
    startEmulator('twilio', {
      account: { sid: TWILIO.account_sid, auth_token: 'canary-auth-token' },
      api_keys: [{ sid: TWILIO.api_key, secret: TWILIO.api_secret }],
      phone_numbers: [{ phone_number: TWILIO.from }],
    }),
  ]);
  proxy = await startProxy();
  service = await startTestService({
    pollMs: 50,
    clock,
    settings: {
      PUBLIC_URL: proxy.address,
      PROVIDER_EXPO_BASE_URL: expo.address,
      PROVIDER_TWILIO_BASE_URL: twilio.address,
      PROVIDER_SLACK_API_URL: vendor.address,
      SLACKBOT_APP_ID: 'A0BOT',
      SLACKBOT_CLIENT_ID: '1.2',
      SLACKBOT_CLIENT_SECRET: 'c'.repeat(32),
      SLACKBOT_SIGNING_SECRET: BOT_SECRET,
    },
  });
});
afterAll(async () => {
  await service?.stop();
  await twilio?.emulator.close();
  await Promise.all([vendor, expo, proxy].map((one) => one?.stop()));
});
beforeEach(async () => {
  made += 1;
  clock.offsetMs = 0;
  clock.machineMs = Date.now;
  project = await service.createProject(`reports ${made}`);
});

/** A proxy at the public address of the server, through which the webhooks of vendors arrive. */
async function startProxy() {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => {}); // the client ended the request
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const { url = '', method = '', headers } = request;
      paths.push(url);
      const { host: _host, connection: _connection, 'content-length': _length, ...rest } = headers;
      const forwarded = await fetch(service.address + url, {
        method,
        headers: rest as Record<string, string>,
        body: Buffer.concat(chunks),
      });
      response.writeHead(forwarded.status);
      response.end(await forwarded.text());
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function setUp(provider: string, config: object, of = project): Promise<string> {
  const saved = await of.call('PUT', `/integrations/${provider}`, config);
  expect([saved.status, saved.body]).toMatchObject([200, {}]);
  return (await of.call('GET', `/integrations/${provider}`)).body.data[0].id;
}

async function broadcast(recipient: object, of = project): Promise<string> {
  const sent = await of.call('POST', '/broadcasts', { title: 'Hi', recipients: [recipient] });
  expect(sent.status).toBe(201);
  await processed(of.call, sent.body.id);
  return sent.body.id;
}

async function post(path: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${service.address}/v2/integrations/${path}`, {
    method: 'POST',
    body,
    headers,
  });
  return { status: response.status, text: await response.text() };
}

const deliveryOf = async (id: string, channel: string) => {
  const rows = await service.rows<Record<string, unknown>>(
    'select state, code, receipt, provider_id from deliveries where broadcast_id = $1 and channel = $2',
    [id, channel],
  );
  return rows[0];
};
const eventsOf = async (type: string, of = project) =>
  (await of.call('GET', `/events?type=${type}`)).body.data as Event[];

describe('Twilio', () => {
  const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

  /** Sets the outcome of the newest message in the emulator, which sends a signed receipt. */
  async function simulate(id: string, status: string): Promise<string> {
    const sid = String((await deliveryOf(id, 'sms'))?.provider_id);
    const response = await fetch(`${twilio.address}/_twilio/simulate/message-status`, {
      method: 'POST',
      headers: { ...FORM, authorization: `Basic ${btoa(`${TWILIO.api_key}:${TWILIO.api_secret}`)}` },
      body: new URLSearchParams({ MessageSid: sid, Status: status }),
    });
    expect(response.status).toBe(200);
    return sid;
  }
  const number = () => `+1500555${String(1000 + made)}`;

  test('a reported status counts, with an auth token for signatures and without', async () => {
    for (const auth_token of [undefined, 'canary-auth-token']) {
      await setUp('twilio', { ...TWILIO, ...(auth_token === undefined ? {} : { auth_token }) });
      const id = await broadcast({ external_id: 'ann', phone_numbers: [number()] });
      expect(await deliveryOf(id, 'sms')).toMatchObject({ state: 'sent', receipt: null });
      await simulate(id, 'sent');
      await simulate(id, 'delivered');
      expect(await deliveryOf(id, 'sms')).toMatchObject({ state: 'sent', receipt: 'delivered' });
    }
    expect(await eventsOf('delivery.delivered')).toMatchObject([
      { context: { channel: 'sms', provider: 'twilio' } },
      { context: { channel: 'sms', provider: 'twilio' } },
    ]);
  });

  test('a signature with the auth token of another account is rejected', async () => {
    await setUp('twilio', { ...TWILIO, auth_token: 'of-another-account' });
    const id = await broadcast({ external_id: 'ann', phone_numbers: [number()] });
    await simulate(id, 'delivered');
    expect(await deliveryOf(id, 'sms')).toMatchObject({ receipt: null });
  });

  test('a hundred thousand unsigned fields are rejected and delay no other request', async () => {
    const id = await setUp('twilio', { ...TWILIO, auth_token: 'canary-auth-token' });
    const form = Array.from({ length: 100_000 }, (_, number) => `f${number}=`).join('&');
    const refused = await post(`twilio/webhooks/incoming/${id}`, form, FORM);
    expect(refused.status).toBe(413);
  });

  test('the receipt URL of a message accepts reports about that message only', async () => {
    const id = await setUp('twilio', TWILIO);
    const sent = await broadcast({ external_id: 'ann', phone_numbers: [number()] });
    await simulate(sent, 'sending');
    const url = proxy.address + (proxy.paths.at(-1) ?? '');
    expect(url).toMatch(new RegExp(`/v2/integrations/twilio/webhooks/incoming/${id}\\?token=[\\w-]{65}$`));
    const token = new URL(url).searchParams.get('token') ?? '';
    const gone = new URLSearchParams({
      MessageSid: 'SM1',
      MessageStatus: 'undelivered',
      ErrorCode: '30005',
      To: number(),
    }).toString();
    const at = (query: string) => post(`twilio/webhooks/incoming/${id}${query}`, gone, FORM);
    const changed = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A');
    for (const wrong of [
      '',
      '?token=',
      '?token=x',
      `?token=${token.slice(0, 43)}`,
      `?token=B${token.slice(1)}`,
    ])
      expect([wrong, (await at(wrong)).status]).toEqual([wrong, 401]);
    expect([changed, (await at(`?token=${token.slice(0, 50)}${changed.slice(50, 60)}`)).status][1]).toBe(401);
    expect(await deliveryOf(sent, 'sms')).toMatchObject({ receipt: null });
    for (let times = 0; times < 2; times += 1) expect((await at(`?token=${token}`)).status).toBe(200);
    expect(await deliveryOf(sent, 'sms')).toMatchObject({ state: 'sent', receipt: 'bounced' });
    expect(await eventsOf('delivery.bounced')).toMatchObject([
      { log: 'the number does not exist', context: { code: '30005' } },
    ]);
    const next = await broadcast({ external_id: 'ann' });
    expect(await deliveryOf(next, 'sms')).toMatchObject({ state: 'skipped', code: 'address_suppressed' });
  });
});

describe('Slack', () => {
  const APP = {
    app_id: 'A1',
    client_id: '1.2',
    client_secret: 'c'.repeat(32),
    signing_secret: 's'.repeat(32),
  };
  const report = (path: string, event: object, { secret = APP.signing_secret, atMs = clock.now() } = {}) => {
    const [body, time] = [JSON.stringify(event), String(Math.floor(atMs / 1000))];
    const signature = `v0=${createHmac('sha256', secret).update(`v0:${time}:${body}`).digest('hex')}`;
    return post(`${path}`, body, {
      'content-type': 'application/json',
      'x-slack-signature': signature,
      'x-slack-request-timestamp': time,
    });
  };
  const event = (inner: object, app = 'A1') => ({
    token: 'XXYYZZ',
    team_id: 'T1',
    api_app_id: app,
    event: inner,
    type: 'event_callback',
    event_id: 'Ev1',
    event_time: Math.floor(clock.now() / 1000),
  });
  async function saveToken(user: string, installation: string, channel: string, collection = 'slack') {
    const response = await project.as(user)('PUT', `/channels/${collection}/tokens`, {
      oauth: { installation_id: installation, channel_id: channel },
    });
    expect([response.status, response.body]).toMatchObject([200, {}]);
  }
  const discards = async () =>
    (await eventsOf('token.discarded')).map(({ context }) => context?.token_id).sort();

  test('the URL is verified by its challenge, signed like every request', async () => {
    const path = `slack/webhooks/incoming/${await setUp('slack', APP)}`;
    const challenge = {
      type: 'url_verification',
      token: 'x',
      challenge: '3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P',
    };
    expect(await report(path, challenge)).toEqual({
      status: 200,
      text: JSON.stringify({ challenge: challenge.challenge }),
    });
    // The clock stands still, so that a request of the future stays one until it is checked.
    const stoppedMs = Date.now();
    clock.machineMs = () => stoppedMs;
    for (const wrong of [{ secret: 'x' }, { atMs: clock.now() - 301_000 }, { atMs: clock.now() + 301_000 }])
      expect((await report(path, challenge, wrong)).status).toBe(401);
    expect((await post(path, JSON.stringify(challenge))).status).toBe(401);
    expect((await report(path, { type: 'app_rate_limited' })).status).toBe(200);
    expect((await report(path, {})).status).toBe(422);
  });

  test('a deleted channel loses its tokens, an uninstalled app all of them; others remain', async () => {
    const path = `slack/webhooks/incoming/${await setUp('slack', APP)}`;
    for (const channel of ['C1', 'C2', 'C11']) await saveToken('ann', 'A1-T1', channel);
    await saveToken('bob', 'A1-T1', 'C1');
    await saveToken('bob', 'A1-T11', 'C1');
    await saveToken('bob', 'A2-T1', 'C1');
    clock.offsetMs = 1_500; // Slack reports whole seconds
    await report(path, event({ type: 'message', channel: 'C1' }));
    await report(path, event({ type: 'tokens_revoked', tokens: { oauth: ['U1'] } }));
    expect(await discards()).toEqual([]);
    for (let times = 0; times < 2; times += 1)
      expect((await report(path, event({ type: 'channel_archive', channel: 'C1', user: 'U1' }))).status).toBe(
        200,
      );
    expect(await discards()).toEqual(['A1-T1-C1', 'A1-T1-C1']);
    await report(path, event({ type: 'channel_deleted', channel: 'C11' }));
    expect(await discards()).toEqual(['A1-T1-C1', 'A1-T1-C1', 'A1-T1-C11']);
    await report(path, event({ type: 'app_uninstalled' }));
    expect(await discards()).toEqual(['A1-T1-C1', 'A1-T1-C1', 'A1-T1-C11', 'A1-T1-C2']);
    expect((await eventsOf('token.discarded'))[0]).toMatchObject({ context: { code: 'app_uninstalled' } });
  });

  test('tokens that were saved after the event remain', async () => {
    const path = `slack/webhooks/incoming/${await setUp('slack', APP)}`;
    await saveToken('ann', 'A1-T1', 'C1');
    const before = { ...event({ type: 'app_uninstalled' }), event_time: Math.floor(Date.now() / 1000) - 60 };
    expect((await report(path, before)).status).toBe(200);
    expect(await discards()).toEqual([]);
  });

  test('an installation breaks, with one event', async () => {
    const path = `slack/webhooks/incoming/${await setUp('slack', APP)}`;
    const record = {
      app_id: 'A1',
      authed_user: { id: 'U1' },
      team: { id: 'T1' },
      access_token: 'xoxb-canary',
    };
    const saved = await project.as('ann')('PUT', '/integrations/slack/installations', record);
    expect(saved.status).toBeLessThan(300);
    clock.offsetMs = 1_500;
    const revoked = event({ type: 'tokens_revoked', tokens: { oauth: [], bot: ['U2'] } });
    await Promise.all([report(path, revoked), report(path, event({ type: 'app_uninstalled' }))]);
    expect(await eventsOf('installation.broken')).toMatchObject([
      { level: 'error', context: { provider: 'slack' }, payload: { id: 'A1-T1' } },
    ]);
  });

  test('reports about the server’s own app reach every project that has the installation', async () => {
    await setUp('service_slackbot', { enabled: true });
    const record = {
      app_id: 'A0BOT',
      authed_user: { id: 'U1' },
      team: { id: 'T1' },
      access_token: 'xoxb-canary',
    };
    const saved = await project.as('ann')('PUT', '/integrations/service_slackbot/installations', record);
    expect(saved.status).toBeLessThan(300);
    await saveToken('ann', 'A0BOT-T1', 'C1', 'slack/service_slackbot');
    await saveToken('ann', 'A0BOT-T1', 'C2', 'slack/service_slackbot');
    const path = 'service_slackbot/webhooks/incoming';
    clock.offsetMs = 1_500;
    const archived = event({ type: 'group_archive', channel: 'C1' }, 'A0BOT');
    expect((await report(path, archived)).status).toBe(401);
    expect((await report(path, archived, { secret: BOT_SECRET })).status).toBe(200);
    expect(await discards()).toEqual(['A0BOT-T1-C1']);
    await report(path, event({ type: 'app_uninstalled' }, 'A0BOT'), { secret: BOT_SECRET });
    expect(await discards()).toEqual(['A0BOT-T1-C1', 'A0BOT-T1-C2']);
    expect(await eventsOf('installation.broken')).toHaveLength(1);
  });
});

describe('Expo', () => {
  const device = (name: string) => `ExponentPushToken[${name}${made}]`;
  async function saveDevice(user: string, name: string): Promise<void> {
    const body = { device_token: device(name) };
    const response = await project.as(user)('PUT', '/channels/mobile_push/expo/tokens', body);
    expect([response.status, response.body]).toMatchObject([200, {}]);
  }
  const ticketOf = (name: string): string => {
    const place = expo.messages.findLastIndex(({ to }) => to === device(name));
    return expo.tickets[place] ?? '';
  };
  const polls = () =>
    service.rows<{ round: number; failures: number; ids: number }>(
      `select (payload->>'round')::int as round, (payload->>'failures')::int as failures,
        json_array_length(payload->'sent') as ids
        from jobs where kind = 'poll_receipts' and project_id = $1`,
      [project.id],
    );
  const MINUTE_MS = 60_000;

  test('a device is judged as of the time of its push, not as of the end of the job', async () => {
    await setUp('expo', { access_token: ACCESS_TOKEN });
    await saveDevice('ann', 'slow');
    const { now } = clock;
    // The response takes a minute.
    clock.now = () => now() + (ticketOf('slow') === '' ? 0 : MINUTE_MS);
    const recipients = [{ external_id: 'ann' }];
    const { body } = await project.call('POST', '/broadcasts', { title: 'Hi', recipients });
    await processed(project.call, body.id);
    await until(polls, ({ length }) => length === 1);
    clock.now = now;
    const [job] = await service.rows<{ sent_ms: number }>(
      `select (payload->>'sent_ms')::float8 as sent_ms
        from jobs where kind = 'poll_receipts' and project_id = $1`,
      [project.id],
    );
    expect(job?.sent_ms).toBeLessThan(now() + 1);
  });

  test('receipts are polled after 15 minutes, unknown ones again; gone devices are discarded', async () => {
    await setUp('expo', { access_token: ACCESS_TOKEN });
    for (const name of ['one', 'gone']) await saveDevice('ann', name);
    await saveDevice('bob', 'late');
    const recipients = [{ external_id: 'ann' }, { external_id: 'bob' }];
    const sent = await project.call('POST', '/broadcasts', { title: 'Hi', recipients });
    await processed(project.call, sent.body.id);
    await until(polls, (jobs) => jobs.reduce((sum, { ids }) => sum + ids, 0) === 3);

    expo.receipts.set(ticketOf('one'), { status: 'ok' });
    expo.receipts.set(ticketOf('gone'), {
      status: 'error',
      message: 'The device is not registered',
      details: { error: 'DeviceNotRegistered' },
    });
    clock.offsetMs = 15 * MINUTE_MS + 1_000;
    const after = await until(polls, (jobs) => jobs.length === 1 && jobs[0]?.round === 1);
    expect(after).toEqual([{ round: 1, failures: 0, ids: 1 }]);
    expect(await eventsOf('token.discarded')).toMatchObject([
      { log: 'The device is not registered', context: { code: 'DeviceNotRegistered' } },
    ]);
    const rows = await receipts(sent.body.id);
    // One of the user's devices is enough.
    expect(rows).toEqual([null, 'delivered']);
    expect((await eventsOf('delivery.delivered,delivery.bounced')).map(({ type }) => type)).toEqual([
      'delivery.delivered',
    ]);

    expo.receipts.set(ticketOf('late'), {
      status: 'error',
      message: 'The message was too big',
      details: { error: 'MessageTooBig' },
    });
    clock.offsetMs = 61 * MINUTE_MS;
    await until(polls, (jobs) => jobs.length === 0);
    expect(await receipts(sent.body.id)).toEqual(['delivered', 'dropped']);
    expect(await eventsOf('delivery.dropped')).toMatchObject([
      { log: 'The message was too big', context: { code: 'MessageTooBig', provider: 'expo' } },
    ]);
  });

  test('pushes that are stored as sent are polled, even if the job that sent them never ended', async () => {
    const { body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients: null });
    const [integrationId, broadcastId, sentMs] = [newId(), body.id, clock.now()];
    const outcomes = Array.from({ length: 100 }, (_, index): DeliveryOutcome => {
      const userId = newId();
      const of = { projectId: project.id, broadcastId, userId, integrationId, provider: 'expo' };
      return {
        ...of,
        ...{ notificationId: newId(), channel: 'mobile_push', state: 'sent', attempts: 1 },
        ...{ providerId: `ticket ${index}`, code: null, reason: null, firstAttemptMs: sentMs, durationMs: 1 },
        accepted: [{ ...of, tokenId: newId(), providerId: `ticket ${index}`, sentMs: sentMs + index }],
      };
    });
    const { db, addressKeys, log } = service.context;
    let transactions = 0;
    const forgetful: Database = {
      ...db,
      async transaction(work) {
        const result = await db.transaction(work);
        transactions += 1;
        // Committed, but not confirmed.
        if (transactions === 1)
          throw Object.assign(new Error('the connection broke'), { code: 'ECONNRESET' });
        return result;
      },
    };
    const recorder = createOutcomeRecorder({ db: forgetful, addressKeys, log });
    await Promise.all(outcomes.map((outcome) => recorder.report({ outcome })));
    expect(await polls()).toEqual([{ round: 0, failures: 0, ids: 100 }]);
    // The worker that lost the job stores the same receipt ids again.
    await Promise.all(outcomes.map((outcome) => recorder.report({ outcome })));
    expect(await polls()).toHaveLength(1);
    expect(transactions).toBe(3);
    const [job] = await db.query<{ sent_ms: number }>(
      sql(
        '',
        `select (payload->>'sent_ms')::float8 as sent_ms from jobs
        where kind = 'poll_receipts' and project_id = $1`,
      ),
      [project.id],
    );
    expect(job?.sent_ms).toBe(sentMs);
  });

  test('Expo is polled again for a day if it does not respond, and not after that', async () => {
    await setUp('expo', { access_token: ACCESS_TOKEN });
    await saveDevice('ann', 'one');
    await broadcast({ external_id: 'ann' });
    await until(polls, (jobs) => jobs.length === 1);
    expo.reply({ status: 500, body: 'no' });
    clock.offsetMs = 15 * MINUTE_MS + 1_000;
    const failed = await until(polls, ([job]) => job?.failures === 1 || job?.round === 1);
    expect(failed).toHaveLength(1);
    clock.offsetMs = 25 * 60 * MINUTE_MS;
    for (let round = 0; round < 6 && (await polls()).length > 0; round += 1) {
      clock.offsetMs += 60 * MINUTE_MS;
      await until(polls, (jobs) => jobs.length === 0 || jobs[0]?.round !== round);
    }
    await until(polls, (jobs) => jobs.length === 0);
    expect(await eventsOf('delivery.delivered,delivery.dropped')).toEqual([]);
  });

  test('Expo is polled again while the config of the integration cannot be opened', async () => {
    await setUp('expo', { access_token: ACCESS_TOKEN });
    await saveDevice('ann', 'one');
    await broadcast({ external_id: 'ann' });
    await until(polls, (jobs) => jobs.length === 1);
    expo.receipts.set(ticketOf('one'), { status: 'ok' });
    await service.rows('update integrations set sealed_config = $2 where project_id = $1', [
      project.id,
      createSealer([Buffer.alloc(32, 1)]).seal('{}', 'lost'),
    ]);
    service.context.bus.publish({ type: 'project_changed', projectId: project.id });
    clock.offsetMs = 15 * MINUTE_MS + 1_000;
    const jobs = await until(polls, ([job]) => job === undefined || job.failures > 0);
    expect(jobs).toHaveLength(1);
    await setUp('expo', { access_token: ACCESS_TOKEN });
    clock.offsetMs += MINUTE_MS;
    expect(
      await until(
        () => eventsOf('delivery.delivered'),
        (events) => events.length > 0,
      ),
    ).toHaveLength(1);
  });

  const receipts = async (id: string) => {
    const rows = await service.rows<{ receipt: string | null }>(
      `select receipt from deliveries where broadcast_id = $1 and channel = 'mobile_push'
          order by receipt nulls first`,
      [id],
    );
    return rows.map(({ receipt }) => receipt);
  };
});

import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { NewEvent } from '../../src/domain/ground/events/record.ts';
import {
  type AttemptResult,
  Dispatcher,
  type SendRequest,
} from '../../src/domain/line/sending/dispatcher.ts';
import type { GoneToken } from '../../src/domain/people/tokens/gone-token.ts';
import type { OpenedIntegration } from '../../src/domain/setup/integrations/cache.ts';
import type { Pause } from '../../src/domain/setup/integrations/pauses.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { newId } from '../../src/lib/ids.ts';
import type { EmailMessage, MessageOf } from '../../src/providers/provider.ts';
import { createTransport } from '../../src/providers/shared/transport.ts';
import { emailMessage } from '../support/email-message.ts';
import { notificationContent } from '../support/notification-content.ts';
import { type SmtpStandIn, startSmtpStandIn } from '../support/smtp-stand-in.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';

const START_MS = Date.parse('2026-07-01T12:00:00Z');
const PROJECT = '0197a3c4-0000-7f01-8a2b-3c4d5e6f7081';
const BROADCAST = newId();

let mail: SmtpStandIn;
/** Two custom mailers of the project, and the vendor stand-ins. */
let first: VendorStandIn;
let second: VendorStandIn;
let vendor: VendorStandIn;
let vendorOverHttp2: VendorStandIn;

let nowMs = START_MS;
const clock = { now: () => nowMs };
let dispatcher: Dispatcher;
let events: NewEvent[];
let pauses: (Pause | 'resumed')[];
let discarded: GoneToken[];

beforeAll(async () => {
  [mail, first, second, vendor, vendorOverHttp2] = await Promise.all([
    startSmtpStandIn({ account: { username: 'mailer', password: 'open sesame' } }),
    startVendor(),
    startVendor(),
    startVendor(),
    startVendor({ http2: true }),
  ]);
});
afterAll(() => Promise.all([mail, first, second, vendor, vendorOverHttp2].map((one) => one.stop())));
beforeEach(() => {
  ambiguous.clear();
  nowMs = START_MS;
  for (const mailer of [first, second]) mailer.reply({ status: 200 });
  start();
  return () => dispatcher.close({ graceMs: 0 });
});

function start({ patienceMs, replyMs = 30_000 }: { patienceMs?: number; replyMs?: number } = {}): void {
  const egress = createEgressGuard({ allow: '127.0.0.1/32' });
  events = [];
  pauses = [];
  discarded = [];
  dispatcher = new Dispatcher({
    egress,
    clock,
    transport: createTransport({
      egress,
      timeouts: { replyMs },
      origins: {
        PROVIDER_APNS_BASE_URL: vendorOverHttp2.address,
        PROVIDER_EXPO_BASE_URL: vendor.address,
        PROVIDER_SLACK_API_URL: vendor.address,
      },
    }),
    config: { BRAND: 'belfry' },
    pauses: {
      paused(pause, event) {
        pauses.push(pause);
        if (event !== undefined) events.push(event);
      },
      resumed(_key, event) {
        pauses.push('resumed');
        events.push(event);
      },
      released() {},
      claimProbe: async () => undefined,
    },
    discarder: { add: (gone) => discarded.push(...gone) },
    recorder: { isBlocked: false },
    cancelled: { has: () => false },
    ...(patienceMs === undefined ? {} : { patienceMs }),
  });
}

const integration = (changes: Partial<OpenedIntegration>): OpenedIntegration => ({
  projectId: PROJECT,
  id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
  provider: 'smtp',
  channel: 'email',
  version: '2026-01-01T00:00:00.000Z',
  config: {},
  ...changes,
});
const smtp = (config: object = {}, changes: Partial<OpenedIntegration> = {}) =>
  integration({
    config: {
      host: '127.0.0.1',
      port: mail.port,
      username: 'mailer',
      password: 'open sesame',
      from: { email: 'news@example.com' },
      security: 'none',
      ...config,
    },
    ...changes,
  });
const mailer = ({ address }: VendorStandIn, changes: Partial<OpenedIntegration> = {}) =>
  integration({ id: address, provider: 'ping_email', config: { url: `${address}/mail` }, ...changes });

/** Sends a message through the integrations of a channel. */
function sendOver<C extends keyof MessageOf>(
  channel: C,
  integrations: OpenedIntegration[],
  render: () => MessageOf[C],
  request: Pick<SendRequest, 'targetId' | 'userId' | 'weight' | 'token' | 'ambiguousId'>,
): Promise<AttemptResult> {
  const draft = { channel, render };
  return dispatcher.send({ integrations, draft, broadcastId: BROADCAST, ...request });
}

/** What the outcome of the last attempt keeps: the integration that may have sent the message to a target. */
const ambiguous = new Map<string, string>();

/** Sends an e-mail, by default a new one. */
async function send(
  integrations: OpenedIntegration[],
  message: Partial<EmailMessage> = {},
  targetId = newId(),
): Promise<AttemptResult> {
  const whole = { ...emailMessage({ deliveryId: targetId }), ...message };
  const ambiguousId = ambiguous.get(targetId);
  const result = await sendOver('email', integrations, () => whole, {
    targetId,
    userId: newId(),
    weight: whole.html.length + whole.text.length,
    ...(ambiguousId === undefined ? {} : { ambiguousId }),
  });
  if (result.ambiguousId === undefined) ambiguous.delete(targetId);
  else ambiguous.set(targetId, result.ambiguousId);
  return result;
}

const sent = { kind: 'done', outcome: { kind: 'sent' } };
const refused = { kind: 'done', outcome: { kind: 'rejected', scope: 'config' } };
const paths = (of: VendorStandIn) => of.requests.length;

describe('bounds', () => {
  /** Sends this many at once. Returns how many messages were in memory at the same time. */
  async function mostAtOnce(count: number, html: string): Promise<number> {
    let made = 0;
    let ended = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: count }, async () => {
        const targetId = newId();
        const make = (): EmailMessage => {
          made += 1;
          most = Math.max(most, made - ended);
          return emailMessage({ deliveryId: targetId, html, text: '' });
        };
        const about = { targetId, userId: newId(), weight: html.length };
        expect(await sendOver('email', [smtp()], make, about)).toMatchObject(sent);
        ended += 1;
      }),
    );
    expect(made).toBe(count);
    return most;
  }

  // One more, because a permit is reused just before its previous holder resolves.
  test('a batch of very long messages is not in memory all at once', async () => {
    start({ patienceMs: 60_000 }); // on a busy machine, they take seconds
    expect(await mostAtOnce(8, 'a'.repeat(10 * 1024 * 1024))).toBeLessThanOrEqual(4 + 1);
  });

  test('no more messages are built than the connections can take', async () => {
    const most = await mostAtOnce(100, 'short');
    expect(most).toBeLessThanOrEqual(16 + 1);
    expect(most).toBeGreaterThan(1);
  });

  test('a send that started with an older config does not bring that config back', async () => {
    const older = smtp({ password: 'superseded' });
    const newer = smtp({}, { version: '2026-01-01T00:00:00.001Z' });
    expect(await send([older])).toMatchObject(refused);
    expect(await send([newer])).toMatchObject(sent);
    expect(await send([older])).toMatchObject({ ...sent, integration: newer });
  });

  test('a delivery that is waiting when the server stops is deferred without an attempt', async () => {
    first.reply('hang');
    const all = Array.from({ length: 20 }, () => send([mailer(first)]));
    await expect.poll(() => paths(first)).toBe(16);
    await dispatcher.close({ graceMs: 0 });
    const ends = await Promise.all(all);
    expect(ends.filter(({ kind }) => kind === 'deferred')).toHaveLength(4);
    expect(await send([mailer(first)])).toEqual({
      kind: 'deferred',
      untilMs: nowMs,
      reason: 'the server is stopping',
      waitsFor: 'server',
    });
    expect(events).toEqual([]);
  });
});

describe('failover', () => {
  test('failover: the first integration rejects the config', async () => {
    first.reply({ status: 401 });
    expect(await send([mailer(first), mailer(second)])).toMatchObject({
      ...sent,
      integration: mailer(second),
    });
    expect([paths(first), paths(second)]).toEqual([1, 1]);
  });

  test('failover: the first integration is rate limited', async () => {
    first.reply({ status: 429, headers: { 'retry-after': '60' } });
    expect(await send([mailer(first), mailer(second)])).toMatchObject(sent);
    expect(paths(second)).toBe(1);
  });

  test('failover: the first integration was not reached', async () => {
    const gone = await startVendor();
    await gone.stop();
    expect(await send([mailer(gone), mailer(second)])).toMatchObject(sent);
  });

  test('an ambiguous send is retried through the same integration', async () => {
    const targetId = newId();
    first.reply({ status: 401 }, 'cut');
    second.reply('cut', { status: 200 });
    const three = [mailer(first), mailer(second), smtp()];
    const response = await send(three, {}, targetId);
    expect(response).toMatchObject({ kind: 'done', outcome: { kind: 'retry', ambiguous: true } });
    expect(response).toMatchObject({ integration: mailer(second) });
    first.reply({ status: 200 });
    expect(await send(three, {}, targetId)).toMatchObject({ ...sent, integration: mailer(second) });
    expect(paths(first)).toBe(0);
  });

  test('an ambiguous send does not fail over while its integration is rate limited', async () => {
    first.reply({ status: 403 });
    second.reply('cut', { status: 200 });
    const spare = mailer(second, { config: { url: `${second.address}/mail`, max_per_second: 0.2 } });
    expect(await send([mailer(first), spare], {}, 'a')).toMatchObject({ outcome: { ambiguous: true } });
    first.reply({ status: 200 });
    const works = mailer(first, { version: '2026-01-02T00:00:00.000Z' });
    expect(await send([works, spare], {}, 'a')).toMatchObject({ kind: 'deferred' });
    nowMs += 5_000;
    expect(await send([works, spare], {}, 'a')).toMatchObject(sent);
    expect([paths(first), paths(second)]).toEqual([0, 2]);
  });

  test('an ambiguous send does not fail over while its integration is paused or busy', async () => {
    const both = [mailer(first), mailer(second)];
    first.reply('cut', { status: 401 });
    expect(await send(both, {}, 'a')).toMatchObject({ outcome: { ambiguous: true } });
    expect(await send(both, {}, 'another')).toMatchObject({ ...sent, integration: mailer(second) });
    expect(await send(both, {}, 'a')).toMatchObject({
      kind: 'deferred',
      reason: 'the integration is paused',
    });
    nowMs += 80_000;
    first.reply({ status: 429 }, { status: 200 });
    const busy = { kind: 'done', outcome: { kind: 'retry', ambiguous: false }, integration: mailer(first) };
    expect(await send(both, {}, 'a')).toMatchObject(busy);
    expect(await send(both, {}, 'a')).toMatchObject({ ...sent, integration: mailer(first) });
    expect(paths(second)).toBe(1);
  });

  test('an ambiguous send fails over if its integration then rejects the config', async () => {
    const config = { url: `${second.address}/mail`, max_per_second: 0.2 };
    const both = [mailer(first), mailer(second, { config })];
    first.reply('cut', { status: 401 });
    expect(await send(both, {}, 'a')).toMatchObject({ outcome: { ambiguous: true } });
    await send([mailer(second, { config })]);
    expect(await send(both, {}, 'a')).toMatchObject({ kind: 'deferred' });
    expect(paths(first)).toBe(2);
    nowMs += 5_000;
    expect(await send(both, {}, 'a')).toMatchObject({ ...sent, integration: { id: second.address } });
  });

  test('a rejected message is not sent through another integration', async () => {
    first.reply({ status: 422 });
    expect(await send([mailer(first), mailer(second)])).toMatchObject({
      kind: 'done',
      outcome: { kind: 'rejected', scope: 'message' },
    });
    expect(paths(second)).toBe(0);
  });

  test('if all integrations fail, the first transient failure is reported', async () => {
    first.reply({ status: 401 });
    second.reply({ status: 503, body: 'later' });
    expect(await send([mailer(first), mailer(second)])).toMatchObject({
      kind: 'done',
      outcome: { kind: 'retry', code: '503' },
      integration: mailer(second),
    });
  });
});

describe('an integration whose config is rejected', () => {
  const paused = {
    projectId: PROJECT,
    type: 'integration.paused',
    details: {
      level: 'error',
      code: '401',
      log: 'the mailer responded with 401: not for [address], sorry',
      context: { provider: 'ping_email', channel: 'email' },
    },
  };

  test('is paused: other messages wait, one event is recorded, and they are sent when it works', async () => {
    first.reply({ status: 401, body: 'not for ada@example.com, sorry' });
    expect(await send([mailer(first)])).toMatchObject(refused);
    expect(events).toMatchObject([
      { ...paused, details: { ...paused.details, payload: { id: first.address } } },
    ]);
    const held = await Promise.all(Array.from({ length: 30 }, () => send([mailer(first)])));
    const untils = held.map((one) => (one.kind === 'deferred' ? one.untilMs - START_MS : 0));
    for (const untilMs of untils) expect(Math.abs(untilMs - 60_000)).toBeLessThanOrEqual(12_000);
    expect(paths(first)).toBe(1);

    first.reply({ status: 200 });
    nowMs += Math.max(...untils);
    const probes = await Promise.all(Array.from({ length: 30 }, () => send([mailer(first)])));
    expect(probes.filter(({ kind }) => kind === 'done')).toMatchObject([sent]);
    expect(await send([mailer(first)])).toMatchObject(sent);
    expect(events.map(({ type }) => type)).toEqual(['integration.paused', 'integration.resumed']);
  });

  test('remains paused after a restart, until it works', async () => {
    first.reply({ status: 401 });
    await send([mailer(first)]);
    const [pause] = pauses;
    expect(pause).toMatchObject({
      integrationId: first.address,
      host: '',
      sinceMs: START_MS,
      untilMs: expect.any(Number),
      code: '401',
    });
    await dispatcher.close({ graceMs: 0 });
    start();
    if (pause === undefined || pause === 'resumed') throw new Error('no pause');
    dispatcher.health.adopt([pause]);
    expect(await send([mailer(first)])).toMatchObject({ kind: 'deferred', untilMs: pause.untilMs });
    // Saved meanwhile: it is tried again.
    expect(await send([mailer(first, { version: '2026-02-01T00:00:00.000Z' })])).toMatchObject(refused);
    nowMs += 100_000;
    first.reply({ status: 200 });
    expect(await send([mailer(first)])).toMatchObject(sent);
    expect(pauses.at(-1)).toBe('resumed');
    expect(events.map(({ type }) => type)).toEqual(['integration.paused', 'integration.resumed']);
    // A pause that was read before the integration recovered is ignored.
    dispatcher.health.adopt([pause]);
    expect(await send([mailer(first)])).toMatchObject(sent);
  });

  test('fails over to another integration', async () => {
    first.reply({ status: 401 });
    await send([mailer(first)]);
    for (let n = 0; n < 3; n += 1) expect(await send([mailer(first), mailer(second)])).toMatchObject(sent);
    expect([paths(first), paths(second)]).toEqual([1, 3]);
  });

  test('is tried at once after it was saved, and a second rejection is recorded again', async () => {
    const saved = (n: number) => mailer(first, { version: `2026-01-02T00:00:00.00${n}Z` });
    first.reply({ status: 401 });
    await send([saved(1)]);
    expect(await send([saved(2)])).toMatchObject(refused);
    expect(await send([saved(2)])).toMatchObject({ kind: 'deferred' });
    first.reply({ status: 200 });
    expect(await send([saved(3)])).toMatchObject(sent);
    // A node that has not loaded the new config yet is not paused by the old one.
    expect(await send([saved(2)])).toMatchObject(sent);
    expect(events.map(({ type }) => type)).toEqual([
      'integration.paused',
      'integration.paused',
      'integration.resumed',
    ]);
  });

  test("is not paused if the message's own override was rejected", async () => {
    first.reply({ status: 401 }, { status: 200 });
    expect(await send([mailer(first)], { override: { wrong: true } })).toMatchObject(refused);
    expect(await send([mailer(first)])).toMatchObject(sent);
    expect(events).toEqual([]);
  });

  test('does not affect other projects', async () => {
    first.reply({ status: 401 }, { status: 200 });
    await send([mailer(first)]);
    expect(await send([mailer(first, { projectId: newId() })])).toMatchObject(sent);
  });
});

describe('an integration that does not respond', () => {
  test('is paused after twenty in a row', async () => {
    first.reply({ status: 500 });
    for (let n = 0; n < 20; n += 1)
      expect(await send([mailer(first)])).toMatchObject({ kind: 'done', outcome: { kind: 'retry' } });
    expect(await send([mailer(first)])).toMatchObject({ kind: 'deferred' });
    expect(events).toMatchObject([{ type: 'integration.paused', details: { code: '500' } }]);
  });

  test('is not paused for being busy', async () => {
    first.reply({ status: 429 });
    for (let n = 0; n < 25; n += 1) await send([mailer(first)]);
    expect(paths(first)).toBe(25);
    expect(events).toEqual([]);
  });

  test('is not paused if it is one destination of many', async () => {
    first.reply({ status: 500 });
    vendor.reply({ status: 202 });
    const of = (webhookUrl: string) => {
      const make = () => ({ ...notificationContent(), webhookUrl });
      const teams = integration({ provider: 'teams', channel: 'teams' });
      return sendOver('teams', [teams], make, { targetId: newId(), userId: newId(), weight: 1 });
    };
    for (let n = 0; n < 20; n += 1) await of(`${first.address}/${n}`);
    expect(await of(`${first.address}/20`)).toMatchObject({ kind: 'deferred' });
    expect(await of(`${vendor.address}/1`)).toMatchObject(sent);
    expect(events).toEqual([]);
  });
});

describe('an integration that hangs', () => {
  beforeEach(async () => {
    await dispatcher.close({ graceMs: 0 });
    start({ patienceMs: 50, replyMs: 1_000 });
  });

  test('occupies only its own sends, and no other channel', async () => {
    first.reply('hang');
    vendor.reply({ status: 202 });
    const all = Array.from({ length: 200 }, () => send([mailer(first)]));
    const untils: number[] = [];
    for (const one of all) {
      void one.then((end) => {
        if (end.kind === 'deferred') untils.push(end.untilMs - START_MS);
      });
    }
    const make = () => ({ ...notificationContent(), webhookUrl: `${vendor.address}/1` });
    const teams = integration({ id: newId(), provider: 'teams', channel: 'teams' });
    expect(await sendOver('teams', [teams], make, { targetId: '1', userId: '1', weight: 1 })).toMatchObject(
      sent,
    );
    await expect.poll(() => untils.length).toBe(200 - 16);
    for (const untilMs of untils) expect(untilMs).toBeGreaterThanOrEqual(15_000);
    // Deliveries that were deferred together are retried together, as one job.
    expect(new Set(untils).size).toBe(1);
    // Deliveries that arrive later do not wait at all.
    expect(await send([mailer(first)])).toMatchObject({
      kind: 'deferred',
      reason: 'the provider has not responded to earlier messages yet',
    });
    await expect.poll(() => paths(first)).toBe(16);
  });

  test('gets at most four messages while none completes, even if the clock was set back', async () => {
    first.reply('hang');
    const hanging = [1, 2, 3, 4].map(() => send([mailer(first)]));
    await expect.poll(() => paths(first)).toBe(4);
    const sinceMs = performance.now();
    nowMs -= 3_600_000;
    await expect.poll(() => performance.now() - sinceMs).toBeGreaterThan(50);
    expect(await send([mailer(first)])).toMatchObject({ kind: 'deferred' });
    expect(await send([mailer(first), mailer(second)])).toMatchObject(sent);
    expect(paths(first)).toBe(4);
    await Promise.all(hanging);
    first.reply({ status: 200 });
    expect(await send([mailer(first)])).toMatchObject(sent);
  });

  test('fails over to another integration', async () => {
    first.reply('hang');
    for (let n = 0; n < 16; n += 1) void send([mailer(first)]);
    expect(await send([mailer(first), mailer(second)])).toMatchObject(sent);
    expect(paths(second)).toBe(1);
    await expect.poll(() => paths(first)).toBe(16); // before the next test counts
  });

  test('gets messages again as soon as one has ended', async () => {
    first.reply('hang');
    const all = Array.from({ length: 17 }, () => send([mailer(first)]));
    expect(await all[16]).toMatchObject({ kind: 'deferred' });
    expect(await send([mailer(first)])).toMatchObject({ kind: 'deferred' });
    await expect.poll(() => paths(first)).toBe(16);
    first.reply({ status: 200 });
    expect(await all[0]).toMatchObject({ kind: 'done', outcome: { kind: 'retry', ambiguous: true } });
    expect(await send([mailer(first)])).toMatchObject(sent);
  });
});

describe('rates', () => {
  test('one Slack channel gets four messages and defers the next; others have own limits', async () => {
    vendor.reply({ status: 200, body: { ok: true, ts: '1' } });
    const slack = integration({ provider: 'slack', channel: 'slack' });
    const post = (channelId: string, targetId: string) =>
      sendOver(
        'slack',
        [slack],
        () => ({ ...notificationContent(), to: { channelId, accessToken: 'xoxb-1' } }),
        { targetId, userId: targetId, weight: 1 },
      );
    for (let n = 0; n < 4; n += 1) expect(await post('C1', `${n}`)).toMatchObject(sent);
    expect(await post('C1', '5')).toEqual({
      kind: 'deferred',
      untilMs: START_MS + 4_000,
      reason: 'the rate limit is reached',
      waitsFor: 'rate',
    });
    expect(await post('C2', '6')).toMatchObject(sent);
    nowMs += 4_000;
    expect(await post('C1', '5')).toMatchObject(sent);
  });

  test('a project’s own limit applies, and reserves permits for deferred deliveries', async () => {
    const slow = mailer(first, { config: { url: `${first.address}/mail`, max_per_second: 0.2 } });
    expect(await send([slow], {}, 'a')).toMatchObject(sent);
    expect(await send([slow, mailer(second)], {}, 'b')).toMatchObject({
      kind: 'deferred',
      untilMs: nowMs + 5_000,
    });
    nowMs += 5_000;
    expect(await send([slow], {}, 'c')).toMatchObject({ kind: 'deferred', untilMs: nowMs + 5_000 });
    expect(await send([slow], {}, 'b')).toMatchObject(sent);
    expect([paths(first), paths(second)]).toEqual([2, 0]);
  });

  test('Expo gets its batches of a hundred', async () => {
    vendor.reply(({ body }) => ({
      status: 200,
      body: { data: Array.from({ length: countOf(body) }, () => ({ status: 'ok', id: '1' })) },
    }));
    const expo = integration({ provider: 'expo', channel: 'mobile_push', config: { access_token: 'x' } });
    const token = { deviceToken: 'ExponentPushToken[x]' };
    const bare = { ...notificationContent(), text: '', customAttributes: null, token };
    const push = (n: number) =>
      sendOver('mobile_push', [expo], () => ({ ...bare, badge: { unread: 1, unseen: 1 } }), {
        targetId: `${n}`,
        userId: `${n}`,
        weight: 1,
      });
    const ends = await Promise.all(Array.from({ length: 601 }, (_, n) => push(n)));
    expect(ends.filter(({ kind }) => kind === 'done')).toHaveLength(601);
    // The last one waits for the next second.
    expect(paths(vendor)).toBe(7);
  });
});

/** The number of messages in a request to Expo. Its body is compressed, so no longer text here. */
function countOf(body: string): number {
  return body.startsWith('[') ? (JSON.parse(body) as unknown[]).length : 100;
}

describe('tokens', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const apns = integration({
    provider: 'apns',
    channel: 'mobile_push',
    config: {
      app_id: 'com.example',
      badge: 'unread',
      certificate: privateKey.export({ type: 'pkcs8', format: 'pem' }),
      key_id: 'ABCDEFGHIJ',
      team_id: '0123456789',
    },
  });
  const push = (tokenId: string, userId = `of ${tokenId}`) =>
    sendOver(
      'mobile_push',
      [apns],
      () => ({
        ...notificationContent(),
        token: { deviceToken: 'ab'.repeat(32) },
        badge: { unread: 1, unseen: 1 },
      }),
      {
        targetId: tokenId,
        userId,
        weight: 1,
        token: { projectId: PROJECT, userId, tokenId, channel: 'mobile_push/apns' },
      },
    );
  const gone = { kind: 'done', outcome: { kind: 'token_gone' } };

  test('that is certainly gone is discarded at once', async () => {
    vendorOverHttp2.reply({ status: 410, body: { reason: 'Unregistered', timestamp: START_MS } });
    expect(await push('a')).toMatchObject(gone);
    expect(discarded).toEqual([
      {
        projectId: PROJECT,
        userId: 'of a',
        tokenId: 'a',
        channel: 'mobile_push/apns',
        scope: 'token',
        goneAt: new Date(START_MS),
        code: 'Unregistered',
        reason: expect.any(String),
      },
    ]);
  });

  test('that may only be of the wrong kind is discarded after the next success', async () => {
    vendorOverHttp2.reply({ status: 400, body: { reason: 'BadDeviceToken' } }, { status: 200 });
    expect(await push('a')).toMatchObject(gone);
    expect(discarded).toEqual([]);
    nowMs += 3_600_000;
    expect(await push('b')).toMatchObject(sent);
    // The time of the rejection counts: a token that was saved since then remains.
    const goneAt = new Date(START_MS);
    expect(discarded).toMatchObject([{ tokenId: 'a', code: 'BadDeviceToken', goneAt }]);
  });

  test('of one user alone never pauses the integration for all others', async () => {
    vendorOverHttp2.reply({ status: 400, body: { reason: 'BadDeviceToken' } });
    for (let n = 0; n < 30; n += 1) expect(await push(`${n}`, 'hostile')).toMatchObject(gone);
    vendorOverHttp2.reply({ status: 200 });
    expect(await push('good', 'another')).toMatchObject(sent);
    expect(events).toEqual([]);
    expect(discarded).toHaveLength(30);
  });

  test('whose vendor fails for one user alone never pauses the integration for all others', async () => {
    vendorOverHttp2.reply({ status: 500 });
    for (let n = 0; n < 40; n += 1)
      expect(await push(`${n}`, 'hostile')).toMatchObject({ outcome: { kind: 'retry' } });
    vendorOverHttp2.reply({ status: 200 });
    expect(await push('good', 'another')).toMatchObject(sent);
    expect(events).toEqual([]);
  });

  test('of ten users in a row means a wrong config, and none of them is discarded', async () => {
    vendorOverHttp2.reply({ status: 400, body: { reason: 'BadDeviceToken' } });
    for (let n = 0; n < 9; n += 1) expect(await push(`${n}`)).toMatchObject(gone);
    expect(await push('8')).toMatchObject(gone);
    expect(await push('9')).toMatchObject(refused);
    expect(events).toMatchObject([{ type: 'integration.paused', details: { code: 'BadDeviceToken' } }]);
    expect(await push('10')).toMatchObject({ kind: 'deferred' });
    nowMs += 72_000;
    expect(await push('10')).toMatchObject(refused);
    vendorOverHttp2.reply({ status: 200 });
    nowMs += 144_000;
    expect(await push('11')).toMatchObject(sent);
    expect(discarded).toEqual([]);
    expect(events.map(({ type }) => type)).toEqual(['integration.paused', 'integration.resumed']);
  });
});

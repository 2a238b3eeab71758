import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type ExpoStandIn, startExpoStandIn } from '../../../test/support/expo-stand-in.ts';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { PushMessage, Sender } from '../provider.ts';
import { createTransport, type Transport } from '../shared/transport.ts';
import { expo } from './index.ts';

const config = { access_token: 'canary-expo' };
const device = (name: string | number) => ({ token: { deviceToken: `ExponentPushToken[${name}]` } });
/** Expo's own client reads its base URL once, when it is loaded. */
const known = await startExpoStandIn({ accessToken: 't' });
vi.stubEnv('EXPO_BASE_URL', known.address);
const { Expo } = await import('expo-server-sdk');
vi.unstubAllEnvs();
afterAll(() => known.stop());

const badge = { unread: 3, unseen: 5 };
const minimal: PushMessage = { ...bareContent(), ...device('a'), badge };
const full: PushMessage = { ...notificationContent(), ...device('a'), badge };

describe('build', () => {
  test('a minimal message', () => {
    expect(expo.build(minimal, config)).toEqual({
      to: 'ExponentPushToken[a]',
      title: 'Your order has shipped',
      data: { id: '0198c0de-0000-7000-8000-00000000000a' },
      badge: 3,
      sound: 'default',
      priority: 'high',
      expiration: 1_782_993_600,
      tag: '0198c0de-0000-7000-8000-00000000000a',
      collapseId: '0198c0de-0000-7000-8000-00000000000a',
    });
  });

  test('a message with everything', () => {
    expect(expo.build(full, config)).toMatchObject({
      body: 'It arrives on Monday.',
      data: {
        id: '0198c0de-0000-7000-8000-00000000000a',
        action_url: 'https://shop.example.com/orders/42?from=news&step=1',
        category: 'orders',
        topic: 'order-42',
        custom_attributes: { order: { id: 42 } },
      },
    });
  });

  test('an override cannot be mistaken for a rejection', () => {
    const override = { kind: 'rejected', scope: 'config', reason: { not: 'a text' } };
    expect(expo.build({ ...full, override }, config)).not.toHaveProperty('kind');
  });

  test('an override is merged into the message, except for the destination', () => {
    const override = { to: 'ExponentPushToken[b]', channelId: 'orders', sound: null, data: { own: 1 } };
    const message = expo.build({ ...full, override }, config);
    expect(message).toMatchObject({
      to: 'ExponentPushToken[a]',
      channelId: 'orders',
      data: { own: 1, category: 'orders' },
    });
    expect(message).not.toHaveProperty('sound');
  });

  test('a message that is too large loses its attributes, then text, then it is rejected', () => {
    const large = { ...full, customAttributes: { a: 'x'.repeat(5000) } };
    expect(expo.build(large, config)).not.toHaveProperty('data.custom_attributes');
    const text = 'ä'.repeat(5000);
    expect(expo.build({ ...full, text }, config)).toMatchObject({
      body: expect.stringMatching(/^ä+…$/),
    });
    const title = 'x'.repeat(5000);
    expect(expo.build({ ...full, title }, config)).toMatchObject({ scope: 'message', code: 'too_big' });
  });
});

describe('classify', () => {
  const classify = (status: number, body: unknown, headers = {}) =>
    expo.classify({ status, headers, text: JSON.stringify(body) });
  const ticket = (error: string) =>
    classify(200, { data: [{ status: 'error', message: `It is ${error}`, details: { error } }] });
  const fault = (status: number, code: string, headers = {}) =>
    classify(status, { errors: [{ code, message: 'x' }] }, headers);
  const config = { kind: 'rejected', scope: 'config' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const retry = { kind: 'retry', ambiguous: false };

  test('a ticket is sent, with its id', () => {
    expect(classify(200, { data: [{ status: 'ok', id: 'X-1' }] })).toEqual({
      kind: 'sent',
      providerId: 'X-1',
    });
  });

  test.each<[string, object]>([
    ['DeviceNotRegistered', { kind: 'token_gone', scope: 'token', reason: expect.stringContaining('It is') }],
    ['InvalidCredentials', either],
    ['MismatchSenderId', either],
    ['MessageTooBig', message],
    ['DeveloperError', message],
    ['SomethingNew', message],
    ['MessageRateExceeded', retry],
    ['ExpoError', retry],
    ['ProviderError', retry],
  ])('a ticket of %s', (error, outcome) => {
    expect(ticket(error)).toMatchObject({ ...outcome, code: error });
  });

  test.each<[number, string, object]>([
    [401, 'UNAUTHORIZED', config],
    [403, 'UNAUTHORIZED', either],
    [400, 'UNAUTHORIZED', either],
    [400, 'VALIDATION_ERROR', message],
    [413, 'PAYLOAD_TOO_LARGE', message],
    [429, 'TOO_MANY_REQUESTS', retry],
    [500, 'INTERNAL_SERVER_ERROR', { kind: 'retry', ambiguous: false, code: '500' }],
  ])('%i %s', (status, code, outcome) => {
    expect(fault(status, code)).toMatchObject({ code, ...outcome });
  });

  test('429 is retried after Retry-After', () => {
    expect(fault(429, 'TOO_MANY_REQUESTS', { 'retry-after': '3' })).toMatchObject({ retryAfterMs: 3000 });
  });

  test.each([
    {},
    { data: [] },
    { data: [1] },
    { data: [null] },
    { data: [{ status: 'what' }] },
    [],
    'x',
    null,
  ])('a response without a ticket is ambiguous: %j', (body) => {
    expect(classify(200, body)).toMatchObject({ kind: 'retry', ambiguous: true });
  });
});

describe('a sender', () => {
  const egress = createEgressGuard();
  let service: ExpoStandIn;
  let transport: Transport;
  let sender: Sender<PushMessage>;
  beforeEach(async () => {
    service = await startExpoStandIn({ accessToken: config.access_token });
    transport = createTransport({
      egress,
      origins: { PROVIDER_EXPO_BASE_URL: service.address },
      timeouts: { connectMs: 10_000, replyMs: 10_000, idleMs: 1000 },
    });
    sender = expo.connect(config, { egress, clock: systemClock, transport });
  });
  afterEach(async () => {
    await sender.close({ graceMs: 0 });
    await transport.close();
    await service.stop();
  });

  const sendTo = (...names: (string | number)[]) =>
    Promise.all(names.map((name) => sender.send({ ...minimal, ...device(name) })));
  const sizes = () => service.requests.map(({ messages }) => messages.length);

  test('sends what was built', async () => {
    expect(await sender.send(minimal)).toMatchObject({ kind: 'sent', providerId: expect.any(String) });
    expect(service.messages).toEqual([expo.build(minimal, config)]);
    expect(service.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer canary-expo',
      'content-type': 'application/json',
    });
    expect(service.requests[0]?.headers).not.toHaveProperty('content-encoding');
  });

  test('batches up to 100 messages per request, compressed; each resolves with its own ticket', async () => {
    service.fail('ExponentPushToken[77]', 'DeviceNotRegistered');
    const outcomes = await sendTo(...Array.from({ length: 250 }, (_, n) => n));
    expect(sizes().sort((a, b) => a - b)).toEqual([50, 100, 100]);
    expect(service.requests.map(({ headers }) => headers['content-encoding'])).toEqual(Array(3).fill('gzip'));
    expect(outcomes.map(({ kind }) => kind)).toEqual(
      Array.from({ length: 250 }, (_, n) => (n === 77 ? 'token_gone' : 'sent')),
    );
    expect(service.messages).toHaveLength(249);
  });

  test('sends at most 600 messages per second, in six concurrent requests', async () => {
    service.latencyMs = 1_200; // more than six would overlap
    const startedAt = performance.now();
    const outcomes = await sendTo(...Array.from({ length: 900 }, (_, n) => n));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    // The last hundred start when the rate limit permits.
    expect(performance.now() - startedAt).toBeGreaterThan((1000 * (900 - 100)) / 600);
    expect(service.mostOpen()).toBe(6);
  });

  test('a malformed token is rejected, without effect on other messages', async () => {
    const malformed = ['', 'ExponentPushToken[]', 'expopushtoken[x]', 'x ExponentPushToken[a]', 'apns-token'];
    const good = ['ExponentPushToken[a]', 'ExpoPushToken[a]', 'f5c8a1de-0000-7000-8000-00000000000a'];
    for (const token of good) expect(Expo.isExpoPushToken(token)).toBe(true);
    const send = (deviceToken: string) => sender.send({ ...minimal, token: { deviceToken } });
    for (const outcome of await Promise.all(malformed.map(send)))
      expect(outcome).toMatchObject({ kind: 'token_gone', code: 'malformed_token' });
    expect(service.requests).toEqual([]);
    for (const outcome of await Promise.all(good.map(send))) expect(outcome).toMatchObject({ kind: 'sent' });
  });

  test('a message that Expo rejects is found, and the others are sent once', async () => {
    const sends = Array.from({ length: 100 }, (_, n) =>
      sender.send({
        ...minimal,
        ...device(n),
        ...(n === 61 ? { override: { nonsense: true } } : {}),
      }),
    );
    const outcomes = await Promise.all(sends);
    expect(outcomes[61]).toMatchObject({ kind: 'rejected', scope: 'message', code: 'VALIDATION_ERROR' });
    expect(outcomes.filter(({ kind }) => kind === 'sent')).toHaveLength(99);
    expect(service.messages).toHaveLength(99);
    expect(service.requests.length).toBeLessThanOrEqual(15); // two per halving of a hundred, and the first
  });

  test('messages of several projects are sent by project', async () => {
    for (const name of ['b1', 'b2']) service.project(`ExponentPushToken[${name}]`, '@shop/other');
    const outcomes = await sendTo('a1', 'b1', 'a2', 'b2', 'a3');
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array(5).fill('sent'));
    expect(sizes()).toEqual([5, 3, 2]);
  });

  test('a rejected access token rejects all messages, with one request', async () => {
    await sender.close();
    sender = expo.connect({ access_token: 'other-token' }, { egress, clock: systemClock, transport });
    for (const outcome of await sendTo('a', 'b', 'c'))
      expect(outcome).toMatchObject({ kind: 'rejected', scope: 'config', code: 'UNAUTHORIZED' });
    expect(sizes()).toEqual([3]);
  });

  test('a wrong number of tickets is ambiguous', async () => {
    service.reply({ status: 200, body: { data: [{ status: 'ok', id: 'x' }] } });
    for (const outcome of await sendTo('a', 'b'))
      expect(outcome).toMatchObject({ kind: 'retry', ambiguous: true });
  });

  test('a response that contains the access token is redacted', async () => {
    const errors = [{ code: 'UNAUTHORIZED', message: 'The caller is canary-expo?' }];
    service.reply({ status: 401, body: { errors } });
    expect(JSON.stringify(await sendTo('a'))).not.toContain('canary');
  });

  test('throttling, an outage and a lost response are retried', async () => {
    service.reply(
      { status: 429, headers: { 'retry-after': '2' }, body: {} },
      { status: 503, body: '<html>' },
    );
    expect(await sendTo('a', 'b')).toMatchObject(Array(2).fill({ kind: 'retry', retryAfterMs: 2000 }));
    expect(await sendTo('a')).toMatchObject([{ kind: 'retry', ambiguous: false }]);
    await service.stop();
    expect(await sendTo('a')).toMatchObject([{ kind: 'retry' }]);
    service = await startExpoStandIn({ accessToken: 'x' });
  });
});

test('the stand-in responds to Expo’s own client as Expo does', async () => {
  const client = new Expo({ accessToken: 't' });
  known.fail('ExponentPushToken[gone]', 'DeviceNotRegistered');
  const messages = ['a', 'gone'].map((name) => ({
    to: `ExponentPushToken[${name}]`,
    title: 'x',
    body: 'y'.repeat(2000),
  }));
  expect(await client.sendPushNotificationsAsync(messages)).toMatchObject([
    { status: 'ok', id: expect.any(String) },
    { status: 'error', details: { error: 'DeviceNotRegistered' } },
  ]);
  expect(known.requests[0]?.headers['content-encoding']).toBe('gzip');
  known.project('ExponentPushToken[b]', '@shop/other');
  await expect(
    client.sendPushNotificationsAsync([...messages, { to: 'ExponentPushToken[b]', title: 'x' }]),
  ).rejects.toMatchObject({ code: 'PUSH_TOO_MANY_EXPERIENCE_IDS' });
});

conforms('expo', {
  open: (_address, deps) => expo.connect(config, deps(['PROVIDER_EXPO_BASE_URL'])),
  message: () => minimal,
  // A ticket for each message of a request.
  accepts: ({ body }) => ({
    status: 200,
    body: { data: (JSON.parse(body) as object[]).map(() => ({ status: 'ok', id: 'X-1' })) },
  }),
  sent: { kind: 'sent', providerId: 'X-1' },
  secrets: [config.access_token],
});

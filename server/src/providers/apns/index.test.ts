import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { Notification, Provider as OtherClient } from '@parse/node-apn';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ApnsStandIn, startApnsStandIn } from '../../../test/support/apns-stand-in.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { PushMessage, Sender, SendOutcome } from '../provider.ts';
import { createTransport, type OriginSetting, type Transport } from '../shared/transport.ts';
import { apns } from './index.ts';
import { providerToken } from './provider-token.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const config = {
  app_id: 'com.example.app',
  badge: 'unread' as const,
  certificate: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  key_id: 'ABCDEFGHIJ',
  team_id: '0123456789',
};

const minimal: PushMessage = {
  deliveryId: '0190a6b2-7c3e-7d4f-8a5b-1c2d3e4f5a6b',
  reference: 'AZCmsnw-fU-KWxwtPk9aawGQprIAAHAAgAAAAAAAAAE',
  notificationId: '0190a6b2-0000-7000-8000-000000000001',
  title: 'Hello',
  content: null,
  text: '',
  actionUrl: null,
  actionLabel: 'Open',
  category: null,
  topic: null,
  customAttributes: null,
  expiresAt: new Date('2030-01-02T03:04:05.678Z'),
  token: { deviceToken: 'ab'.repeat(32) },
  badge: { unread: 3, unseen: 5 },
};
const full: PushMessage = {
  ...minimal,
  content: '<p>Your order is on its <b>way</b></p>',
  text: 'Your order is on its way',
  actionUrl: 'https://example.com/orders/7',
  category: 'orders',
  topic: 'order:7',
  customAttributes: { order: 7, nested: { a: [1] } },
  token: { deviceToken: 'cd'.repeat(32), appId: 'com.example.other', installationId: 'development' },
};

describe('build', () => {
  test('a minimal message', () => {
    expect(apns.build(minimal, config)).toEqual({
      environment: 'production',
      method: 'POST',
      path: `/3/device/${'ab'.repeat(32)}`,
      headers: {
        'apns-topic': 'com.example.app',
        'apns-id': '0190a6b2-7c3e-7d4f-8a5b-1c2d3e4f5a6b',
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-expiration': '1893553445',
        'apns-collapse-id': '0190a6b2-0000-7000-8000-000000000001',
        'content-type': 'application/json',
      },
      body:
        '{"aps":{"alert":{"title":"Hello"},"badge":3,"sound":"default","mutable-content":1},' +
        '"id":"0190a6b2-0000-7000-8000-000000000001"}',
    });
  });

  test('a message with everything, to a device of its own app, in development', () => {
    const request = apns.build(full, { ...config, badge: 'unseen' });
    expect(request).toMatchObject({
      environment: 'sandbox',
      headers: { 'apns-topic': 'com.example.other' },
    });
    expect(payloadOf(request)).toEqual({
      aps: {
        alert: { title: 'Hello', body: 'Your order is on its way' },
        badge: 5,
        sound: 'default',
        'mutable-content': 1,
        'thread-id': 'order:7',
      },
      id: '0190a6b2-0000-7000-8000-000000000001',
      action_url: 'https://example.com/orders/7',
      category: 'orders',
      topic: 'order:7',
      custom_attributes: { order: 7, nested: { a: [1] } },
    });
  });

  test('an override is merged into the payload, and its APNs headers become headers', () => {
    const request = apns.build(
      {
        ...full,
        override: {
          aps: { badge: null, sound: 'bell.aiff', alert: { subtitle: 'Soon' } },
          custom_attributes: null,
          'apns-priority': 5,
          'apns-push-type': 'background',
          'apns-expiration': 0,
          'apns-collapse-id': null,
          own: [1],
        },
      },
      config,
    );
    expect(request).toMatchObject({
      headers: { 'apns-priority': '5', 'apns-push-type': 'background', 'apns-expiration': '0' },
    });
    expect(request).not.toHaveProperty('headers.apns-collapse-id');
    const payload = payloadOf(request);
    expect(payload).toMatchObject({
      aps: { sound: 'bell.aiff', alert: { title: 'Hello', subtitle: 'Soon' } },
      own: [1],
    });
    expect(payload).not.toHaveProperty('custom_attributes');
    expect(payload).not.toHaveProperty('aps.badge');
    expect(Object.keys(payload).filter((name) => name.startsWith('apns-'))).toEqual([]);
  });

  test.each([['a\r\nauthorization: bearer x'], [{ a: 1 }], ['x'.repeat(65)], [true], ['ä']])(
    'an override can make no other header of %j',
    (value) => {
      const request = apns.build({ ...minimal, override: { 'apns-collapse-id': value } }, config);
      expect(request).toMatchObject({ kind: 'rejected', scope: 'message', code: 'bad_override' });
    },
  );

  test('neither the device nor the app can be overridden', () => {
    const override = { 'apns-topic': 'com.evil', authorization: 'bearer x', path: '/x', token: 'y' };
    const request = apns.build({ ...minimal, override }, config);
    expect(request).toMatchObject({
      path: `/3/device/${'ab'.repeat(32)}`,
      headers: { 'apns-topic': 'com.example.app' },
    });
    expect(request).not.toHaveProperty('headers.authorization');
  });

  test('a device token is one segment of the path, whatever its characters', () => {
    const token = { deviceToken: '../../x?y#z' };
    expect(apns.build({ ...minimal, token }, config)).toMatchObject({
      path: '/3/device/..%2F..%2Fx%3Fy%23z',
    });
  });

  test('an id that APNs would not accept is not sent', () => {
    const request = apns.build({ ...minimal, deliveryId: 'not-a-uuid' }, config);
    expect(request).not.toHaveProperty('headers.apns-id');
  });

  test('over 4096 bytes, attributes are dropped, then text is cut, then the message is rejected', () => {
    const bytes = (request: unknown) => Buffer.byteLength((request as { body: string }).body);
    const large = { ...full, customAttributes: { a: 'x'.repeat(5000) } };
    expect(payloadOf(apns.build(large, config))).not.toHaveProperty('custom_attributes');
    expect(payloadOf(apns.build(large, config))).toMatchObject({ aps: { alert: { body: full.text } } });

    const long = { ...full, text: '😀'.repeat(5000) };
    const cut = apns.build(long, config);
    expect(bytes(cut)).toBeLessThanOrEqual(4096);
    expect(bytes(cut)).toBeGreaterThan(4090);
    expect(payloadOf(cut)).toMatchObject({ aps: { alert: { body: expect.stringMatching(/^(?:😀)+…$/u) } } });

    expect(apns.build({ ...full, title: 'x'.repeat(5000) }, config)).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: 'too_big',
    });
    const override = { own: 'x'.repeat(5000) };
    expect(apns.build({ ...full, override }, config)).toMatchObject({ scope: 'message', code: 'too_big' });
  });
});

describe('classify', () => {
  const responseOf = (status: number, reason: string, more = {}, headers = {}) => ({
    status,
    headers,
    text: JSON.stringify({ reason, ...more }),
  });

  test('200 is sent, with the id that APNs returned', () => {
    expect(apns.classify({ status: 200, headers: { 'apns-id': 'A-1' }, text: '' })).toEqual({
      kind: 'sent',
      providerId: 'A-1',
    });
  });

  test('410 contains the time since when the token is gone', () => {
    expect(apns.classify(responseOf(410, 'Unregistered', { timestamp: 1_700_000_000_123 }))).toEqual({
      kind: 'token_gone',
      scope: 'token',
      code: 'Unregistered',
      reason: 'APNs responded with 410: Unregistered',
      goneAt: new Date(1_700_000_000_123),
    });
    for (const timestamp of [undefined, 'soon', 1e300])
      expect(apns.classify(responseOf(410, 'ExpiredToken', { timestamp }))).toEqual({
        kind: 'token_gone',
        scope: 'token',
        code: 'ExpiredToken',
        reason: 'APNs responded with 410: ExpiredToken',
      });
  });

  const config = { kind: 'rejected', scope: 'config' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const gone = { kind: 'token_gone', scope: 'token' };
  const retry = { kind: 'retry', ambiguous: false };
  test.each<[number, string, object]>([
    [400, 'BadDeviceToken', { ...gone, suspect: 'config' }],
    [400, 'DeviceTokenNotForTopic', { ...gone, suspect: 'config' }],
    [400, 'MissingDeviceToken', gone],
    [404, 'BadPath', gone],
    [403, 'InvalidProviderToken', config],
    [403, 'MissingProviderToken', config],
    [403, 'ExpiredProviderToken', { ...config, reason: expect.stringContaining('clock') }],
    [403, 'BadCertificate', config],
    [403, 'BadCertificateEnvironment', either],
    [403, 'Forbidden', config],
    [403, 'UnrelatedKeyIdInToken', config],
    [403, 'BadEnvironmentKeyIdInToken', either],
    [403, 'SomethingNew', config],
    [400, 'BadTopic', either],
    [400, 'MissingTopic', either],
    [400, 'TopicDisallowed', either],
    [413, 'PayloadTooLarge', message],
    [400, 'PayloadEmpty', message],
    [400, 'BadCollapseId', message],
    [400, 'BadExpirationDate', message],
    [400, 'BadMessageId', message],
    [400, 'BadPriority', message],
    [400, 'InvalidPushType', message],
    [400, 'DuplicateHeaders', message],
    [400, 'SomethingNew', message],
    [405, 'MethodNotAllowed', message],
    [429, 'TooManyRequests', retry],
    [429, 'TooManyProviderTokenUpdates', retry],
    [500, 'InternalServerError', retry],
    [503, 'ServiceUnavailable', retry],
    [503, 'Shutdown', retry],
    [400, 'IdleTimeout', retry],
  ])('%i %s', (status, code, outcome) => {
    expect(apns.classify(responseOf(status, code))).toMatchObject({ ...outcome, code });
  });

  test('429 is retried after Retry-After', () => {
    expect(apns.classify(responseOf(429, 'TooManyRequests', {}, { 'retry-after': '7' }))).toMatchObject({
      retryAfterMs: 7000,
    });
  });

  test('a retry is ambiguous only if the request was written', () => {
    const error = { code: 'REFUSED_STREAM', message: 'the server did not process the request' };
    expect(apns.classify({ error, written: false })).toMatchObject(retry);
    expect(apns.classify({ error: { ...error, code: 'ECONNRESET' }, written: true })).toMatchObject({
      kind: 'retry',
      ambiguous: true,
    });
  });
});

describe('the provider token', () => {
  const MINUTE = 60_000;
  const START = Date.parse('2030-01-01T00:00:00Z'); // a multiple of 40 minutes since 1970

  function at(nowMs: number) {
    const clock = { time: nowMs, now: () => clock.time };
    return clock;
  }
  const issuedAt = (jwt: string) =>
    JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()).iat * 1000;

  test('is the same for all senders of one server, and differs for another key', async () => {
    const owner = {};
    const clock = at(START);
    const current = (other: Partial<typeof config> = {}, shared = owner) =>
      providerToken({ ...config, ...other }, { clock, owner: shared })?.current();
    expect(await current()).toBe(await current());
    expect(await current({ key_id: 'OTHER67890' })).not.toBe(await current());
    expect(await current({}, {})).not.toBe(await current());
  });

  test('is the same on all servers: 5 to 45 minutes old, renewed every 40', async () => {
    const clock = at(START);
    const changes: number[] = [];
    let last = '';
    for (; clock.time < START + 400 * MINUTE; clock.time += MINUTE) {
      const jwt = (await providerToken(config, { clock, owner: clock })?.current()) ?? '';
      const other = (await providerToken(config, { clock, owner: {} })?.current()) ?? '';
      expect(issuedAt(other)).toBe(issuedAt(jwt));
      expect(clock.time - issuedAt(jwt)).toBeGreaterThanOrEqual(5 * MINUTE);
      expect(clock.time - issuedAt(jwt)).toBeLessThan(45 * MINUTE);
      if (last !== '' && jwt !== last) changes.push(clock.time - START);
      last = jwt;
    }
    expect(changes).toEqual(Array.from({ length: 10 }, (_, n) => (5 + 40 * n) * MINUTE));
  });

  test('that APNs rejects as expired is renewed once for all, never twice in 20 minutes', async () => {
    const clock = at(START + 10 * MINUTE);
    const token = providerToken(config, { clock, owner: {} });
    if (token === undefined) throw new Error('the key is not for APNs');
    const first = await token.current();
    expect(token.renew(first)).toBeUndefined(); // ten minutes old
    clock.time += 30 * MINUTE;
    const [second, same] = await Promise.all([token.renew(first), token.renew(first)]);
    expect(issuedAt(second ?? '')).toBe(clock.time);
    expect([same, await token.current(), await token.renew(first)]).toEqual([second, second, second]);
    expect(token.renew(second ?? '')).toBeUndefined();
    const renewedAt = clock.time;
    let changedAt = 0;
    for (; clock.time < renewedAt + 60 * MINUTE; clock.time += MINUTE) {
      const jwt = await token.current();
      expect(clock.time - issuedAt(jwt)).toBeLessThanOrEqual(45 * MINUTE);
      if (changedAt === 0 && jwt !== second) changedAt = clock.time;
    }
    expect(changedAt).toBe(renewedAt + 45 * MINUTE);
  });
});

describe('a sender', () => {
  const clock = { time: Date.now(), now: () => clock.time };
  let apple: ApnsStandIn;
  let sandbox: ApnsStandIn;
  let transport: Transport;
  let sender: Sender<PushMessage>;
  const egress = createEgressGuard();

  function open(origins: Partial<Record<OriginSetting, string>>, timeouts = {}): void {
    transport = createTransport({
      egress,
      origins,
      timeouts: { connectMs: 10_000, replyMs: 10_000, idleMs: 1000, ...timeouts },
    });
    sender = apns.connect(config, { egress, clock, transport });
  }

  const account = {
    teamId: config.team_id,
    keyId: config.key_id,
    publicKey,
    topics: [config.app_id],
    now: () => clock.time,
  };
  beforeEach(async () => {
    clock.time = Date.now();
    [apple, sandbox] = await Promise.all([startApnsStandIn(account), startApnsStandIn(account)]);
    open({ PROVIDER_APNS_BASE_URL: apple.address, PROVIDER_APNS_SANDBOX_BASE_URL: sandbox.address });
  });
  afterEach(async () => {
    await sender.close({ graceMs: 0 });
    await transport.close();
    await Promise.all([apple.stop(), sandbox.stop()]);
  });

  const message = (more: Partial<PushMessage> = {}) => ({ ...minimal, deliveryId: randomUUID(), ...more });

  test('sends the request with a token to the server of the device’s environment', async () => {
    const first = message();
    expect(await sender.send(first)).toEqual({ kind: 'sent', providerId: first.deliveryId });
    expect(apple.pushes).toMatchObject([
      {
        deviceToken: 'ab'.repeat(32),
        headers: {
          ':method': 'POST',
          authorization: expect.stringMatching(/^bearer [\w-]+\.[\w-]+\.[\w-]+$/),
          'apns-topic': 'com.example.app',
          'apns-push-type': 'alert',
          'apns-id': first.deliveryId,
          'content-type': 'application/json',
        },
        payload: { aps: { alert: { title: 'Hello' } } },
      },
    ]);
    const token = { ...minimal.token, installationId: 'development' };
    expect(await sender.send(message({ token }))).toMatchObject({ kind: 'sent' });
    expect([apple.pushes.length, sandbox.pushes.length]).toEqual([1, 1]);
  });

  test('sends many over one connection with one token', async () => {
    const messages = Array.from({ length: 500 }, () => message());
    const outcomes = await Promise.all(messages.map((one) => sender.send(one)));
    expect(outcomes).toEqual(messages.map(({ deliveryId }) => ({ kind: 'sent', providerId: deliveryId })));
    expect(new Set(apple.pushes.map(({ headers }) => headers['apns-id'])).size).toBe(500);
    expect([apple.sessions.length, apple.tokens.length]).toEqual([1, 1]);
  });

  test('reports a device that is gone, and since when', async () => {
    apple.fail('ab'.repeat(32), 410, 'Unregistered', { timestamp: 1_700_000_000_000 });
    expect(await sender.send(message())).toMatchObject({
      kind: 'token_gone',
      goneAt: new Date(1_700_000_000_000),
    });
  });

  test('continues while the server ends its connections', async () => {
    const outcomes: SendOutcome[] = [];
    for (let round = 0; round < 5; round += 1) {
      const sends = Array.from({ length: 50 }, () => sender.send(message()));
      await expect.poll(() => apple.pushes.length).toBeGreaterThan(round * 50);
      apple.sessions.at(-1)?.close(); // GOAWAY, and the end when all streams have ended
      outcomes.push(...(await Promise.all(sends)));
      await expect.poll(() => apple.sessions.at(-1)?.destroyed).toBe(true);
    }
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    expect([apple.pushes.length, apple.sessions.length]).toEqual([250, 5]);
  });

  test('sends all pushes if APNs allows one stream at a time', async () => {
    apple.limitStreams(1);
    const outcomes = await Promise.all(Array.from({ length: 200 }, () => sender.send(message())));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    expect(new Set(apple.pushes.map(({ headers }) => headers['apns-id'])).size).toBe(200);
    expect([apple.pushes.length, apple.mostStreams()]).toEqual([200, 1]);
    expect(apple.sessions.length).toBeLessThanOrEqual(4);
  });

  test('keeps to the limits of APNs for tokens', async () => {
    for (let minutes = 0; minutes < 300; minutes += 5) {
      expect(await sender.send(message())).toMatchObject({ kind: 'sent' });
      clock.time += 5 * 60_000;
    }
    expect(apple.tokens.length).toBeGreaterThanOrEqual(7);
    expect(apple.tokens.length).toBeLessThanOrEqual(9);
  });

  test('whose token APNs rejects as expired sends with a newer one, for all pushes in flight', async () => {
    clock.time = Date.parse('2030-01-01T00:44:00Z'); // 44 minutes after the issue time
    await apple.stop();
    const ahead = () => clock.time + 30 * 60_000; // the clock of APNs is right, ours is half an hour late
    apple = await startApnsStandIn({ ...account, now: ahead });
    await sender.close();
    await transport.close();
    open({ PROVIDER_APNS_BASE_URL: apple.address });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => sender.send(message())));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    expect(apple.tokens).toHaveLength(1);
  });

  test('rejects the config if the key is invalid, and sends nothing', async () => {
    const bad = apns.connect({ ...config, certificate: 'x' }, { egress, clock, transport });
    expect(await bad.send(message())).toMatchObject({ kind: 'rejected', scope: 'config' });
    expect(apple.sessions).toEqual([]);
    await bad.close();
  });

  test('closes its connections, and rejects later sends', async () => {
    expect(await sender.send(message())).toMatchObject({ kind: 'sent' });
    await sender.close();
    await expect.poll(() => apple.sessions[0]?.destroyed).toBe(true);
    expect(await sender.send(message())).toMatchObject({ kind: 'retry', ambiguous: false });
  });

  test('distinguishes a lost response from a request that was never sent', async () => {
    const odd = await startVendor({ http2: true });
    await sender.close();
    await transport.close();
    open({ PROVIDER_APNS_BASE_URL: odd.address }, { replyMs: 1_000 });
    odd.reply('hang');
    expect(await sender.send(message())).toMatchObject({ kind: 'retry', ambiguous: true, code: 'ETIMEDOUT' });
    odd.reply('cut');
    expect(await sender.send(message())).toMatchObject({ kind: 'retry', ambiguous: true });
    odd.reply({ status: 500, body: '<html>' });
    expect(await sender.send(message())).toMatchObject({ kind: 'retry', ambiguous: false });
    await odd.stop();
    // The first may still be written to the old connection.
    await expect
      .poll(() => sender.send(message()))
      .toMatchObject({ kind: 'retry', ambiguous: false, code: 'ECONNREFUSED' });
  });
});

test('the stand-in responds to a third-party client as APNs does', async () => {
  const apple = await startApnsStandIn({
    teamId: config.team_id,
    keyId: config.key_id,
    publicKey,
    topics: [config.app_id],
    tls: true,
  });
  const { hostname, port } = new URL(apple.address);
  const other = new OtherClient({
    address: hostname,
    port: Number(port),
    token: { key: config.certificate, keyId: config.key_id, teamId: config.team_id },
    rejectUnauthorized: false,
  });
  const [known, gone] = ['ab'.repeat(32), 'cd'.repeat(32)];
  apple.fail(gone, 410, 'Unregistered', { timestamp: 1 });
  const notification = new Notification({ topic: config.app_id, pushType: 'alert' });
  notification.alert = 'x';
  expect(await other.send(notification, [known, gone])).toMatchObject({
    sent: [{ device: known }],
    failed: [{ device: gone, status: 410, response: { reason: 'Unregistered', timestamp: 1 } }],
  });
  expect(apple.pushes).toMatchObject([{ deviceToken: known, payload: { aps: { alert: 'x' } } }]);
  notification.topic = 'com.other';
  expect(await other.send(notification, known)).toMatchObject({
    failed: [{ status: 400, response: { reason: 'TopicDisallowed' } }],
  });
  await other.shutdown();
  await apple.stop();
});

conforms('apns', {
  http2: true,
  open: (_address, deps) => apns.connect(config, deps(['PROVIDER_APNS_BASE_URL'])),
  message: () => minimal,
  accepts: { status: 200, headers: { 'apns-id': 'A-1' } },
  sent: { kind: 'sent', providerId: 'A-1' },
  secrets: ({ headers }) => [String(headers.authorization).replace('bearer ', '')],
  // A 200 has no body.
  except: { 'garbage body': { kind: 'sent' }, 'a page as body': { kind: 'sent' } },
});

function payloadOf(request: unknown): Record<string, unknown> {
  return JSON.parse((request as { body: string }).body) as Record<string, unknown>;
}

import { generateKeyPairSync } from 'node:crypto';
import { auth, type fcm_v1, fcm as googleFcm } from '@googleapis/fcm';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type FcmStandIn,
  fault,
  fcmError,
  startFcmStandIn,
  violation,
} from '../../../test/support/fcm-stand-in.ts';
import { integrationConfigs } from '../../../test/support/integration-configs.ts';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import type { Override, PushMessage, Sender } from '../provider.ts';
import { createTransport, type Transport } from '../shared/transport.ts';
import { fcm } from './index.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const config = {
  ...integrationConfigs.fcm.full,
  project_id: 'shop-1',
  client_email: 'push@shop-1.iam.gserviceaccount.com',
  private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  universe_domain: 'googleapis.com',
} as Parameters<typeof fcm.connect>[0];

const push = { token: { deviceToken: 'device-1:APA91b' }, badge: { unread: 3, unseen: 5 } };
const minimal: PushMessage = { ...bareContent(), ...push };
const full: PushMessage = { ...notificationContent(), ...push };
const messageOf = (request: unknown) => (request as { message: Record<string, unknown> }).message;

describe('build', () => {
  test('a minimal message', () => {
    const built = fcm.build(minimal, config);
    expect(JSON.parse('body' in built ? built.body : '')).toEqual({ message: messageOf(built) });
    expect(built).toMatchObject({ path: '/v1/projects/shop-1/messages:send' });
    expect(messageOf(built)).toEqual({
      token: 'device-1:APA91b',
      notification: { title: 'Your order has shipped' },
      data: { id: '0198c0de-0000-7000-8000-00000000000a' },
      android: { priority: 'HIGH', notification: { tag: '0198c0de-0000-7000-8000-00000000000a' } },
      apns: {
        headers: {
          'apns-priority': '10',
          'apns-expiration': '1782993600',
          'apns-collapse-id': '0198c0de-0000-7000-8000-00000000000a',
        },
        payload: { aps: { badge: 3, sound: 'default', 'mutable-content': 1 } },
      },
      webpush: { notification: { tag: '0198c0de-0000-7000-8000-00000000000a' } },
    });
  });

  test('a message with everything: data are strings', () => {
    expect(messageOf(fcm.build(full, config))).toMatchObject({
      notification: { title: 'Your order has shipped', body: 'It arrives on Monday.' },
      data: {
        id: '0198c0de-0000-7000-8000-00000000000a',
        action_url: 'https://shop.example.com/orders/42?from=news&step=1',
        category: 'orders',
        topic: 'order-42',
        custom_attributes: '{"order":{"id":42}}',
      },
      apns: { payload: { aps: { 'thread-id': 'order-42' } } },
      webpush: { fcm_options: { link: 'https://shop.example.com/orders/42?from=news&step=1' } },
    });
  });

  test('a link that FCM would reject is in the data only', () => {
    const message = messageOf(fcm.build({ ...full, actionUrl: 'shop://orders/42' }, config));
    expect(message).toMatchObject({ data: { action_url: 'shop://orders/42' } });
    expect(message).not.toHaveProperty('webpush.fcm_options');
  });

  test('an override in either spelling is merged; members of the app are unchanged', () => {
    const override = {
      fcmOptions: { analyticsLabel: 'spring' },
      android: {
        collapseKey: 'orders',
        priority: 'NORMAL',
        notification: { channelId: 'c1', tag: null, lightSettings: { lightOnDuration: '1s' } },
        data: { camelCase: 'kept' },
      },
      webpush: { fcmOptions: { link: 'https://example.com/' }, notification: { requireInteraction: true } },
      apns: { payload: { aps: { sound: 'bell' }, myKey: 1 } },
      data: { myKey: 7, nested: { a: [1] }, id: null },
    };
    const message = messageOf(fcm.build({ ...full, override }, config));
    expect(message).toMatchObject({
      fcm_options: { analytics_label: 'spring' },
      android: {
        collapse_key: 'orders',
        priority: 'NORMAL',
        notification: { channel_id: 'c1', light_settings: { light_on_duration: '1s' } },
        data: { camelCase: 'kept' },
      },
      webpush: { fcm_options: { link: 'https://example.com/' }, notification: { requireInteraction: true } },
      apns: { payload: { aps: { sound: 'bell', badge: 3 }, myKey: 1 } },
      data: { myKey: '7', nested: '{"a":[1]}' },
    });
    expect(message).not.toHaveProperty('data.id');
    expect(message).not.toHaveProperty('android.notification.tag');
    expect(JSON.stringify(message)).not.toMatch(/fcmOptions|collapseKey|channelId/);
  });

  test('an override cannot be mistaken for a rejection', () => {
    const override = { kind: 'rejected', scope: 'config', reason: { not: 'a text' } };
    expect(fcm.build({ ...full, override }, config)).toHaveProperty('message.token');
  });

  test('the destination cannot be overridden', () => {
    const override = { token: 'other', topic: 'all', condition: "'a' in topics" };
    const message = messageOf(fcm.build({ ...full, override }, config));
    expect(message.token).toBe('device-1:APA91b');
    expect(message).not.toHaveProperty('topic');
    expect(message).not.toHaveProperty('condition');
  });

  test.each(['from', 'message_type', 'google.x', 'gcm.notification.x'])(
    'data with the reserved name %s are rejected',
    (name) => {
      const request = fcm.build({ ...full, override: { data: { [name]: 'x' } } }, config);
      expect(request).toMatchObject({ kind: 'rejected', scope: 'message', code: 'bad_override' });
    },
  );

  test('a large number in the data of an override keeps its digits', () => {
    const override = readJson('{"data":{"id":9007199254740993,"of":{"id":9007199254740995}}}') as Override;
    const built = messageOf(fcm.build({ ...full, override }, config));
    expect(built).toMatchObject({ data: { id: '9007199254740993', of: '{"id":9007199254740995}' } });
  });

  // FCM rejects a message of more than 4096 bytes, and the link would be in it twice.
  test('a long action_url is in the data alone', () => {
    const actionUrl = `https://shop.example/${'ü'.repeat(1000)}`;
    const built = messageOf(fcm.build({ ...full, actionUrl }, config));
    expect(built).toMatchObject({ data: { action_url: actionUrl }, notification: { body: full.text } });
    expect(built).not.toHaveProperty('webpush.fcm_options');
  });

  test('a message that is too large loses its attributes, then text, then it is rejected', () => {
    const large = { ...full, customAttributes: { a: 'x'.repeat(5000) } };
    expect(messageOf(fcm.build(large, config))).not.toHaveProperty('data.custom_attributes');
    const cut = messageOf(fcm.build({ ...full, text: 'ä'.repeat(5000) }, config));
    expect(cut).toMatchObject({ notification: { body: expect.stringMatching(/^ä+…$/) } });
    const title = 'x'.repeat(5000);
    expect(fcm.build({ ...full, title }, config)).toMatchObject({ scope: 'message', code: 'too_big' });
  });
});

describe('classify', () => {
  const classify = ({ status, headers = {}, body }: ReturnType<typeof fault>) =>
    fcm.classify({ status, headers, text: JSON.stringify(body) });
  const config = { kind: 'rejected', scope: 'config' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const gone = { kind: 'token_gone', scope: 'token' };
  const retry = { kind: 'retry', ambiguous: false };

  test('200 is sent, with the name that FCM returned', () => {
    expect(classify({ status: 200, body: { name: 'projects/p/messages/0:1' } })).toEqual({
      kind: 'sent',
      providerId: 'projects/p/messages/0:1',
    });
    expect(classify({ status: 200, body: {} })).toMatchObject({ kind: 'retry', ambiguous: true });
  });

  test.each<[string, ReturnType<typeof fault>, object]>([
    ['unregistered', fault(404, 'NOT_FOUND', 'Not found', [fcmError('UNREGISTERED')]), gone],
    [
      'another sender',
      fault(403, 'PERMISSION_DENIED', 'SenderId mismatch', [fcmError('SENDER_ID_MISMATCH')]),
      { ...gone, suspect: 'config', code: 'SENDER_ID_MISMATCH' },
    ],
    ['a token of no form', fault(400, 'INVALID_ARGUMENT', 'x', [violation('message.token')]), gone],
    [
      'a token of no form, in words',
      fault(400, 'INVALID_ARGUMENT', 'The registration token is not a valid FCM registration token', [
        fcmError('INVALID_ARGUMENT'),
      ]),
      gone,
    ],
    [
      'another member',
      fault(400, 'INVALID_ARGUMENT', 'x', [violation('message.data.from'), fcmError('INVALID_ARGUMENT')]),
      { ...message, code: 'INVALID_ARGUMENT' },
    ],
    ['too big', fault(400, 'INVALID_ARGUMENT', 'Message too big'), message],
    ['not logged in', fault(401, 'UNAUTHENTICATED', 'x'), { ...config, code: 'UNAUTHENTICATED' }],
    [
      "Apple's key",
      fault(401, 'UNAUTHENTICATED', 'x', [fcmError('THIRD_PARTY_AUTH_ERROR')]),
      { ...either, code: 'THIRD_PARTY_AUTH_ERROR' },
    ],
    ['not allowed', fault(403, 'PERMISSION_DENIED', 'x'), config],
    ['another project', fault(404, 'NOT_FOUND', 'x'), either],
    [
      'quota',
      fault(429, 'RESOURCE_EXHAUSTED', 'x', [fcmError('QUOTA_EXCEEDED')]),
      { ...retry, retryAfterMs: 60_000, code: 'QUOTA_EXCEEDED' },
    ],
    [
      'quota, with a wish',
      { ...fault(429, 'RESOURCE_EXHAUSTED', 'x'), headers: { 'retry-after': '7' } },
      { ...retry, retryAfterMs: 7_000 },
    ],
    [
      'quota, with a wish in the body',
      fault(429, 'RESOURCE_EXHAUSTED', 'x', [{ '@type': 'RetryInfo', retryDelay: '12.5s' }]),
      { ...retry, retryAfterMs: 12_500 },
    ],
    ['not available', fault(503, 'UNAVAILABLE', 'x', [fcmError('UNAVAILABLE')]), retry],
    ['internal', fault(500, 'INTERNAL', 'x', [fcmError('INTERNAL')]), retry],
    ['a gateway', { status: 502, body: '<html>' }, { kind: 'retry', ambiguous: true }],
    ['details of no form', fault(400, 'X', 'x', [null, 1, { fieldViolations: [null] }] as object[]), message],
    ['an error of no form', { status: 400, body: { error: 'x' } }, message],
  ])('%s', (_name, response, outcome) => {
    expect(classify(response)).toMatchObject(outcome);
  });

  test('without an access token nothing was sent', () => {
    const token = (status: number, body: unknown) =>
      fcm.classify({ status, headers: {}, text: JSON.stringify(body), of: 'token' });
    expect(token(400, { error: 'invalid_grant' })).toMatchObject({ ...config, code: 'invalid_grant' });
    expect(token(401, { error: 'invalid_client' })).toMatchObject({ ...config, code: 'invalid_client' });
    for (const status of [200, 429, 500, 502, 503]) expect(token(status, {})).toMatchObject(retry);
    const error = { code: 'ECONNRESET', message: 'x' };
    expect(fcm.classify({ error, written: true, of: 'token' })).toMatchObject(retry);
  });
});

describe('a sender', () => {
  const clock = { time: Date.now(), now: () => clock.time };
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  let google: FcmStandIn;
  let transport: Transport;
  let sender: Sender<PushMessage>;
  let aheadMs: number;
  beforeEach(async () => {
    clock.time = full.expiresAt.getTime() - 3_600_000;
    aheadMs = 0;
    google = await startFcmStandIn({
      projectId: 'shop-1',
      clientEmail: config.client_email,
      privateKey,
      now: () => clock.now() - aheadMs,
    });
    transport = createTransport({
      egress,
      origins: { PROVIDER_FCM_BASE_URL: google.address },
      timeouts: { connectMs: 10_000, replyMs: 10_000, idleMs: 1000 },
    });
    sender = fcm.connect({ ...config, token_uri: google.tokenUri }, { egress, clock, transport });
  });
  afterEach(async () => {
    await sender.close({ graceMs: 0 });
    await transport.close();
    await google.stop();
  });

  test('sends the message with its remaining time to live', async () => {
    expect(await sender.send(full)).toEqual({ kind: 'sent', providerId: 'projects/shop-1/messages/1' });
    const built = messageOf(fcm.build(full, config));
    expect(google.messages).toEqual([
      {
        ...built,
        android: { ...(built.android as object), ttl: '3600s' },
        webpush: { ...(built.webpush as object), headers: { TTL: '3600' } },
      },
    ]);
    const override = { android: { ttl: '60s' }, webpush: { headers: { TTL: '61', Urgency: 'low' } } };
    expect(await sender.send({ ...full, override })).toMatchObject({ kind: 'sent' });
    expect(google.messages[1]).toMatchObject({
      android: { ttl: '60s' },
      webpush: { headers: { TTL: '61', Urgency: 'low' } },
    });
  });

  test('sends the largest message that FCM accepts', async () => {
    expect(await sender.send({ ...full, text: '😀'.repeat(5000) })).toMatchObject({ kind: 'sent' });
  });

  test('sends many over one connection with one access token, fetched once', async () => {
    const outcomes = await Promise.all(Array.from({ length: 300 }, () => sender.send(full)));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    expect([google.tokenRequests, google.sessions.length, google.messages.length]).toEqual([1, 1, 300]);
  });

  test('gets its access token although its clock is some seconds ahead of, or behind, Google', async () => {
    for (aheadMs of [20_000, -20_000]) {
      expect(await sender.send(full)).toMatchObject({ kind: 'sent' });
      google.forgetTokens();
    }
  });

  test('renews its access token five minutes before it expires, and keeps it if that fails', async () => {
    await sender.send(full);
    clock.time += (3599 - 301) * 1000;
    await sender.send(full);
    expect(google.tokenRequests).toBe(1);
    clock.time += 2000;
    google.failTokens({ status: 503, body: {} });
    expect(await sender.send(full)).toMatchObject({ kind: 'sent' });
    expect(google.tokenRequests).toBe(2);
    google.failTokens(undefined);
    expect(await sender.send(full)).toMatchObject({ kind: 'sent' });
    expect(google.tokenRequests).toBe(3);
    await sender.send(full);
    expect(google.tokenRequests).toBe(3);
    google.failTokens({ status: 503, body: {} });
    clock.time += 3600_000;
    expect(await sender.send(full)).toMatchObject({ kind: 'retry', ambiguous: false });
  });

  test('fetches a new access token if this one is rejected, once for all pushes in flight', async () => {
    await sender.send(full);
    google.forgetTokens();
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => sender.send(full)));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['sent']));
    expect(google.tokenRequests).toBe(2);
    google.fail('device-1:APA91b', fault(401, 'UNAUTHENTICATED', 'x'));
    expect(await sender.send(full)).toMatchObject({ kind: 'rejected', scope: 'config' });
    expect(google.tokenRequests).toBe(3);
  });

  test('rejects the config if the account is rejected', async () => {
    google.failTokens({
      status: 400,
      body: { error: 'invalid_grant', error_description: 'No such account' },
    });
    expect(await sender.send(full)).toEqual({
      kind: 'rejected',
      scope: 'config',
      code: 'invalid_grant',
      reason: 'Google responded with 400: invalid_grant: No such account',
    });
    expect(google.sessions).toEqual([]);
  });

  test.each(['https://evil.example/token', 'https://googleapis.com.evil.example/token', 'https://8.8.8.8/t'])(
    'sends its assertion only to Google: %s',
    async (token_uri) => {
      const other = fcm.connect({ ...config, token_uri }, { egress, clock, transport });
      expect(await other.send(full)).toMatchObject({
        kind: 'rejected',
        scope: 'config',
        reason: expect.stringContaining('is not a Google address'),
      });
      await other.close();
    },
  );

  test('redacts an access token that a response contains', async () => {
    await sender.send(full);
    const [given = ''] = google.tokens();
    expect(given).toMatch(/^ya29/);
    google.fail('device-1:APA91b', fault(400, 'INVALID_ARGUMENT', `Bearer ${given} may not`));
    const outcome = await sender.send(full);
    expect(outcome).toMatchObject({
      kind: 'rejected',
      reason: expect.stringContaining('Bearer •••••• may not'),
    });
  });

  test('reports a device that is gone', async () => {
    google.fail('device-1:APA91b', fault(404, 'NOT_FOUND', 'x', [fcmError('UNREGISTERED')]));
    expect(await sender.send(full)).toMatchObject({ kind: 'token_gone', code: 'UNREGISTERED' });
  });

  test('with an invalid key sends nothing', async () => {
    const bad = fcm.connect({ ...config, private_key: 'x' }, { egress, clock, transport });
    expect(await bad.send(full)).toMatchObject({ kind: 'rejected', scope: 'config' });
    expect(google.tokenRequests).toBe(0);
    await bad.close();
  });

  test('closes its connections, and rejects later sends', async () => {
    await sender.send(full);
    await sender.close();
    await expect.poll(() => google.sessions[0]?.destroyed).toBe(true);
    expect(await sender.send(full)).toMatchObject({ kind: 'retry', ambiguous: false });
  });
});

test('the message matches Google’s own types', () => {
  // FCM accepts both spellings; the types have the other one.
  const typed: fcm_v1.Schema$Message = {
    token: 'device-1:APA91b',
    notification: { title: 'Your order has shipped', body: 'It arrives on Monday.' },
    data: {
      id: '0198c0de-0000-7000-8000-00000000000a',
      action_url: 'https://shop.example.com/orders/42?from=news&step=1',
      category: 'orders',
      topic: 'order-42',
      custom_attributes: '{"order":{"id":42}}',
    },
    fcmOptions: { analyticsLabel: 'spring' },
    android: {
      priority: 'HIGH',
      ttl: '60s',
      collapseKey: 'orders',
      notification: { tag: '0198c0de-0000-7000-8000-00000000000a', channelId: 'c1' },
    },
    apns: {
      headers: {
        'apns-priority': '10',
        'apns-expiration': '1782993600',
        'apns-collapse-id': '0198c0de-0000-7000-8000-00000000000a',
      },
      payload: { aps: { badge: 3, sound: 'default', 'mutable-content': 1, 'thread-id': 'order-42' } },
    },
    webpush: {
      notification: { tag: '0198c0de-0000-7000-8000-00000000000a' },
      fcmOptions: { link: 'https://shop.example.com/orders/42?from=news&step=1' },
    },
  };
  const override = {
    fcmOptions: { analyticsLabel: 'spring' },
    android: { ttl: '60s', collapseKey: 'orders', notification: { channelId: 'c1' } },
  };
  const { data, ...built } = messageOf(fcm.build({ ...full, override }, config));
  const { data: typedData, ...others } = typed;
  expect(inCamelCase(built)).toEqual(others);
  expect(data).toEqual(typedData);
});

test('the stand-in responds to Google’s own client as FCM does', async () => {
  const tokenUri = 'https://www.googleapis.com/oauth2/v4/token'; // the one that it knows
  const google = await startFcmStandIn({
    projectId: 'shop-1',
    clientEmail: config.client_email,
    privateKey,
    tls: true,
    audience: tokenUri,
  });
  const account = new auth.JWT({
    email: config.client_email,
    key: config.private_key,
    scopes: ['https://www.googleapis.com/auth/firebase.messaging'],
  });
  const { transporter } = account;
  const request = transporter.request.bind(transporter);
  transporter.request = (options) =>
    request(options.url === tokenUri ? { ...options, url: google.tokenUri } : options);
  const { messages } = googleFcm({ version: 'v1', auth: account, rootUrl: `${google.address}/` }).projects;
  const send = (message: fcm_v1.Schema$Message) =>
    messages.send({ parent: 'projects/shop-1', requestBody: { message } }, { retry: false });
  const sent = await send({ token: 'a', notification: { title: 'x' }, data: { id: '1' } });
  expect(sent.data).toEqual({ name: 'projects/shop-1/messages/1' });
  expect([google.tokenRequests, google.messages.length]).toEqual([1, 1]);
  google.fail('gone', fault(404, 'NOT_FOUND', 'Requested entity was not found.', [fcmError('UNREGISTERED')]));
  await expect(send({ token: 'gone' })).rejects.toMatchObject({
    code: 404,
    message: 'Requested entity was not found.',
    response: { data: { error: { details: [{ errorCode: 'UNREGISTERED' }] } } },
  });
  await expect(send({ token: 'a', data: { from: 'x' } })).rejects.toMatchObject({ code: 400 });
  await google.stop();
});

function inCamelCase(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, below]) => [
      name.replace(/_[a-z]/g, ([, letter = '']) => letter.toUpperCase()),
      inCamelCase(below),
    ]),
  );
}

conforms('fcm', {
  http2: true,
  open: (_address, deps, token_uri) => fcm.connect({ ...config, token_uri }, deps(['PROVIDER_FCM_BASE_URL'])),
  message: () => minimal,
  accepts: { status: 200, body: { name: 'projects/shop-1/messages/1' } },
  sent: { kind: 'sent', providerId: 'projects/shop-1/messages/1' },
  aside: () => ({ status: 200, body: { access_token: 'ya29.canary', expires_in: 3599 } }),
  secrets: ['ya29.canary'],
  except: {
    // The default delay is a minute.
    '429': { kind: 'retry', ambiguous: false, retryAfterMs: 60_000 },
  },
});

import { createECDH } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { decryptPush } from '../../../test/support/http-ece.ts';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { expectRecovery } from '../../../test/support/outage.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startWebPushStandIn } from '../../../test/support/web-push-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { Override, Sender, WebPushMessage } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { type PushRequest, webPush } from './index.ts';
import { createVapidKeys } from './vapid.ts';

const CONFIG = createVapidKeys();
const NOW = Date.parse('2026-07-01T12:00:00Z');

function browser() {
  const pair = createECDH('prime256v1');
  const p256dh = pair.generateKeys('base64url');
  const auth = Buffer.alloc(16, 7).toString('base64url');
  const read = (body: Buffer): unknown => JSON.parse(decryptPush(body, { privateKey: pair, auth }));
  return { keys: { p256dh, auth }, read };
}
const ann = browser();

const push = (members: Partial<WebPushMessage> = {}): WebPushMessage => ({
  ...notificationContent(),
  endpoint: 'https://push.example.com/send/abc?x=1',
  keys: ann.keys,
  ...members,
});

function built(message: WebPushMessage): PushRequest & { json: Record<string, unknown>; bytes: number } {
  const request = webPush.build(message, CONFIG);
  if ('kind' in request) throw new Error(request.reason);
  return { ...request, json: JSON.parse(request.payload), bytes: Buffer.byteLength(request.payload) };
}

describe('the payload', () => {
  test('a full message has exactly the members that service workers read', () => {
    expect(webPush.build(push({ content: '<p>It arrives on <b>Monday</b>.</p>' }), CONFIG)).toEqual({
      endpoint: 'https://push.example.com/send/abc?x=1',
      keys: ann.keys,
      headers: {
        'content-type': 'application/octet-stream',
        'content-encoding': 'aes128gcm',
        urgency: 'normal',
        topic: 'O_ixV8Qjju_lrkpm7Kgca4h9Tc7bWN1n',
      },
      payload: JSON.stringify({
        id: '0198c0de-0000-7000-8000-00000000000a',
        title: 'Your order has shipped',
        content: 'It arrives on Monday.',
        action_url: 'https://shop.example.com/orders/42?from=news&step=1',
        category: 'orders',
        topic: 'order-42',
        custom_attributes: { order: { id: 42 } },
      }),
    });
  });

  test('an empty message has them as null', () => {
    const { json, headers } = built(push(bareContent()));
    expect(json).toEqual({
      id: '0198c0de-0000-7000-8000-00000000000a',
      title: 'Your order has shipped',
      content: null,
      action_url: null,
      category: null,
      topic: null,
      custom_attributes: null,
    });
    expect(headers.topic).toMatch(/^[\w-]{32}$/);
  });

  test('the tracking URL is included, and dropped first if there is no room', () => {
    const trackingUrl = 'https://notify.example/t/c/abc';
    const whole = built(push({ trackingUrl }));
    expect(whole.json).toEqual({ ...built(push()).json, tracking_url: trackingUrl });
    // The maximum length without the URL.
    const text = 'x'.repeat(2744 - 103 - 20 - built(push({ text: '', content: '' })).bytes);
    const long = { text, content: text };
    expect(built(push({ ...long, trackingUrl }))).toEqual(built(push(long)));
    expect(built(push(long)).json).toMatchObject({ content: text, custom_attributes: { order: { id: 42 } } });
    const longer = { text: text.repeat(3), content: text };
    expect(built(push({ ...longer, trackingUrl }))).toEqual(built(push(longer)));
  });

  test('the push service keeps the newest message per topic, and every message without one', () => {
    const topic = (members: Partial<WebPushMessage>) => built(push(members)).headers.topic;
    expect(topic({ notificationId: 'other' })).toBe(topic({}));
    expect(topic({ topic: null, notificationId: 'a' })).not.toBe(topic({ topic: null, notificationId: 'b' }));
  });

  test('an override is merged into the payload, except for three headers', () => {
    const override = {
      title: 'Shipped',
      icon: '/box.png',
      category: null,
      custom_attributes: { order: { paid: true } },
      ttl: 60,
      urgency: 'high',
      topic_header: 'orders',
    };
    const { json, headers, ttlSeconds } = built(push({ override }));
    expect(json).toEqual({
      id: '0198c0de-0000-7000-8000-00000000000a',
      title: 'Shipped',
      content: 'It arrives on Monday.',
      action_url: 'https://shop.example.com/orders/42?from=news&step=1',
      topic: 'order-42',
      icon: '/box.png',
      custom_attributes: { order: { id: 42, paid: true } },
    });
    expect(ttlSeconds).toBe(60);
    expect(headers).toMatchObject({ urgency: 'high', topic: 'orders' });
  });

  test('null removes a header', () => {
    const { headers, ttlSeconds } = built(
      push({ override: { ttl: null, urgency: null, topic_header: null } }),
    );
    expect(headers).not.toHaveProperty('topic');
    expect(headers).not.toHaveProperty('urgency');
    expect(ttlSeconds).toBeUndefined();
  });

  test.each<[string, Override]>([
    ['ttl must be a whole number of seconds', { ttl: -1 }],
    ['ttl must be a whole number of seconds', { ttl: 1.5 }],
    ['ttl must be a whole number of seconds', { ttl: '60' }],
    ['ttl must be a whole number of seconds', { ttl: 2_419_201 }],
    ['urgency must be one of', { urgency: 'now\r\nx: y' }],
    ['topic_header must be', { topic_header: 'x'.repeat(33) }],
    ['topic_header must be', { topic_header: 'a b' }],
    ['must not name __proto__', JSON.parse('{"a":{"__proto__":{}}}')],
  ])('an override is rejected: %s (%j)', (problem, override) => {
    expect(webPush.build(push({ override }), CONFIG)).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: 'bad_override',
      reason: expect.stringContaining(problem),
    });
  });
});

describe('a message that is too big', () => {
  const AIM = 2641;
  const HARD = 3993;
  const long = { content: 'x'.repeat(10_000), text: 'ab😀'.repeat(2500) };

  test('has its text cut to what every push service accepts', () => {
    const { json, bytes } = built(push({ ...long, customAttributes: null }));
    expect(bytes).toBeLessThanOrEqual(AIM);
    expect(bytes).toBeGreaterThan(AIM - 10);
    expect(json.content).toMatch(/^(?:ab😀)+(?:ab?)?…$/u);
  });

  test('keeps its custom attributes if the displayed text leaves room for them', () => {
    const { json, bytes } = built(push(long));
    expect(json.custom_attributes).toEqual({ order: { id: 42 } });
    expect(String(json.content).length).toBe(999); // the thousandth would split a character
    expect(bytes).toBeLessThanOrEqual(HARD);
  });

  test('loses custom attributes that no push service accepts', () => {
    const { json, bytes } = built(push({ ...long, customAttributes: { big: 'x'.repeat(4000) } }));
    expect(json.custom_attributes).toBeNull();
    expect(bytes).toBeLessThanOrEqual(AIM);
  });

  test('is sent up to the limit of most push services if the override requires it', () => {
    const { json, bytes } = built(push({ override: { data: 'x'.repeat(3300) } }));
    expect(bytes).toBeLessThanOrEqual(HARD);
    expect(json.data).toHaveLength(3300);
  });

  test('is rejected without a request if it cannot fit', () => {
    expect(webPush.build(push({ override: { data: 'x'.repeat(4000) } }), CONFIG)).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: 'too_big',
    });
  });
});

describe('classify', () => {
  const gone = { kind: 'token_gone', scope: 'token' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const mozilla = (errno: number) => JSON.stringify({ code: 400, errno, error: 'Bad', message: 'no' });
  test.each<[number, string, Record<string, unknown>]>([
    [201, '', { kind: 'sent' }],
    [202, '', { kind: 'sent' }],
    [204, '', { kind: 'sent' }],
    [404, mozilla(102), { ...gone, code: '404 102' }],
    [410, mozilla(106), { ...gone, code: '410 106' }],
    [401, mozilla(109), { ...either, code: '401 109' }],
    [403, '{"reason":"BadJwtToken"}', { ...either, code: '403' }],
    [
      403,
      // language-ignore: quoted from a push service
      'the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.',
      { ...gone, suspect: 'config' },
    ],
    [400, '{"reason":"VapidPkHashMismatch"}', { ...gone, suspect: 'config' }],
    [400, mozilla(110), either],
    [400, mozilla(111), either],
    [400, 'UnauthorizedRegistration', either],
    [400, mozilla(113), { ...message, code: '400' }],
    [413, mozilla(104), message],
    [406, '', { kind: 'retry', ambiguous: false, code: '406' }],
    [429, '', { kind: 'retry', ambiguous: false }],
    [500, '', { kind: 'retry', ambiguous: false }],
    [503, mozilla(201), { kind: 'retry', ambiguous: false, retryAfterMs: undefined }],
    [503, mozilla(202), { kind: 'retry', ambiguous: false, retryAfterMs: 0 }],
  ])('%d %s', (status, text, expected) => {
    const outcome = webPush.classify({ status, headers: {}, text });
    expect({ retryAfterMs: undefined, ...outcome }).toMatchObject(expected);
  });

  test('a push service of Windows that throttles with 406 is tried again when it asks for that', () => {
    const headers = { 'retry-after': '900', 'x-wns-status': 'appthrottled' };
    expect(webPush.classify({ status: 406, headers, text: '' })).toEqual({
      kind: 'retry',
      code: '406',
      reason: 'the push service limits the rate: it responded with 406',
      ambiguous: false,
      retryAfterMs: 900_000,
    });
  });

  test.each([
    ['dropped', { kind: 'rejected', scope: 'message', code: 'dropped' }],
    ['Dropped', { kind: 'rejected', scope: 'message', code: 'dropped' }],
    ['channelthrottled', { kind: 'retry', ambiguous: false, code: 'channelthrottled' }],
    ['received', { kind: 'sent' }],
  ])('a push that the service of Windows accepts with 201 and the status %s', (status, expected) => {
    const headers = { 'x-wns-status': status, 'x-wns-msg-id': '7D2F' };
    const outcome = webPush.classify({ status: 201, headers, text: '' });
    expect(outcome).toMatchObject(expected);
    if (outcome.kind !== 'sent') expect(outcome.reason).toContain('the push service of Windows');
  });

  test('the provider id is the push service’s id of the message', () => {
    const classify = (headers: Record<string, string>) =>
      webPush.classify({ status: 201, headers, text: '' });
    expect(classify({ location: 'https://fcm.googleapis.com/0:17%a8' })).toEqual({
      kind: 'sent',
      providerId: '0:17%a8',
    });
    expect(classify({ 'apns-id': 'A-1' })).toEqual({ kind: 'sent', providerId: 'A-1' });
  });
});

describe('sending', () => {
  const cleanups: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });

  async function pushService(
    respond: (body: Buffer) => { status: number; body?: string } = () => ({ status: 201 }),
  ) {
    const requests: { path: string; headers: NodeJS.Dict<string | string[]>; body: Buffer }[] = [];
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        requests.push({ path: request.url ?? '', headers: request.headers, body });
        const { status, body: text = '' } = respond(body);
        response.writeHead(status).end(text);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanups.push(async () => server.close());
    return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
  }

  function open(settings: { config?: typeof CONFIG; contact?: string; allow?: string } = {}) {
    const clock = { at: NOW, now: () => clock.at };
    const egress = createEgressGuard({ allow: settings.allow ?? '127.0.0.0/8' });
    const transport = createTransport({ egress });
    const { contact } = settings;
    const sender: Sender<WebPushMessage> = webPush.connect(settings.config ?? CONFIG, {
      egress,
      transport,
      clock,
      ...(contact === undefined ? {} : { contact }),
    });
    cleanups.push(async () => sender.close().then(() => transport.close()));
    return { sender, clock };
  }

  const authorization = (header: unknown) => {
    const [, token = '', key] = /^vapid t=([^,]+), k=(.+)$/.exec(String(header)) ?? [];
    return { token, key, claims: JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) };
  };

  test('one request to the endpoint, with the required headers and an encrypted body', async () => {
    const { address, requests } = await pushService();
    const { sender } = open({ contact: 'https://belfry.example.com' });
    const endpoint = `${address}/send/abc?x=1`;
    expect(await sender.send(push({ endpoint }))).toEqual({ kind: 'sent' });
    const [request] = requests;
    expect(requests).toHaveLength(1);
    expect(request?.path).toBe('/send/abc?x=1');
    const { token, key, claims } = authorization(request?.headers.authorization);
    expect(request?.headers).toEqual({
      host: address.slice('http://'.length),
      connection: 'keep-alive',
      'user-agent': 'Belfry',
      accept: '*/*',
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      urgency: 'normal',
      topic: 'O_ixV8Qjju_lrkpm7Kgca4h9Tc7bWN1n',
      ttl: '86400',
      authorization: `vapid t=${token}, k=${key}`,
      'content-length': String(request?.body.length),
    });
    expect(key).toBe(CONFIG.public_key);
    expect(claims).toEqual({ aud: address, exp: NOW / 1000 + 18 * 3600, sub: 'https://belfry.example.com' });
    expect(ann.read(request?.body ?? Buffer.alloc(0))).toMatchObject({ title: 'Your order has shipped' });
  });

  test('the time to live is the remaining time, and 0 after it', async () => {
    const { address, requests } = await pushService();
    const { sender, clock } = open();
    const ttl = async (members: Partial<WebPushMessage>) => {
      await sender.send(push({ endpoint: address, ...members }));
      return requests.at(-1)?.headers.ttl;
    };
    clock.at = NOW + 86_400_000 - 1_500;
    expect(await ttl({})).toBe('2');
    expect(await ttl({ expiresAt: new Date(NOW) })).toBe('0');
    expect(await ttl({ expiresAt: new Date('2030-01-01') })).toBe('2419200');
    expect(await ttl({ override: { ttl: 0 } })).toBe('0');
  });

  test('a signature is reused for one origin for twelve hours', async () => {
    const [one, other] = [await pushService(), await pushService()];
    const { sender, clock } = open();
    const header = async ({ address, requests }: typeof one) => {
      await sender.send(push({ endpoint: `${address}/x` }));
      return authorization(requests.at(-1)?.headers.authorization);
    };
    const first = await header(one);
    expect(first.claims).toEqual({ aud: one.address, exp: NOW / 1000 + 18 * 3600 }); // no contact, no `sub`
    expect((await header(other)).claims.aud).toBe(other.address);
    clock.at = NOW + 12 * 3_600_000 - 1;
    expect((await header(one)).token).toBe(first.token);
    clock.at = NOW + 12 * 3_600_000;
    const later = await header(one);
    expect(later.token).not.toBe(first.token);
    expect(later.claims.exp - clock.at / 1000).toBeLessThan(24 * 3600);
  });

  test('every message has a new key pair, also to the same browser', async () => {
    const { address, requests } = await pushService();
    const { sender } = open();
    for (let count = 0; count < 3; count += 1) await sender.send(push({ endpoint: address }));
    const points = requests.map(({ body }) => body.toString('hex', 21, 86));
    expect(new Set(points).size).toBe(3);
  });

  test('a message that is too large for a push service is sent once more, smaller', async () => {
    const { address, requests } = await pushService((body) => ({ status: body.length > 2744 ? 413 : 201 }));
    const { sender } = open();
    const customAttributes = { big: 'x'.repeat(3000) };
    expect(await sender.send(push({ endpoint: address, customAttributes }))).toEqual({ kind: 'sent' });
    expect(requests).toHaveLength(2);
    expect(ann.read(requests[1]?.body ?? Buffer.alloc(0))).toMatchObject({
      content: 'It arrives on Monday.',
      custom_attributes: null,
    });
  });

  test('a message that is still too large is not sent a third time', async () => {
    const { address, requests } = await pushService(() => ({ status: 413 }));
    const { sender } = open();
    const message = push({ endpoint: address, customAttributes: { big: 'x'.repeat(2000) } });
    expect(await sender.send(message)).toMatchObject({ kind: 'rejected', scope: 'message', code: '413' });
    expect(requests).toHaveLength(2);
    expect(await sender.send(push({ endpoint: address }))).toMatchObject({
      kind: 'rejected',
      scope: 'message',
    });
    expect(requests).toHaveLength(3);
  });

  test('a subscription with unusable keys is gone, without a request', async () => {
    const { address, requests } = await pushService();
    const { sender } = open();
    expect(await sender.send(push({ endpoint: address, keys: { p256dh: 'x', auth: 'y' } }))).toMatchObject({
      kind: 'token_gone',
      scope: 'token',
      code: 'UNUSABLE_KEYS',
    });
    expect(requests).toHaveLength(0);
  });

  test('VAPID keys that are not a pair reject the config, without a request', async () => {
    const { address, requests } = await pushService();
    const { sender } = open({ config: { ...CONFIG, public_key: createVapidKeys().public_key } });
    expect(await sender.send(push({ endpoint: address }))).toMatchObject({
      kind: 'rejected',
      scope: 'config',
    });
    expect(requests).toHaveLength(0);
  });

  test('an unknown push service cannot stop the integration', async () => {
    const { address } = await pushService(() => ({ status: 403, body: 'credentials do not correspond' }));
    const { sender } = open();
    const outcome = await sender.send(push({ endpoint: address }));
    expect(outcome).toMatchObject({ kind: 'token_gone' });
    expect(outcome).not.toHaveProperty('suspect');
    const refusing = await pushService(() => ({ status: 401 }));
    expect(await sender.send(push({ endpoint: refusing.address }))).toMatchObject({
      kind: 'rejected',
      scope: 'message',
    });
  });

  test('a subscription with an endpoint within our own network is discarded', async () => {
    const { address, requests } = await pushService();
    const { sender } = open({ allow: '' });
    expect(await sender.send(push({ endpoint: address }))).toMatchObject({
      kind: 'token_gone',
      code: 'EGRESS_REFUSED',
    });
    expect(requests).toHaveLength(0);
  });

  test('a third-party push service verifies the sender, decrypts, and ends the subscription', async () => {
    const service = await startWebPushStandIn();
    cleanups.push(service.stop);
    const subscription = await service.subscribe(CONFIG.public_key);
    const { sender, clock } = open({ contact: 'mailto:ops@example.com' });
    clock.at = Date.now(); // the service has its own clock
    const message = push({ endpoint: subscription.endpoint, keys: subscription.keys });
    expect(await sender.send(message)).toEqual({ kind: 'sent' });
    const [received] = await service.notifications(subscription.clientHash);
    expect(JSON.parse(received ?? '')).toMatchObject({
      id: message.notificationId,
      title: 'Your order has shipped',
    });

    const other = await service.subscribe(createVapidKeys().public_key);
    expect(await sender.send({ ...message, ...other })).toMatchObject({ kind: 'rejected' });

    await service.expire(subscription.clientHash);
    expect(await sender.send(message)).toMatchObject({ kind: 'token_gone', scope: 'token' });
  });

  test('a third-party push service receives the pushes around an outage, each once', async () => {
    const service = await startWebPushStandIn();
    cleanups.push(service.stop);
    const { endpoint, keys, clientHash } = await service.subscribe(CONFIG.public_key);
    const { sender, clock } = open({ contact: 'mailto:ops@example.com' });
    clock.at = Date.now(); // the service has its own clock
    await expectRecovery(service.outages, () => sender.send(push({ endpoint, keys })));
    expect(await service.notifications(clientHash)).toHaveLength(2);
  });
});

conforms('web_push', {
  open: (_address, deps) => webPush.connect(CONFIG, deps()),
  message: (address) => push({ endpoint: `${address}/send/abc`, expiresAt: new Date(Date.now() + 60_000) }),
  accepts: { status: 201, headers: { location: 'https://push.example.com/m/1' } },
  sent: { kind: 'sent', providerId: '1' },
  secrets: [CONFIG.private_key],
  except: {
    // The status determines the outcome; there is no body.
    'garbage body': { kind: 'sent' },
    'a page as body': { kind: 'sent' },
    'a redirect': { kind: 'rejected', scope: 'message' },
  },
});

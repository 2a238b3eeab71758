import { createHmac } from 'node:crypto';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  ProjectClient,
  type VerifyWebhookOptions,
  verifyWebhook,
  WebhookError,
  type WebhookMessage,
} from '../../../sdk/src/index.ts';
import { startTestService, type TestService } from '../support/service.ts';
import {
  type ReceivedMessage,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../support/webhook-receiver.ts';

const MINUTE_S = 60;
const clock = { offsetMs: 0, now: () => Date.now() + clock.offsetMs };

let service: TestService;
let receiver: WebhookReceiver;
let belfry: ProjectClient;
let webhookId: string;
let secret: string;
/** A message that the service has delivered. */
let delivered: ReceivedMessage;

beforeAll(async () => {
  service = await startTestService({ clock });
  receiver = await startWebhookReceiver();
  belfry = new ProjectClient({ baseUrl: `${service.address}/v2`, token: service.project.jwt });
  ({ id: webhookId } = await belfry.webhooks.save({
    url: receiver.url,
    event_types: ['user.created', 'broadcast.created'],
  }));
  ({ secret } = await belfry.webhooks.secret.get(webhookId));
  delivered = await delivery();
});
afterAll(async () => {
  await receiver.stop();
  await service.stop();
});

/** Makes an event happen, and returns its message. */
async function delivery(): Promise<ReceivedMessage> {
  const count = receiver.received.length;
  await belfry.users.save({ external_id: `user-${count}`, first_name: 'Zoë' });
  return (await receiver.waitFor(count + 1))[count] as ReceivedMessage;
}

/** The delivered message with other members, signed by the receiver's own code. */
function signed({
  key = secret,
  id = 'id',
  timestamp = String(Math.floor(Date.now() / 1000)),
  body = delivered.raw.toString(),
}: {
  key?: string;
  id?: string;
  timestamp?: string;
  body?: string;
}) {
  const bytes = Buffer.from(key.replace('whsec_', ''), 'base64');
  const signature = createHmac('sha256', bytes).update(`${id}.${timestamp}.${body}`).digest('base64');
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  };
  return { headers, body, secret };
}

/** The code of the error with which a message is rejected. */
async function rejection(options: VerifyWebhookOptions): Promise<string> {
  const error = await verifyWebhook(options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(WebhookError);
  return (error as WebhookError).code;
}

const other = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

describe('a message of a webhook', () => {
  test('is returned with its event', async () => {
    const { headers, raw: body } = delivered;
    const message: WebhookMessage = await verifyWebhook({ headers, body, secret });
    expect(message).toEqual(delivered.body);
    expect(message).toMatchObject({ type: 'user.created', data: { user: { external_id: 'user-0' } } });
    expect(await belfry.events.get(message.data.id)).toEqual(message.data);
  });

  test('is accepted in every form in which servers get it', async () => {
    const { headers, raw } = delivered;
    const pairs = Object.entries(headers).map(([name, value]) => [name, String(value)] as [string, string]);
    const upperCase = Object.fromEntries(pairs.map(([name, value]) => [name.toUpperCase(), value]));
    const lists = Object.fromEntries(pairs.map(([name, value]) => [name, [value]]));
    for (const form of [headers, new Headers(pairs), upperCase, lists])
      for (const body of [raw, raw.toString(), new Uint8Array(raw), new Uint8Array(raw).buffer])
        expect(await verifyWebhook({ headers: form, body, secret })).toEqual(delivered.body);
    const request = new Request('https://shop.example', { method: 'POST', headers: pairs, body: raw });
    const { headers: standard } = request;
    expect(await verifyWebhook({ headers: standard, body: await request.text(), secret })).toEqual(
      delivered.body,
    );
  });

  test('is accepted if the library of the standard has signed it, with text of any language', async () => {
    const body = JSON.stringify({ type: 'user.created', timestamp: '', data: { log: 'Zoë 🦉 \u2028' } });
    const at = new Date();
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new StandardWebhook(secret).sign('msg_1', at, body),
    };
    expect(await verifyWebhook({ headers, body, secret })).toEqual(JSON.parse(body));
    const ownPrefix = secret.replace('whsec_', '');
    expect(await verifyWebhook({ headers, body, secret: ownPrefix })).toEqual(JSON.parse(body));
  });

  test('is rejected if its body, id or time was changed, or with another secret', async () => {
    const { headers, raw } = delivered;
    const changed = Buffer.from(raw);
    changed[changed.length - 3] = (changed[changed.length - 3] ?? 0) ^ 1;
    const later = String(Number(headers['webhook-timestamp']) + 1);
    const bad: VerifyWebhookOptions[] = [
      { headers, body: changed, secret },
      { headers, body: Buffer.concat([raw, Buffer.from(' ')]), secret },
      { headers, body: JSON.stringify(delivered.body, null, 1), secret },
      { headers, body: '', secret },
      { headers: { ...headers, 'webhook-id': 'another' }, body: raw, secret },
      { headers: { ...headers, 'webhook-timestamp': later }, body: raw, secret },
      { headers, body: raw, secret: other },
    ];
    for (const options of bad) expect(await rejection(options)).toBe('invalid_signature');
  });

  test('is rejected if its signature has another form', async () => {
    const { headers, raw: body } = delivered;
    const signature = String(headers['webhook-signature']);
    for (const value of [
      signature.slice('v1,'.length),
      signature.replace('v1,', 'v1a,'),
      signature.replace('v1,', 'v2,'),
      signature.slice(0, -8),
      `${signature}A`,
      'v1,',
      'v1,%%%',
      ' ',
      `${'v1,AAAA '.repeat(8)}${signature}`,
    ])
      expect(await rejection({ headers: { ...headers, 'webhook-signature': value }, body, secret })).toBe(
        'invalid_signature',
      );
  });

  test.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])(
    'is rejected without %s',
    async (name) => {
      const { raw: body } = delivered;
      for (const value of [undefined, '', []]) {
        const headers = { ...delivered.headers, [name]: value };
        expect(await rejection({ headers, body, secret })).toBe('missing_header');
      }
      const headers = new Headers(signed({}).headers);
      headers.delete(name);
      expect(await rejection({ headers, body, secret })).toBe('missing_header');
    },
  );

  test('is rejected more than five minutes before or after its time', async () => {
    const nowSeconds = Math.floor(Date.now() / 1000);
    for (const offset of [-4 * MINUTE_S, 4 * MINUTE_S])
      expect((await verifyWebhook(signed({ timestamp: String(nowSeconds + offset) }))).type).toBe(
        'user.created',
      );
    const wrong = [nowSeconds - 5 * MINUTE_S - 1, nowSeconds + 6 * MINUTE_S, `${nowSeconds}.0`, 'now', '-1'];
    for (const timestamp of [...wrong, 'Infinity', '1e9', `0x${nowSeconds.toString(16)}`])
      expect(await rejection(signed({ timestamp: String(timestamp) }))).toBe('invalid_timestamp');
  });

  test('is rejected if the clocks of both machines differ too much', async () => {
    clock.offsetMs = 6 * MINUTE_S * 1000;
    try {
      const { headers, raw: body } = await delivery();
      expect(await rejection({ headers, body, secret })).toBe('invalid_timestamp');
    } finally {
      clock.offsetMs = 0;
    }
  });

  test('is rejected if what is signed is no message', async () => {
    const wrong = ['', 'hello', 'null', '[]', '{}', '{"type":1,"data":{}}', '{"type":"a"}'];
    for (const body of [...wrong, '{"type":"a","data":null}', '{"type":"a","data":"b"}'])
      expect(await rejection(signed({ body }))).toBe('invalid_body');
  });

  test('is accepted with either secret after a rotation, whichever the receiver knows', async () => {
    await belfry.webhooks.secret.rotate(webhookId);
    const { secret: next } = await belfry.webhooks.secret.get(webhookId);
    expect(next).not.toBe(secret);
    const { headers, raw: body, body: event } = await delivery();
    expect(String(headers['webhook-signature']).split(' ')).toHaveLength(2);
    for (const known of [secret, next, [other, secret], [next, other], [secret, next]])
      expect(await verifyWebhook({ headers, body, secret: known })).toEqual(event);
    expect(await rejection({ headers, body, secret: [other] })).toBe('invalid_signature');
    // A message that was signed before the rotation.
    const before = { headers: delivered.headers, body: delivered.raw };
    expect(await verifyWebhook({ ...before, secret: [next, secret] })).toEqual(delivered.body);
    expect(await rejection({ ...before, secret: next })).toBe('invalid_signature');
  });
});

describe('a mistake in the call is a TypeError', () => {
  test.each([[undefined], [null], [''], ['whsec_'], ['whsec_%%%'], [42], [[]]])(
    'the secret %j',
    async (value) => {
      const { headers, raw: body } = delivered;
      const call = verifyWebhook({ headers, body, secret: value as string });
      await expect(call).rejects.toThrow(TypeError);
      await expect(call).rejects.not.toThrow(/%%%/);
      await expect(verifyWebhook({ headers, body, secret: [secret, value as string] })).rejects.toThrow(
        TypeError,
      );
    },
  );

  test.each([{ type: 'user.created' }, undefined, null, 1])('a body that is parsed: %j', async (value) => {
    const { headers } = delivered;
    await expect(verifyWebhook({ headers, body: value as never, secret })).rejects.toThrow(/before it is/);
  });
});

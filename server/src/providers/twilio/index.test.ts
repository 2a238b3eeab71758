import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bareContent, notificationContent } from '../../../test/support/notification-content.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor, type VendorStandIn } from '../../../test/support/vendor-stand-in.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { Override, SmsMessage } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { twilio } from './index.ts';

const CONFIG = {
  account_sid: 'AC00000001',
  api_key: 'SK00000001',
  api_secret: 'canary-twilio',
  from: '+14155550100',
};
const LINK = 'https://shop.example.com/orders/42?from=news&step=1';

const sms = (members: Partial<SmsMessage> = {}): SmsMessage => ({
  ...notificationContent(),
  to: '+1 500 555 0001',
  ...members,
});

function form(message: SmsMessage): URLSearchParams {
  const request = twilio.build(message, CONFIG);
  if ('kind' in request) throw new Error(request.reason);
  return new URLSearchParams(String(request.body));
}

describe('the message', () => {
  test('title, text and link, to a number without spaces', () => {
    expect(twilio.build(sms(), CONFIG)).toEqual({
      method: 'POST',
      path: '/2010-04-01/Accounts/AC00000001/Messages.json',
      headers: {
        authorization: `Basic ${Buffer.from('SK00000001:canary-twilio').toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
        accept: 'application/json',
      },
      body:
        'To=%2B15005550001&From=%2B14155550100&Body=Your+order+has+shipped%0AIt+arrives+on+Monday.%0A' +
        'https%3A%2F%2Fshop.example.com%2Forders%2F42%3Ffrom%3Dnews%26step%3D1',
    });
  });

  test('a message without content is its title', () => {
    expect([...form(sms(bareContent()))]).toEqual([
      ['To', '+15005550001'],
      ['From', '+14155550100'],
      ['Body', 'Your order has shipped'],
    ]);
  });

  test('a long text is cut before the link, without a broken character', () => {
    const body = form(sms({ text: '😀'.repeat(2000) })).get('Body') ?? '';
    expect(body.length).toBeGreaterThan(1597);
    expect(body.length).toBeLessThanOrEqual(1600);
    expect(body.endsWith(`😀…\n${LINK}`)).toBe(true);
    expect(body.isWellFormed()).toBe(true);
    expect(form(sms({ text: 'x'.repeat(2000), actionUrl: null })).get('Body')).toHaveLength(1600);
  });

  test('a link that leaves no room for text is sent alone, and one that does not fit is rejected', () => {
    const link = (length: number) => `https://example.com/${'x'.repeat(length - 20)}`;
    expect(form(sms({ actionUrl: link(1600) })).get('Body')).toBe(link(1600));
    expect(twilio.build(sms({ actionUrl: link(1601) }), CONFIG)).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: 'too_big',
    });
  });

  test('an override becomes parameters: lists repeat, objects are JSON, null removes; `To` stays', () => {
    const override: Override = {
      To: '+19995550000',
      From: '+14155550111',
      Body: 'Hello',
      MediaUrl: ['https://example.com/1.png', 'https://example.com/2.png'],
      ContentVariables: { 1: 'Ann' },
      ValidityPeriod: 600,
      SmartEncoded: true,
    };
    expect([...form(sms({ override }))]).toEqual([
      ['To', '+15005550001'],
      ['From', '+14155550111'],
      ['Body', 'Hello'],
      ['MediaUrl', 'https://example.com/1.png'],
      ['MediaUrl', 'https://example.com/2.png'],
      ['ContentVariables', '{"1":"Ann"}'],
      ['ValidityPeriod', '600'],
      ['SmartEncoded', 'true'],
    ]);
    expect([...form(sms({ override: { Body: null, To: null } })).keys()].sort()).toEqual(['From', 'To']);
  });

  test('a messaging service of the override replaces the number', () => {
    const parameters = form(sms({ override: { MessagingServiceSid: 'MG1' } }));
    expect(parameters.get('MessagingServiceSid')).toBe('MG1');
    expect(parameters.has('From')).toBe(false);
  });

  test('an override that is too long is rejected', () => {
    expect(twilio.build(sms({ override: { Body: 'x'.repeat(1601) } }), CONFIG)).toMatchObject({
      kind: 'rejected',
      scope: 'message',
      code: 'too_big',
    });
  });
});

describe('classify', () => {
  const address = { kind: 'rejected', scope: 'address' };
  const config = { kind: 'rejected', scope: 'config' };
  const either = { kind: 'rejected', scope: 'message', suspect: 'config' };
  const message = { kind: 'rejected', scope: 'message' };
  const retry = { kind: 'retry', ambiguous: false };
  test.each<[status: number, code: number, outcome: Record<string, unknown>]>([
    [400, 21211, address],
    [400, 21217, address],
    [400, 21265, address],
    [400, 21614, address],
    [400, 21635, address],
    [400, 21610, address],
    [401, 20003, config],
    [401, 20008, config],
    [404, 20404, config],
    [403, 20403, either],
    [400, 21408, either],
    [400, 21606, either],
    [400, 21659, either],
    [400, 21660, config],
    [400, 21603, config],
    [400, 21212, config],
    [400, 21612, either],
    [400, 21608, either],
    [400, 21602, message],
    [400, 21617, message],
    [400, 21605, message],
    [400, 12300, message],
    [400, 21620, message],
    [429, 20429, retry],
    [400, 21611, { ...retry, retryAfterMs: 60_000 }],
    [500, 20500, retry],
    [503, 20503, retry],
  ])('%d with %d', (status, code, expected) => {
    const text = JSON.stringify({ code, message: 'Why', more_info: 'https://www.twilio.com', status });
    const outcome = twilio.classify({ status, headers: {}, text });
    expect(outcome).toMatchObject(expected);
    expect(outcome).toMatchObject({ reason: `Twilio responded with ${status}: Why` });
    if (status < 500) expect(outcome).toMatchObject({ code: String(code) });
  });

  test('a success has a sid, and without one it is ambiguous', () => {
    const classify = (text: string) => twilio.classify({ status: 201, headers: {}, text });
    expect(classify('{"sid":"SM1","status":"queued"}')).toEqual({ kind: 'sent', providerId: 'SM1' });
    expect(classify('{"status":"queued"}')).toMatchObject({ kind: 'retry', ambiguous: true });
  });
});

describe('sending', () => {
  let vendor: VendorStandIn;
  beforeAll(async () => {
    vendor = await startVendor();
  });
  afterAll(() => vendor.stop());

  test('is one request', async () => {
    vendor.reply({ status: 201, body: { sid: 'SM1' } });
    const egress = createEgressGuard({ allow: '' });
    const transport = createTransport({ egress, origins: { PROVIDER_TWILIO_BASE_URL: vendor.address } });
    const sender = twilio.connect(CONFIG, { egress, transport, clock: systemClock });
    expect(await sender.send(sms(bareContent()))).toEqual({ kind: 'sent', providerId: 'SM1' });
    const body = 'To=%2B15005550001&From=%2B14155550100&Body=Your+order+has+shipped';
    expect(vendor.requests).toEqual([
      {
        method: 'POST',
        path: '/2010-04-01/Accounts/AC00000001/Messages.json',
        headers: {
          host: vendor.address.slice('http://'.length),
          connection: 'keep-alive',
          'user-agent': 'Belfry',
          accept: 'application/json',
          authorization: `Basic ${Buffer.from('SK00000001:canary-twilio').toString('base64')}`,
          'content-type': 'application/x-www-form-urlencoded',
          'content-length': String(body.length),
        },
        body,
      },
    ]);
    await sender.close();
    await transport.close();
  });
});

describe('a callback address that Twilio cannot reach', () => {
  const unreachable = {
    status: 400,
    body: {
      code: 21609,
      message: 'The StatusCallback URL http://localhost:3000/x is not a valid URL.',
      status: 400,
    },
  };
  const receiptUrl = 'http://localhost:3000/x';
  let vendor: VendorStandIn;
  beforeAll(async () => {
    vendor = await startVendor();
  });
  afterAll(() => vendor.stop());

  async function sent(message: SmsMessage) {
    const egress = createEgressGuard({ allow: '' });
    const transport = createTransport({ egress, origins: { PROVIDER_TWILIO_BASE_URL: vendor.address } });
    const sender = twilio.connect(CONFIG, { egress, transport, clock: systemClock });
    const outcome = await sender.send(message);
    await sender.close();
    await transport.close();
    const callbacks = vendor.requests.map(({ body }) => new URLSearchParams(body).get('StatusCallback'));
    return { outcome, callbacks };
  }

  test('does not keep the message from being sent', async () => {
    vendor.reply(unreachable, { status: 201, body: { sid: 'SM1' } });
    expect(await sent(sms({ receiptUrl }))).toEqual({
      outcome: { kind: 'sent', providerId: 'SM1' },
      callbacks: [receiptUrl, null],
    });
  });

  test('of an override is rejected', async () => {
    vendor.reply(unreachable);
    const message = sms({ receiptUrl, override: { StatusCallback: 'http://localhost:3000/y' } });
    expect(await sent(message)).toMatchObject({
      outcome: { kind: 'rejected', scope: 'message', code: '21609' },
      callbacks: ['http://localhost:3000/y'],
    });
  });
});

conforms('twilio', {
  open: (_address, deps) => twilio.connect(CONFIG, deps(['PROVIDER_TWILIO_BASE_URL'])),
  message: () => sms(),
  accepts: { status: 201, body: { sid: 'SM1', status: 'queued' } },
  sent: { kind: 'sent', providerId: 'SM1' },
  secrets: ['canary-twilio', 'SK00000001:canary-twilio'],
});

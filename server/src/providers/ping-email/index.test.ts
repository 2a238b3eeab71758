import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { emailMessage, notificationRecord } from '../../../test/support/email-message.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { createTransport } from '../shared/transport.ts';
import { pingEmail } from './index.ts';

const WIRE = {
  notifications: [
    {
      id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
      title: 'Hello',
      content: 'It is <b>here</b>.',
      action_url: 'https://shop.example/orders/1',
      category: 'orders',
      topic: 'orders/1',
      custom_attributes: { order: 1 },
      overrides: { channels: { email: { title: 'Hello' } } },
      updated_at: '2026-07-01T12:00:00.000Z',
      recipient: {
        id: '0197a3c4-0000-7f01-8a2b-3c4d5e6f7081',
        external_id: '42',
        email: 'ada@example.com',
        first_name: 'Ada',
        last_name: 'L',
        locale: 'en-GB',
        custom_attributes: { plan: 'pro' },
        phone_numbers: ['+1 5005550001'],
        created_at: '2026-07-01T12:00:00.000Z',
        updated_at: '2026-07-01T12:00:00.000Z',
        last_seen_at: null,
        last_notified_at: '2026-07-01T12:00:00.000Z',
      },
    },
  ],
  total: 1,
};

describe('the request', () => {
  test('has the notification and its recipient, as in the API', () => {
    expect(pingEmail.build(emailMessage(), { url: 'https://mailer.example.com/notify/?a=b%20c' })).toEqual({
      method: 'POST',
      path: '/notify/?a=b%20c',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
      },
      body: JSON.stringify(WIRE),
    });
  });

  test('has all members, also empty ones', () => {
    const nothing = {
      ...notificationRecord,
      content: null,
      actionUrl: null,
      category: null,
      topic: null,
      customAttributes: null,
      overrides: null,
    };
    const built = pingEmail.build(emailMessage({ notification: () => nothing }), { url: 'http://h' });
    expect(built.path).toBe('/');
    expect(JSON.parse(String(built.body)).notifications[0]).toMatchObject({
      content: null,
      action_url: null,
      category: null,
      topic: null,
      custom_attributes: null,
      overrides: null,
    });
  });

  test('logs in with the credentials of the URL', () => {
    const built = pingEmail.build(emailMessage(), { url: 'https://me:p%40ss@mailer.example.com' });
    expect(built.headers?.authorization).toBe(`Basic ${Buffer.from('me:p@ss').toString('base64')}`);
    const broken = pingEmail.build(emailMessage(), { url: 'https://me:100%@mailer.example.com' });
    expect(broken.headers?.authorization).toBe(`Basic ${Buffer.from('me:100%').toString('base64')}`);
  });
});

test('the request arrives as it was built, signed with the secret when it is sent', async () => {
  const mailer = await startVendor();
  const egress = createEgressGuard({ allow: '127.0.0.1/32' });
  const transport = createTransport({ egress });
  let nowMs = 1_782_907_200_900;
  const clock = { now: () => nowMs };
  const sender = pingEmail.connect({ url: `${mailer.address}/hook/?x` }, { egress, clock, transport });
  mailer.reply({ status: 204 });
  expect(await sender.send(emailMessage())).toEqual({ kind: 'sent' });
  nowMs += 60_000;
  expect(await sender.send(emailMessage())).toEqual({ kind: 'sent' });
  const body = JSON.stringify(WIRE);
  for (const [index, seconds] of [1_782_907_200, 1_782_907_260].entries()) {
    const mac = createHmac('sha256', 'canary-project').update(`${seconds}.${body}`).digest('hex');
    expect(mailer.requests[index]).toEqual({
      method: 'POST',
      path: '/hook/?x',
      headers: expect.objectContaining({
        'content-type': 'application/json',
        'idempotency-key': emailMessage().deliveryId,
        'x-belfry-signature': `t=${seconds},v1=${mac}`,
      }),
      body,
    });
  }
  await sender.close();
  await transport.close();
  await mailer.stop();
});

test('nothing is sent to an address within our own network', async () => {
  const mailer = await startVendor();
  const egress = createEgressGuard();
  const transport = createTransport({ egress });
  for (const url of [mailer.address, 'http://169.254.169.254/latest', 'ftp://b.de', 'nonsense']) {
    const sender = pingEmail.connect({ url }, { egress, clock: { now: () => 0 }, transport });
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'rejected', scope: 'config' });
    await sender.close();
  }
  expect(mailer.requests).toEqual([]);
  await transport.close();
  await mailer.stop();
});

test.each([
  [200, '{"id":"m-1"}', { kind: 'sent', providerId: 'm-1' }],
  [200, 'OK', { kind: 'sent' }],
  [202, '', { kind: 'sent' }],
  [204, '', { kind: 'sent' }],
  [301, '', { kind: 'rejected', scope: 'config' }],
  [
    400,
    '{"error":"no template"}',
    { kind: 'rejected', scope: 'message', reason: 'the mailer responded with 400: no template' },
  ],
  [401, '', { kind: 'rejected', scope: 'config' }],
  [403, '', { kind: 'rejected', scope: 'config' }],
  [404, '', { kind: 'rejected', scope: 'config' }],
  [408, '', { kind: 'retry', ambiguous: false }],
  [410, '', { kind: 'rejected', scope: 'config' }],
  [422, '', { kind: 'rejected', scope: 'message' }],
  [425, '', { kind: 'retry', ambiguous: false }],
  [429, '', { kind: 'retry', ambiguous: false }],
  [500, '', { kind: 'retry', ambiguous: false }],
  [504, '', { kind: 'retry', ambiguous: true }],
])('%i %s means %j', (status, text, outcome) => {
  expect(pingEmail.classify({ status, text, headers: {} })).toMatchObject(outcome);
});

conforms('ping_email', {
  open: (address, deps) => pingEmail.connect({ url: address.replace('//', '//me:canary-mailer@') }, deps()),
  message: () => emailMessage(),
  accepts: { status: 202, body: { id: 'm-1' } },
  sent: { kind: 'sent', providerId: 'm-1' },
  secrets: ['canary-mailer', 'me:canary-mailer', 'canary-project'],
  except: {
    // It is the project's own server, so the project has to repair its certificate.
    'bad TLS': { kind: 'rejected', scope: 'config' },
    'garbage body': { kind: 'sent' },
    'a page as body': { kind: 'sent' },
  },
});

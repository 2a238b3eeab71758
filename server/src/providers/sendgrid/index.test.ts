import { describe, expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { type EmailMessage, isRejection } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { sendgrid } from './index.ts';

const config = {
  api_key: 'canary-sendgrid',
  from: { email: 'news@example.com', name: 'News' },
  reply_to: { email: 'help@example.com', name: null },
};

function payload(changes: Partial<EmailMessage> = {}, over: object = {}): Record<string, unknown> {
  const built = sendgrid.build(emailMessage(changes), { ...config, ...over });
  if (isRejection(built)) throw new Error(built.reason);
  return JSON.parse(String(built.body)) as Record<string, unknown>;
}

describe('the request', () => {
  test('has all members', () => {
    expect(sendgrid.build(emailMessage(), config)).toEqual({
      method: 'POST',
      path: '/v3/mail/send',
      headers: { authorization: 'Bearer canary-sendgrid', 'content-type': 'application/json' },
      body: JSON.stringify({
        personalizations: [
          {
            to: [{ email: 'ada@example.com', name: 'Ada L' }],
            custom_args: { reference: 'AZejxFtufwGKKzxNXm9wgQGXo8QAAH8Biis8TV5vcIE' },
          },
        ],
        from: { email: 'news@example.com', name: 'News' },
        reply_to: { email: 'help@example.com' },
        subject: 'Hello',
        content: [
          { type: 'text/plain', value: 'It is here.' },
          { type: 'text/html', value: '<p>It is <b>here</b>.</p>' },
        ],
        headers: {
          'Auto-Submitted': 'auto-generated',
          'List-Unsubscribe': '<https://notify.example/unsubscribe/x>',
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
          'Message-ID': '<0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081@example.com>',
        },
      }),
    });
  });

  test('omits missing members', () => {
    const least = emailMessage({ to: { email: 'ada@exämple.com' }, text: '', headers: {} });
    const built = sendgrid.build(least, { api_key: 'k', from: { email: 'a@b.de' } });
    if (isRejection(built)) throw new Error(built.reason);
    expect(JSON.parse(String(built.body))).toEqual({
      personalizations: [
        { to: [{ email: 'ada@xn--exmple-cua.com' }], custom_args: { reference: least.reference } },
      ],
      from: { email: 'a@b.de' },
      subject: 'Hello',
      content: [{ type: 'text/html', value: least.html }],
      headers: { 'Message-ID': `<${least.deliveryId}@b.de>` },
    });
  });

  test('merges the override, except for the recipient', () => {
    const override = {
      template_id: 'd-1',
      categories: ['orders'],
      content: null,
      from: { name: 'Shop' },
      personalizations: [
        {
          to: [{ email: 'eve@example.com' }],
          cc: [{ email: 'bob@example.com' }],
          custom_args: { reference: 'x', a: 'b' },
        },
        { to: [{ email: 'eve@example.com' }] },
      ],
    };
    expect(payload({ override })).toMatchObject({
      template_id: 'd-1',
      categories: ['orders'],
      from: { email: 'news@example.com', name: 'Shop' },
      personalizations: [
        {
          to: [{ email: 'ada@example.com', name: 'Ada L' }],
          cc: [{ email: 'bob@example.com' }],
          custom_args: { reference: emailMessage().reference, a: 'b' },
        },
      ],
    });
    expect(payload({ override })).not.toHaveProperty('content');
    expect(JSON.stringify(payload({ override }))).not.toContain('eve');
  });

  const REMOVED = { scope: 'message', code: 'bad_override', reason: 'the override removes the sender' };
  test.each([
    ['without a recipient', { to: { email: 'none' } }, {}, { scope: 'address' }],
    [
      'without a sender',
      {},
      { from: undefined },
      { scope: 'config', code: 'no_sender', reason: expect.stringContaining('from') },
    ],
    ['whose override removes the sender', { override: { from: null } }, {}, REMOVED],
    ['that is too big', { html: 'ä'.repeat(15_000_000) }, {}, { scope: 'message', code: 'too_big' }],
    ['with a bad override', { override: { constructor: 1 } }, {}, { scope: 'message' }],
  ])('%s is not built', (_, changes, over, rejection) => {
    const { from, ...others } = { ...config, ...over };
    expect(
      sendgrid.build(emailMessage(changes as Partial<EmailMessage>), from ? { ...others, from } : others),
    ).toMatchObject({
      kind: 'rejected',
      ...rejection,
    });
  });

  test('without a sender uses that of the override', () => {
    const built = sendgrid.build(emailMessage({ override: { from: { email: 'shop@b.de' } } }), {
      api_key: 'k',
    });
    expect(built).toMatchObject({ body: expect.stringContaining('shop@b.de') });
  });
});

test('the request arrives as it was built, in Europe too', async () => {
  const vendor = await startVendor();
  const egress = createEgressGuard();
  const transport = createTransport({
    egress,
    origins: { PROVIDER_SENDGRID_BASE_URL: `${vendor.address}/eu` },
  });
  vendor.reply({ status: 202, headers: { 'X-Message-Id': 'sg-1' } });
  const sender = sendgrid.connect({ ...config, region: 'eu' }, { egress, clock: systemClock, transport });
  expect(await sender.send(emailMessage({ subject: 'Grüße 😀' }))).toEqual({
    kind: 'sent',
    providerId: 'sg-1',
  });
  expect(vendor.requests).toEqual([
    {
      method: 'POST',
      path: '/eu/v3/mail/send',
      headers: expect.objectContaining({
        authorization: 'Bearer canary-sendgrid',
        'content-type': 'application/json',
      }),
      body: JSON.stringify(payload({ subject: 'Grüße 😀' })),
    },
  ]);
  await sender.close();
  await transport.close();
  await vendor.stop();
});

const DATE = 'Wed, 01 Jul 2026 12:00:00 GMT';
const error = (message: string, field: string | null = null) => ({
  errors: [{ message, field, help: null }],
});

test.each([
  [202, '', { 'x-message-id': 'sg-1' }, { kind: 'sent', providerId: 'sg-1' }],
  [202, '', {}, { kind: 'sent' }],
  [
    400,
    error('Does not contain a valid address.', 'personalizations.0.to.0.email'),
    {},
    { kind: 'rejected', scope: 'address' },
  ],
  [
    400,
    error('Does not contain a valid address.', 'personalizations.0.cc.0.email'),
    {},
    { kind: 'rejected', scope: 'message' },
  ],
  [400, error('Invalid template', 'template_id'), {}, { kind: 'rejected', scope: 'message', code: '400' }],
  [401, error('The provided authorization grant is invalid'), {}, { kind: 'rejected', scope: 'config' }],
  [401, error('Maximum credits exceeded'), {}, { kind: 'rejected', scope: 'config' }],
  [402, '', {}, { kind: 'rejected', scope: 'config' }],
  [
    403,
    error('The from address does not match a verified Sender Identity', 'from'),
    {},
    { kind: 'rejected', scope: 'config' },
  ],
  [413, '', {}, { kind: 'rejected', scope: 'message' }],
  [
    429,
    error('too many requests'),
    { date: DATE, 'x-ratelimit-reset': '1782907230' },
    { kind: 'retry', ambiguous: false, retryAfterMs: 30_000 },
  ],
  [429, '', { 'x-ratelimit-reset': 'soon' }, { kind: 'retry', ambiguous: false }],
  [500, '', {}, { kind: 'retry', ambiguous: false }],
  [503, '', {}, { kind: 'retry', ambiguous: false }],
])('%i %j %j means %j', (status, body, headers, outcome) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const found = sendgrid.classify({ status, text, headers: headers as unknown as Record<string, string> });
  expect(found).toMatchObject(outcome);
  expect('retryAfterMs' in found).toBe('retryAfterMs' in outcome);
});

conforms('sendgrid', {
  open: (_address, deps) => sendgrid.connect(config, deps(['PROVIDER_SENDGRID_BASE_URL'])),
  message: () => emailMessage(),
  accepts: { status: 202, headers: { 'x-message-id': 'sg-1' } },
  sent: { kind: 'sent', providerId: 'sg-1' },
  secrets: ['canary-sendgrid'],
  // The status determines the outcome; successes have no body.
  except: { 'garbage body': { kind: 'sent' }, 'a page as body': { kind: 'sent' } },
});

import { describe, expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { type EmailMessage, isRejection } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { mailgun } from './index.ts';

const config = {
  api_key: 'canary-mailgun',
  domain: 'mg.example.com',
  region: 'us' as const,
  from: { email: 'news@mg.example.com', name: 'News' },
};
const id = emailMessage().deliveryId;

type Made = { headers?: Readonly<Record<string, string>>; body?: string | Buffer };

/** The form as the platform parses it. */
async function fieldsOf({ headers, body = '' }: Made): Promise<[string, unknown][]> {
  return [...(await new Response(body, { headers: headers ?? {} }).formData())];
}

async function fields(changes: Partial<EmailMessage>, from: object = config): Promise<[string, unknown][]> {
  const built = mailgun.build(emailMessage(changes), from as typeof config);
  if (isRejection(built)) throw new Error(built.reason);
  return fieldsOf(built);
}

describe('the request', () => {
  test('has all members', async () => {
    const built = mailgun.build(emailMessage(), { ...config, domain: 'mg.example.com/x' });
    expect(built).toMatchObject({
      method: 'POST',
      path: '/v3/mg.example.com%2Fx/messages',
      headers: {
        authorization: `Basic ${Buffer.from('api:canary-mailgun').toString('base64')}`,
        'content-type': expect.stringMatching(/^multipart\/form-data; boundary=/),
      },
    });
    expect(await fields({})).toEqual([
      ['from', '"News" <news@mg.example.com>'],
      ['to', '"Ada L" <ada@example.com>'],
      ['subject', 'Hello'],
      ['text', 'It is here.'],
      ['html', '<p>It is <b>here</b>.</p>'],
      ['h:Auto-Submitted', 'auto-generated'],
      ['h:List-Unsubscribe', '<https://notify.example/unsubscribe/x>'],
      ['h:List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
      ['h:Message-Id', `<${id}@mg.example.com>`],
      ['v:reference', emailMessage().reference],
    ]);
  });

  test('omits missing members', async () => {
    const least = { to: { email: 'ada@example.com' }, text: '', headers: {} };
    expect(await fields(least, { ...config, from: { email: 'a@b.de' } })).toEqual([
      ['from', 'a@b.de'],
      ['to', 'ada@example.com'],
      ['subject', 'Hello'],
      ['html', '<p>It is <b>here</b>.</p>'],
      ['h:Message-Id', `<${id}@b.de>`],
      ['v:reference', emailMessage().reference],
    ]);
  });

  test('merges the override as fields, except for the recipient', async () => {
    const override = {
      to: ['eve@example.com'],
      'v:reference': null,
      html: null,
      cc: 'bob@example.com',
      'o:tag': ['a', 'b'],
      'o:testmode': true,
      'o:tracking-clicks': false,
      't:text': true,
      'v:vip': true,
      't:variables': { name: 'Ada' },
    };
    const made = await fields({ override });
    expect(made).toEqual(
      expect.arrayContaining([
        ['to', '"Ada L" <ada@example.com>'],
        ['v:reference', emailMessage().reference],
        ['cc', 'bob@example.com'],
        ['o:tag', 'a'],
        ['o:tag', 'b'],
        ['o:testmode', 'yes'],
        ['o:tracking-clicks', 'no'],
        ['t:text', 'yes'],
        ['v:vip', 'true'],
        ['t:variables', '{"name":"Ada"}'],
      ]),
    );
    expect(made.filter(([name]) => name === 'to')).toHaveLength(1);
    expect(made.map(([name]) => name)).not.toContain('html');
  });

  test.each([
    ['without a recipient', { to: { email: '@' } }, 'address'],
    ['that is too big', { html: 'ä'.repeat(12_500_000) }, 'message'],
    ['with a bad override', { override: { a: JSON.parse('{"__proto__":1}') } }, 'message'],
  ])('%s is not built', (_, changes, scope) => {
    expect(mailgun.build(emailMessage(changes), config)).toMatchObject({ kind: 'rejected', scope });
  });

  test('without a sender is not built', () => {
    const { from: _, ...others } = config;
    expect(mailgun.build(emailMessage(), others)).toMatchObject({ kind: 'rejected', scope: 'config' });
    // Not the fault of the integration, which has one.
    expect(mailgun.build(emailMessage({ override: { from: null } }), config)).toMatchObject({
      scope: 'message',
      code: 'bad_override',
    });
  });
});

test('the request arrives as it was built', async () => {
  const vendor = await startVendor();
  const egress = createEgressGuard();
  const transport = createTransport({ egress, origins: { PROVIDER_MAILGUN_BASE_URL: vendor.address } });
  vendor.reply({ status: 200, body: { id: '<1@mg.example.com>', message: 'Queued. Thank you.' } });
  const sender = mailgun.connect({ ...config, region: 'eu' }, { egress, clock: systemClock, transport });
  const html = '<p>Grüße 😀\r\n--form</p>';
  expect(await sender.send(emailMessage({ html }))).toEqual({ kind: 'sent', providerId: '1@mg.example.com' });
  const [request] = vendor.requests;
  expect(request).toMatchObject({ method: 'POST', path: '/v3/mg.example.com/messages' });
  const { 'content-type': type } = request?.headers ?? {};
  expect(await fieldsOf({ headers: { 'content-type': String(type) }, body: request?.body ?? '' })).toEqual(
    await fields({ html }),
  );
  await sender.close();
  await transport.close();
  await vendor.stop();
});

const DATE = 'Wed, 01 Jul 2026 12:00:00 GMT';
const limited =
  'Domain mg.example.com is not allowed to send: request limit exceeded, ' +
  'try again after Wed, 01 Jul 2026 12:05:00 GMT';

test.each([
  [200, { id: '<1@x>' }, {}, { kind: 'sent', providerId: '1@x' }],
  [200, { message: 'Queued' }, {}, { kind: 'retry', ambiguous: true }],
  [
    400,
    { message: 'to parameter is not a valid address. please check documentation' },
    {},
    { kind: 'rejected', scope: 'address' },
  ],
  [400, { message: "'to' parameter is not a valid address" }, {}, { kind: 'rejected', scope: 'address' }],
  [
    400,
    { message: 'Domain mg.example.com is not allowed to send: Sandbox' },
    {},
    { kind: 'rejected', scope: 'message', suspect: 'config' },
  ],
  [400, { message: 'from parameter is not a valid address' }, {}, { kind: 'rejected', scope: 'config' }],
  [400, { message: 'need at least one of text or html' }, {}, { kind: 'rejected', scope: 'message' }],
  [
    401,
    'Forbidden',
    {},
    { kind: 'rejected', scope: 'config', reason: 'Mailgun responded with 401: Forbidden' },
  ],
  [402, '', {}, { kind: 'rejected', scope: 'config' }],
  [403, '', {}, { kind: 'rejected', scope: 'message', suspect: 'config' }],
  [404, { message: 'Domain not found: mg.example.com' }, {}, { kind: 'rejected', scope: 'config' }],
  [413, '', {}, { kind: 'rejected', scope: 'message' }],
  [429, { message: limited }, { date: DATE }, { kind: 'retry', ambiguous: false, retryAfterMs: 300_000 }],
  [429, { message: limited }, {}, { kind: 'retry', ambiguous: false }],
  [500, '', {}, { kind: 'retry', ambiguous: false }],
])('%i %j %j means %j', (status, body, headers, outcome) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const found = mailgun.classify({ status, text, headers: headers as unknown as Record<string, string> });
  expect(found).toMatchObject(outcome);
  expect('retryAfterMs' in found).toBe('retryAfterMs' in outcome);
});

conforms('mailgun', {
  open: (_address, deps) => mailgun.connect(config, deps(['PROVIDER_MAILGUN_BASE_URL'])),
  message: () => emailMessage(),
  accepts: { status: 200, body: { id: '<1@mg.example.com>' } },
  sent: { kind: 'sent', providerId: '1@mg.example.com' },
  secrets: ['canary-mailgun', 'api:canary-mailgun'],
});

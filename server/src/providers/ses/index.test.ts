import { describe, expect, test } from 'vitest';
import { emailMessage } from '../../../test/support/email-message.ts';
import { expectRecovery } from '../../../test/support/outage.ts';
import { conforms } from '../../../test/support/provider-conformance.ts';
import { startSesStandIn } from '../../../test/support/ses-stand-in.ts';
import { startVendor } from '../../../test/support/vendor-stand-in.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import { type EmailMessage, isRejection, type SendOutcome } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { ses } from './index.ts';
import { signAws } from './sign-aws.ts';

const config = {
  key_id: 'AKIAEXAMPLE',
  secret_key: 'canary-ses-secret',
  region: 'eu-west-1',
  from: { email: 'news@example.com', name: 'News' },
};
const { reference } = emailMessage();

function payload(changes: Partial<EmailMessage> = {}, over: object = {}): Record<string, unknown> {
  const built = ses.build(emailMessage(changes), { ...config, ...over });
  if (isRejection(built)) throw new Error(built.reason);
  return JSON.parse(String(built.body)) as Record<string, unknown>;
}

describe('the request', () => {
  test('has all members', () => {
    expect(ses.build(emailMessage(), { ...config, configuration_set: 'mail' })).toEqual({
      method: 'POST',
      path: '/v2/email/outbound-emails',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        FromEmailAddress: '"News" <news@example.com>',
        Destination: { ToAddresses: ['"Ada L" <ada@example.com>'] },
        Content: {
          Simple: {
            Subject: { Data: 'Hello', Charset: 'UTF-8' },
            Body: {
              Html: { Data: '<p>It is <b>here</b>.</p>', Charset: 'UTF-8' },
              Text: { Data: 'It is here.', Charset: 'UTF-8' },
            },
            Headers: [
              { Name: 'Auto-Submitted', Value: 'auto-generated' },
              { Name: 'List-Unsubscribe', Value: '<https://notify.example/unsubscribe/x>' },
              { Name: 'List-Unsubscribe-Post', Value: 'List-Unsubscribe=One-Click' },
            ],
          },
        },
        EmailTags: [{ Name: 'reference', Value: reference }],
        ConfigurationSetName: 'mail',
      }),
    });
  });

  test('omits missing members', () => {
    const least = { to: { email: 'ada@example.com' }, text: '', headers: {} };
    expect(payload(least, { from: { email: 'a@b.de', name: null } })).toEqual({
      FromEmailAddress: 'a@b.de',
      Destination: { ToAddresses: ['ada@example.com'] },
      Content: {
        Simple: {
          Subject: { Data: 'Hello', Charset: 'UTF-8' },
          Body: { Html: { Data: '<p>It is <b>here</b>.</p>', Charset: 'UTF-8' } },
          Headers: [],
        },
      },
      EmailTags: [{ Name: 'reference', Value: reference }],
    });
  });

  test('merges the override, except for the recipient', () => {
    const override = {
      Destination: { ToAddresses: ['eve@example.com'], BccAddresses: ['bob@example.com'] },
      Content: { Simple: null, Template: { TemplateName: 'order', TemplateData: '{}' } },
      EmailTags: [
        { Name: 'campaign', Value: 'x' },
        { Name: 'reference', Value: 'eve' },
      ],
    };
    expect(payload({ override })).toEqual({
      FromEmailAddress: '"News" <news@example.com>',
      Destination: { ToAddresses: ['"Ada L" <ada@example.com>'], BccAddresses: ['bob@example.com'] },
      Content: { Template: { TemplateName: 'order', TemplateData: '{}' } },
      EmailTags: [
        { Name: 'campaign', Value: 'x' },
        { Name: 'reference', Value: reference },
      ],
    });
    expect(payload({ override: { EmailTags: null } }).EmailTags).toEqual([
      { Name: 'reference', Value: reference },
    ]);
    expect(payload({ override: { EmailTags: [null, 1] } }).EmailTags).toContainEqual({
      Name: 'reference',
      Value: reference,
    });
  });

  test.each([
    ['without a recipient', { to: { email: 'a b@c.de' } }, 'address'],
    ['that is too big', { html: 'ä'.repeat(20_000_000) }, 'message'],
    ['with a bad override', { override: { prototype: 1 } }, 'message'],
  ])('%s is not built', (_, changes, scope) => {
    expect(ses.build(emailMessage(changes), config)).toMatchObject({ kind: 'rejected', scope });
  });

  test('without a sender is not built', () => {
    const { from: _, ...others } = config;
    expect(ses.build(emailMessage(), others)).toMatchObject({ kind: 'rejected', scope: 'config' });
    // Not the fault of the integration, which has one.
    expect(ses.build(emailMessage({ override: { FromEmailAddress: null } }), config)).toMatchObject({
      scope: 'message',
      code: 'bad_override',
    });
  });
});

const NOW = Date.parse('2026-07-01T12:00:00Z');

async function withVendor(
  use: (vendor: Awaited<ReturnType<typeof startVendor>>, send: () => Promise<unknown>) => Promise<void>,
  clock = { now: () => NOW },
): Promise<void> {
  const vendor = await startVendor();
  const egress = createEgressGuard();
  const transport = createTransport({ egress, origins: { PROVIDER_SES_BASE_URL: `${vendor.address}/aws` } });
  const sender = ses.connect(config, { egress, clock, transport });
  await use(vendor, () => sender.send(emailMessage()));
  await sender.close();
  await transport.close();
  await vendor.stop();
}

test('the request arrives as it was built, signed with its path, its body and the time', async () => {
  await withVendor(async (vendor, send) => {
    vendor.reply({ status: 200, body: { MessageId: '0100' } });
    expect(await send()).toEqual({ kind: 'sent', providerId: '0100' });
    const [request] = vendor.requests;
    const { host } = new URL(vendor.address);
    const signed = signAws({
      method: 'POST',
      host,
      path: '/aws/v2/email/outbound-emails',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(payload()),
      service: 'ses',
      region: 'eu-west-1',
      keyId: 'AKIAEXAMPLE',
      secretKey: 'canary-ses-secret',
      nowMs: NOW,
    });
    expect(request).toEqual({
      method: 'POST',
      path: '/aws/v2/email/outbound-emails',
      headers: expect.objectContaining({
        'content-type': 'application/json',
        'x-amz-date': '20260701T120000Z',
        authorization: signed.authorization,
      }),
      body: JSON.stringify(payload()),
    });
  });
});

describe('a clock that is wrong', () => {
  const skewed = {
    status: 403,
    headers: { date: 'Wed, 01 Jul 2026 12:20:00 GMT', 'x-amzn-errortype': 'InvalidSignatureException' },
    body: { message: 'Signature expired' },
  };

  test('is corrected with AWS’s clock, once for all messages', async () => {
    await withVendor(async (vendor, send) => {
      vendor.reply(skewed, { status: 200, body: { MessageId: '1' } });
      expect(await send()).toEqual({ kind: 'sent', providerId: '1' });
      expect(await send()).toEqual({ kind: 'sent', providerId: '1' });
      expect(vendor.requests.map(({ headers }) => headers['x-amz-date'])).toEqual([
        '20260701T120000Z',
        '20260701T122000Z',
        '20260701T122000Z',
      ]);
    });
  });

  test('is corrected once, and only if it is wrong', async () => {
    await withVendor(async (vendor, send) => {
      vendor.reply(skewed);
      expect(await send()).toMatchObject({
        kind: 'rejected',
        scope: 'config',
        code: 'InvalidSignatureException',
      });
      expect(vendor.requests).toHaveLength(2);
      vendor.reply({ ...skewed, headers: { ...skewed.headers, date: 'Wed, 01 Jul 2026 12:21:00 GMT' } });
      expect(await send()).toMatchObject({ kind: 'rejected', scope: 'config' });
      expect(vendor.requests).toHaveLength(1);
    });
  });
});

test('an invalid region reaches no host', async () => {
  const egress = createEgressGuard();
  const transport = createTransport({ egress });
  const sender = ses.connect(
    { ...config, region: 'x@127.0.0.1/' },
    { egress, clock: { now: () => 0 }, transport },
  );
  expect(await sender.send(emailMessage())).toMatchObject({ kind: 'rejected', scope: 'config' });
  await transport.close();
});

const type = (name: string) => ({ 'x-amzn-errortype': name });

test.each([
  [200, { MessageId: '1' }, {}, { kind: 'sent', providerId: '1' }],
  [200, {}, {}, { kind: 'retry', ambiguous: true }],
  [
    400,
    { message: "Missing final '@domain'" },
    type('BadRequestException'),
    { kind: 'rejected', scope: 'address', code: 'BadRequestException' },
  ],
  [
    400,
    { message: 'Local address contains control or whitespace' },
    type('BadRequestException:http://x'),
    { kind: 'rejected', scope: 'address' },
  ],
  [400, { message: 'Illegal address' }, type('BadRequestException'), { kind: 'rejected', scope: 'address' }],
  [400, { message: 'Invalid header' }, type('BadRequestException'), { kind: 'rejected', scope: 'message' }],
  [
    400,
    {
      __type: 'com.amazonaws.ses#MessageRejected',
      message: 'Email address is not verified. The following identities failed',
    },
    {},
    { kind: 'rejected', scope: 'message', suspect: 'config', code: 'MessageRejected' },
  ],
  [
    400,
    { __type: 'MessageRejected', message: 'Message is a virus' },
    {},
    { kind: 'rejected', scope: 'message' },
  ],
  [400, {}, type('AccountSuspendedException'), { kind: 'rejected', scope: 'config' }],
  [400, {}, type('SendingPausedException'), { kind: 'rejected', scope: 'config' }],
  [400, {}, type('MailFromDomainNotVerifiedException'), { kind: 'rejected', scope: 'config' }],
  [404, {}, type('NotFoundException'), { kind: 'rejected', scope: 'config' }],
  [403, {}, type('SignatureDoesNotMatch'), { kind: 'rejected', scope: 'config' }],
  [403, {}, type('UnrecognizedClientException'), { kind: 'rejected', scope: 'config' }],
  [403, {}, type('AccessDeniedException'), { kind: 'rejected', scope: 'message', suspect: 'config' }],
  [403, {}, type('ExpiredTokenException'), { kind: 'rejected', scope: 'config' }],
  [403, '', {}, { kind: 'rejected', scope: 'config', code: '403' }],
  [413, '', {}, { kind: 'rejected', scope: 'message' }],
  [
    429,
    { message: 'Maximum sending rate exceeded.' },
    type('TooManyRequestsException'),
    { kind: 'retry', ambiguous: false, retryAfterMs: 1_000 },
  ],
  [
    429,
    { message: 'Daily message quota exceeded.' },
    type('TooManyRequestsException'),
    { kind: 'retry', ambiguous: false, retryAfterMs: 3_600_000 },
  ],
  [400, {}, type('LimitExceededException'), { kind: 'retry', ambiguous: false }],
  [400, {}, type('ThrottlingException'), { kind: 'retry', ambiguous: false }],
  [500, {}, type('InternalServiceErrorException'), { kind: 'retry', ambiguous: false }],
  [504, {}, type('InternalServiceErrorException'), { kind: 'retry', ambiguous: true }],
])('%i %j %j means %j', (status, body, headers, outcome) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const found = ses.classify({ status, text, headers: headers as unknown as Record<string, string> });
  expect(found).toMatchObject(outcome);
  expect('retryAfterMs' in found).toBe('retryAfterMs' in outcome);
});

async function withSesOfOthers(
  use: (
    aws: Awaited<ReturnType<typeof startSesStandIn>>,
    send: (message: EmailMessage) => Promise<SendOutcome>,
  ) => Promise<void>,
): Promise<void> {
  const aws = await startSesStandIn();
  const egress = createEgressGuard();
  const transport = createTransport({ egress, origins: { PROVIDER_SES_BASE_URL: aws.address } });
  const sender = ses.connect(config, { egress, clock: { now: () => NOW }, transport });
  try {
    await use(aws, sender.send);
  } finally {
    await sender.close();
    await transport.close();
    await aws.stop();
  }
}

test('a third-party SES accepts the request, and its rejections are classified', async () => {
  await withSesOfOthers(async (aws, send) => {
    const before = await aws.received();
    const outcome = await send(emailMessage({ subject: 'Grüße 😀' }));
    const [mail, ...more] = (await aws.received()).slice(before.length);
    expect(more).toEqual([]);
    expect(mail).toMatchObject({
      from: '"News" <news@example.com>',
      destination: { to: ['"Ada L" <ada@example.com>'] },
      subject: 'Grüße 😀',
      body: { html: '<p>It is <b>here</b>.</p>', text: 'It is here.' },
    });
    expect(outcome).toEqual({ kind: 'sent', providerId: mail?.messageId });
    expect(await send(emailMessage({ subject: '' }))).toMatchObject({ kind: 'rejected', scope: 'message' });
  });
});

test('a third-party SES receives the e-mails from before and after an outage, each once', async () => {
  await withSesOfOthers(async (aws, send) => {
    const before = await aws.received(); // the emulator shares its mails within a process
    await expectRecovery(aws.outages, () => send(emailMessage()));
    expect(await aws.received()).toHaveLength(before.length + 2);
  });
});

conforms('ses', {
  open: (_address, deps) => ses.connect(config, deps(['PROVIDER_SES_BASE_URL'])),
  message: () => emailMessage(),
  accepts: { status: 200, body: { MessageId: '1' } },
  sent: { kind: 'sent', providerId: '1' },
  secrets: ['canary-ses-secret'],
});

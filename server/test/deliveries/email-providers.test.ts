/** E-mail through the whole service, by every provider with an HTTP API. */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { processedAtOnce } from '../support/all-channels.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { startSesStandIn } from '../support/ses-stand-in.ts';
import { startVendor, type VendorRequest, type VendorStandIn } from '../support/vendor-stand-in.ts';

let service: TestService;
let project: TestProject;
let vendor: VendorStandIn;
let aws: Awaited<ReturnType<typeof startSesStandIn>>;
let made = 0;

beforeAll(async () => {
  [vendor, aws] = await Promise.all([startVendor(), startSesStandIn()]);
  service = await startTestService({
    pollMs: 50,
    settings: {
      PUBLIC_URL: 'https://notify.example.com',
      BRAND: 'acme',
      PROVIDER_MAILGUN_BASE_URL: vendor.address,
      PROVIDER_SENDGRID_BASE_URL: vendor.address,
      PROVIDER_SES_BASE_URL: aws.address,
    },
  });
});
afterAll(async () => {
  await service?.stop();
  await Promise.all([vendor, aws].map((one) => one?.stop()));
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`mail ${made}`);
});

const from = { email: 'news@example.com', name: 'News' };
const ADA = { external_id: '42', email: 'ada@example.com', first_name: 'Ada', last_name: 'L' };

async function setUp(provider: string, config: object): Promise<void> {
  const response = await project.call('PUT', `/integrations/${provider}`, config);
  expect([response.status, response.body]).toMatchObject([200, {}]);
}

/** Sends a broadcast and returns it when it is processed, with the stored delivery of its e-mail. */
async function send(body: object = {}) {
  const sent = await project.call('POST', '/broadcasts', {
    title: 'Your order',
    content: 'It is <b>here</b>.',
    action_url: 'https://shop.example/1',
    recipients: [ADA],
    ...body,
  });
  const { status } = await processedAtOnce(service, project.call, sent.body.id);
  const [delivery] = await service.rows<Record<string, unknown>>(
    `select state, attempts, provider, provider_id, code, notification_id from deliveries
        where broadcast_id = $1 and channel = 'email'`,
    [sent.body.id],
  );
  return { id: sent.body.id as string, status, delivery };
}

const SENT = { status: 'processed', summary: { total: 1, failures: 0, pending: 0 }, errors: null };
const jsonOf = ({ body }: VendorRequest) => JSON.parse(body);
const only = (requests: VendorRequest[]): VendorRequest => {
  expect(requests).toHaveLength(1);
  return requests[0] as VendorRequest;
};

test('SendGrid accepts an e-mail with the overrides of the broadcast', async () => {
  await setUp('sendgrid', { api_key: 'SG.x', from });
  vendor.reply({ status: 202, headers: { 'x-message-id': 'sg-1' } });
  const overrides = { providers: { sendgrid: { categories: ['orders'] }, mailgun: { 'o:tag': 'x' } } };
  const { status, delivery } = await send({ overrides });
  expect(status).toEqual(SENT);
  expect(delivery).toMatchObject({ state: 'sent', attempts: 1, provider: 'sendgrid', provider_id: 'sg-1' });
  const request = only(vendor.requests);
  expect(request).toMatchObject({
    path: '/v3/mail/send',
    headers: { authorization: 'Bearer SG.x' },
  });
  const mail = jsonOf(request);
  expect(mail).toMatchObject({
    personalizations: [
      {
        to: [{ email: 'ada@example.com', name: 'Ada L' }],
        custom_args: { reference: expect.stringMatching(/^[\w-]{43}$/) },
      },
    ],
    from,
    subject: 'Your order',
    categories: ['orders'],
    headers: {
      'List-Unsubscribe': expect.stringMatching(/^<https:\/\/notify\.example\.com\/unsubscribe\//),
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      'X-ACME-Notification-Id': delivery?.notification_id,
      'Message-ID': `<${delivery?.notification_id}@example.com>`,
    },
  });
  expect(mail.content.map(({ type }: { type: string }) => type)).toEqual(['text/plain', 'text/html']);
  expect(mail.content[1].value).toContain('It is <b>here</b>.');
  expect(mail).not.toHaveProperty('o:tag');
});

test('SES accepts an e-mail', async () => {
  await setUp('ses', { key_id: 'AKIA', secret_key: 's', region: 'eu-west-1', from });
  const { status, delivery } = await send({ recipients: [{ ...ADA, email: `ada${made}@example.com` }] });
  expect(status).toEqual(SENT);
  const mails = await aws.received();
  const mail = mails.find(({ destination }) => destination.to[0]?.includes(`ada${made}@`));
  expect(mail).toMatchObject({
    from: '"News" <news@example.com>',
    subject: 'Your order',
    body: {
      html: expect.stringContaining('It is <b>here</b>.'),
      text: expect.stringContaining('It is here.'),
    },
  });
  expect(delivery).toMatchObject({ state: 'sent', provider: 'ses', provider_id: mail?.messageId });
});

test('Mailgun accepts an e-mail', async () => {
  await setUp('mailgun', { api_key: 'k', domain: 'mg.example.com', region: 'eu', from });
  vendor.reply({ status: 200, body: { id: '<1@mg.example.com>', message: 'Queued. Thank you.' } });
  const { status, delivery } = await send();
  expect(status).toEqual(SENT);
  expect(delivery).toMatchObject({ state: 'sent', provider: 'mailgun', provider_id: '1@mg.example.com' });
  const { path, headers, body } = only(vendor.requests);
  expect(path).toBe('/v3/mg.example.com/messages');
  const form = await new Response(body, {
    headers: { 'content-type': String(headers['content-type']) },
  }).formData();
  expect(Object.fromEntries(form)).toMatchObject({
    to: '"Ada L" <ada@example.com>',
    subject: 'Your order',
    'v:reference': expect.stringMatching(/^[\w-]{43}$/),
  });
});

describe('a custom mailer', () => {
  test('gets the notification and the user as the API returns them, signed by the project', async () => {
    await setUp('ping_email', { url: `${vendor.address}/mailer` });
    vendor.reply({ status: 200, body: { id: 'm-1' } });
    const overrides = { channels: { email: { title: 'Mailed', action_url: null } } };
    const { id, status, delivery } = await send({
      category: 'orders',
      topic: 'orders/1',
      custom_attributes: { order: 1 },
      overrides,
      recipients: [{ ...ADA, custom_attributes: { plan: 'pro' }, phone_numbers: ['+15005550001'] }],
    });
    expect(status).toEqual(SENT);
    expect(delivery).toMatchObject({ state: 'sent', provider: 'ping_email', provider_id: 'm-1' });
    const request = only(vendor.requests);
    const { data } = (await project.call('GET', '/users')).body;
    const { created_at } = (await project.call('GET', `/broadcasts/${id}`)).body;
    expect(jsonOf(request)).toEqual({
      notifications: [
        {
          id: delivery?.notification_id,
          title: 'Mailed',
          content: 'It is <b>here</b>.',
          action_url: null,
          category: 'orders',
          topic: 'orders/1',
          custom_attributes: { order: 1 },
          overrides,
          updated_at: created_at,
          recipient: { ...data[0], last_notified_at: created_at },
        },
      ],
      total: 1,
    });
    expect(request).toMatchObject({
      path: '/mailer',
      headers: { 'idempotency-key': delivery?.notification_id, 'content-type': 'application/json' },
    });
    const [, seconds, mac] =
      /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(request.headers['x-acme-signature'])) ?? [];
    expect(Math.abs(Number(seconds) * 1000 - Date.now())).toBeLessThan(60_000);
    const signed = createHmac('sha256', project.apiSecret).update(`${seconds}.${request.body}`);
    expect(mac).toBe(signed.digest('hex'));
  });

  test('gets the same e-mail again after a failure', async () => {
    await setUp('ping_email', { url: vendor.address });
    vendor.reply({ status: 503, headers: { 'retry-after': '0' } }, 'cut', { status: 202 });
    const { status, delivery } = await send();
    expect(status).toEqual(SENT);
    expect(delivery).toMatchObject({ state: 'sent', attempts: 3 });
    const keys = new Set(vendor.requests.map(({ headers }) => headers['idempotency-key']));
    expect([...keys]).toEqual([delivery?.notification_id]);
    expect(vendor.requests).toHaveLength(3);
  });

  test('that rejects the e-mail ends it with its own reason', async () => {
    await setUp('ping_email', { url: vendor.address });
    vendor.reply({ status: 422, body: { error: 'no template orders' } });
    const { status, delivery } = await send();
    expect(delivery).toMatchObject({ state: 'failed', attempts: 1, code: '422' });
    expect(status).toMatchObject({ summary: { total: 1, failures: 1, pending: 0 } });
    expect(JSON.stringify(status.errors)).toContain('the mailer responded with 422: no template orders');
  });
});

test('an override that cannot be merged is rejected with its broadcast', async () => {
  await setUp('sendgrid', { api_key: 'SG.x', from });
  const sent = await project.call('POST', '/broadcasts', {
    title: 'Hello',
    recipients: [{ external_id: 'ada', email: 'ada@example.com' }],
    overrides: { providers: { sendgrid: { constructor: 1 } } },
  });
  expect([sent.status, sent.body.errors[0].message]).toEqual([
    422,
    "Param 'overrides.providers.sendgrid' must not name constructor",
  ]);
});

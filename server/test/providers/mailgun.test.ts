/** Compares our Mailgun sender with Mailgun's own client, which also verifies the stand-in. */
import Mailgun from 'mailgun.js';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { mailgun } from '../../src/providers/mailgun/index.ts';
import type { EmailMessage, SendOutcome } from '../../src/providers/provider.ts';
import { createTransport, type Transport } from '../../src/providers/shared/transport.ts';
import { emailMessage } from '../support/email-message.ts';
import { type MailgunStandIn, mailgunError, startMailgunStandIn } from '../support/mailgun-stand-in.ts';
import { expectRecovery } from '../support/outage.ts';

const config = {
  api_key: 'canary-mailgun',
  domain: 'mg.example.com',
  region: 'eu' as const,
  from: { email: 'news@mg.example.com', name: 'News' },
};
const egress = createEgressGuard({ allow: '127.0.0.0/8' });
let vendor: MailgunStandIn;
let transport: Transport;

beforeAll(async () => {
  vendor = await startMailgunStandIn({ apiKey: config.api_key, domain: config.domain });
  transport = createTransport({ egress, origins: { PROVIDER_MAILGUN_BASE_URL: vendor.address } });
});
afterAll(async () => {
  await transport?.close();
  await vendor?.stop();
});
beforeEach(() => {
  vendor.mails.length = 0;
  vendor.state = 'active';
});

const theirs = (key = config.api_key) =>
  new Mailgun(FormData).client({ username: 'api', key, url: vendor.address });

async function ours(
  message: EmailMessage = emailMessage(),
  changes: Partial<typeof config> = {},
): Promise<SendOutcome> {
  const sender = mailgun.connect({ ...config, ...changes }, { egress, transport, clock: systemClock });
  const outcome = await sender.send(message);
  await sender.close();
  return outcome;
}

/** The mail of `emailMessage()` in the form of Mailgun's client. */
function written({ deliveryId, reference, to, subject, text, html, headers } = emailMessage()) {
  return {
    from: '"News" <news@mg.example.com>',
    to: to.name ? `"${to.name}" <${to.email}>` : to.email,
    subject,
    text,
    html,
    ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [`h:${name}`, value])),
    'h:Message-Id': `<${deliveryId}@mg.example.com>`,
    'v:reference': reference,
  };
}

describe("Mailgun's own client", () => {
  test('gets the response that it expects', async () => {
    expect(await theirs().messages.create(config.domain, written())).toEqual({
      status: 200,
      id: `<${vendor.mails[0]?.id}>`,
      message: 'Queued. Thank you.',
    });
    expect(await theirs().domains.get(config.domain)).toMatchObject({ name: config.domain, state: 'active' });
  });

  test.each<[string, object, string]>([
    ['without a recipient', { to: undefined }, 'to parameter is missing'],
    [
      'to an invalid address',
      { to: 'Ada <ada@>' },
      'to parameter is not a valid address. please check documentation',
    ],
    ['without a sender', { from: undefined }, 'from parameter is missing'],
    ['with too much beside its text', { 'v:all': 'x'.repeat(17_000) }, expect.stringContaining('too long')],
  ])('gets the error of a mail %s', async (_, changes, details) => {
    await expect(theirs().messages.create(config.domain, { ...written(), ...changes })).rejects.toMatchObject(
      { type: 'MailgunAPIError', status: 400, details },
    );
    expect(vendor.mails).toEqual([]);
  });

  test('is rejected without the key, and for a foreign domain', async () => {
    await expect(theirs('wrong').messages.create(config.domain, written())).rejects.toMatchObject({
      status: 401,
      details: 'Forbidden',
    });
    await expect(theirs().messages.create('mg.example.org', written())).rejects.toMatchObject({
      status: 404,
      details: 'Domain not found: mg.example.org',
    });
  });
});

describe('the same mail from us and from its client', () => {
  test.each<[string, EmailMessage]>([
    ['with everything', emailMessage()],
    ['with multi-byte characters', emailMessage({ subject: 'Grüße 😀', html: '<p>日本語\r\n--</p>' })],
    ['with HTML alone', emailMessage({ text: '', headers: {} })],
    ['to an address without a name', emailMessage({ to: { email: 'ada@example.com' } })],
  ])('%s is the same request', async (_, message) => {
    await theirs().messages.create(config.domain, written(message));
    expect(await ours(message)).toEqual({ kind: 'sent', providerId: vendor.mails[1]?.id });
    const [first, second] = vendor.mails;
    expect(second?.fields).toEqual(first?.fields);
    expect(second?.headers.authorization).toBe(first?.headers.authorization);
    expect([first, second].map((mail) => mail?.headers['content-type'])).toEqual(
      Array(2).fill(expect.stringMatching(/^multipart\/form-data; ?boundary=/)),
    );
  });

  test('overrides of a broadcast for Mailgun make the same request, too', async () => {
    const more = {
      cc: ['bob@example.com', 'Eve <eve@example.com>'],
      'o:tag': ['orders', 'spring'],
      'o:testmode': true,
      'o:tracking': false,
      'o:deliverytime': 'Fri, 25 Oct 2030 23:10:10 -0000',
      template: 'order',
      't:text': true,
    };
    const variables = { order: { id: 1 }, tags: ['a'] };
    const override = { ...more, 't:variables': variables };
    expect(await ours(emailMessage({ override }))).toMatchObject({ kind: 'sent' });
    const text = { 't:variables': JSON.stringify(variables) };
    await theirs().messages.create(config.domain, { ...written(), ...more, ...text });
    const [first, second] = vendor.mails;
    expect(second?.fields).toEqual(first?.fields);
  });
});

describe('sending', () => {
  test.each<[string, Parameters<typeof ours>, object]>([
    [
      'with a wrong key',
      [undefined, { api_key: 'wrong' }],
      { kind: 'rejected', scope: 'config', code: '401' },
    ],
    [
      'from a foreign domain',
      [undefined, { domain: 'mg.example.org' }],
      { kind: 'rejected', scope: 'config', code: '404' },
    ],
    [
      'to an address that Mailgun rejects',
      [emailMessage({ to: { email: 'ada@localhost' } })],
      { kind: 'rejected', scope: 'address', code: '400' },
    ],
    [
      'without any content',
      [emailMessage({ override: { html: null, text: null } })],
      { kind: 'rejected', scope: 'message', code: '400' },
    ],
  ])('a mail %s is an error of its kind', async (_, args, outcome) => {
    expect(await ours(...args)).toMatchObject(outcome);
    expect(vendor.mails).toEqual([]);
  });

  test('retries after a rate limit or a failure of Mailgun', async () => {
    const soon = new Date(Date.now() + 60_000).toUTCString();
    vendor.reply(
      mailgunError(
        429,
        `Domain ${config.domain} is not allowed to send: request limit exceeded, try again after ${soon}`,
      ),
      mailgunError(500, 'Internal Server Error'),
    );
    const sender = mailgun.connect(config, { egress, transport, clock: systemClock });
    const limited = await sender.send(emailMessage());
    expect(limited).toMatchObject({ kind: 'retry', ambiguous: false, code: '429' });
    expect(limited).toHaveProperty('retryAfterMs');
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'retry', code: '500' });
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'sent' });
    expect(vendor.mails).toHaveLength(1);
    await sender.close();
  });

  test('sends each mail once, before and after an outage of Mailgun', async () => {
    const sender = mailgun.connect(config, { egress, transport, clock: systemClock });
    await expectRecovery(vendor.outages, () => sender.send(emailMessage()));
    expect(vendor.mails).toHaveLength(2);
    await sender.close();
  });

  test('reports whether the key and the domain may send', async () => {
    const verify = (changes: object) =>
      mailgun.verify?.({ ...config, ...changes }, { egress, transport, clock: systemClock });
    expect(await verify({})).toEqual([]);
    expect(await verify({ domain: 'mg.example.org' })).toMatchObject([{ field: 'domain' }]);
    expect(await verify({ api_key: 'wrong' })).toMatchObject([{ field: 'api_key' }]);
    vendor.state = 'disabled';
    expect(await verify({})).toMatchObject([{ field: 'domain' }]);
  });
});

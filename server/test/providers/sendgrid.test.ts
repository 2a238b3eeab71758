/** Compares our SendGrid sender with SendGrid's own client, which also verifies the stand-in. */
import client from '@sendgrid/client';
import mailer from '@sendgrid/mail';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import type { EmailMessage, SendOutcome } from '../../src/providers/provider.ts';
import { sendgrid } from '../../src/providers/sendgrid/index.ts';
import { createTransport, type Transport } from '../../src/providers/shared/transport.ts';
import { emailMessage } from '../support/email-message.ts';
import { expectRecovery } from '../support/outage.ts';
import { refusal, type SendGridStandIn, startSendGridStandIn } from '../support/sendgrid-stand-in.ts';

const API_KEY = 'SG.canary';
const config = {
  api_key: API_KEY,
  from: { email: 'news@example.com', name: 'News' },
  reply_to: { email: 'help@example.com' },
};
const egress = createEgressGuard({ allow: '127.0.0.0/8' });
let vendor: SendGridStandIn;
let transport: Transport;

beforeAll(async () => {
  vendor = await startSendGridStandIn({ apiKey: API_KEY, verified: [config.from.email] });
  transport = createTransport({ egress, origins: { PROVIDER_SENDGRID_BASE_URL: vendor.address } });
});
afterAll(async () => {
  await transport?.close();
  await vendor?.stop();
});
beforeEach(() => {
  vendor.mails.length = 0;
  vendor.scopes = ['mail.send'];
});

type Mail = Parameters<typeof mailer.send>[0];

/** SendGrid's client, with this key from now on. */
function theirs(apiKey = API_KEY): { client: typeof client; mail: typeof mailer } {
  client.setApiKey(apiKey);
  client.setDefaultRequest('baseUrl', vendor.address);
  mailer.setClient(client);
  return { client, mail: mailer };
}

async function ours(
  message: EmailMessage = emailMessage(),
  changes: Partial<typeof config> = {},
): Promise<SendOutcome> {
  const sender = sendgrid.connect({ ...config, ...changes }, { egress, transport, clock: systemClock });
  const outcome = await sender.send(message);
  await sender.close();
  return outcome;
}

/** The mail of `emailMessage()` in the form of SendGrid's client. */
function written({ deliveryId, reference, to, subject, text, html, headers } = emailMessage()) {
  return {
    personalizations: [
      { to: { email: to.email, ...(to.name ? { name: to.name } : {}) }, customArgs: { reference } },
    ],
    from: config.from,
    replyTo: config.reply_to,
    subject,
    text,
    html,
    headers: { ...headers, 'Message-ID': `<${deliveryId}@example.com>` },
  } satisfies Mail;
}

describe("SendGrid's own client", () => {
  test('gets the response that it expects', async () => {
    const [response] = await theirs().mail.send(written());
    expect(response).toMatchObject({
      statusCode: 202,
      headers: { 'x-message-id': vendor.mails[0]?.id },
    });
    const [scopes] = await theirs().client.request({ method: 'GET', url: '/v3/scopes' });
    expect(scopes).toMatchObject({ statusCode: 200, body: { scopes: ['mail.send'] } });
  });

  const mail = written();
  const { subject: _, ...untitled } = mail;
  const { text: __, html: ___, ...empty } = mail;
  const person = mail.personalizations[0];
  test.each<[string, object, number, string | null]>([
    ['without a recipient', { personalizations: [{ ...person, to: [] }] }, 400, 'personalizations.0.to'],
    [
      'to an invalid address',
      { personalizations: [{ ...person, to: 'ada@' }] },
      400,
      'personalizations.0.to.0.email',
    ],
    ['from an unverified sender', { from: 'eve@example.com' }, 403, 'from'],
    ['without a subject', { ...untitled, subject: undefined }, 400, 'subject'],
    ['without content', { ...empty, text: undefined, html: undefined }, 400, 'content'],
    ['with a header that SendGrid reserves', { headers: { 'Reply-To': 'x' } }, 400, 'headers.Reply-To'],
  ])('gets the error of a mail %s', async (__, changes, code, field) => {
    await expect(theirs().mail.send({ ...mail, ...changes } as unknown as Mail)).rejects.toMatchObject({
      code,
      response: { body: { errors: [{ message: expect.any(String), field, help: null }] } },
    });
    expect(vendor.mails).toEqual([]);
  });

  test('is rejected without the key', async () => {
    await expect(theirs('SG.wrong').mail.send(written())).rejects.toMatchObject({
      code: 401,
      message: 'Unauthorized',
    });
  });
});

describe('the same mail from us and from its client', () => {
  const messages: [string, EmailMessage][] = [
    ['with everything', emailMessage()],
    ['with multi-byte characters', emailMessage({ subject: 'Grüße 😀', html: '<p>日本語\r\n</p>' })],
    ['with HTML alone', emailMessage({ text: '', headers: {} })],
    ['to an address without a name', emailMessage({ to: { email: 'ada@example.com' } })],
  ];
  test.each(messages)('%s is the same request', async (_, message) => {
    const { text, ...others } = written(message);
    await theirs().mail.send(text === '' ? others : { ...others, text });
    expect(await ours(message)).toEqual({ kind: 'sent', providerId: vendor.mails[1]?.id });
    const [first, second] = vendor.mails;
    expect(second?.mail).toEqual(first?.mail);
    for (const name of ['authorization', 'content-type'] as const)
      expect(second?.headers[name]).toBe(first?.headers[name]);
  });

  test('overrides of a broadcast for SendGrid make the same request, too', async () => {
    const more = {
      categories: ['orders'],
      send_at: 1_790_000_000,
      asm: { group_id: 1, groups_to_display: [1, 2] },
      tracking_settings: { click_tracking: { enable: false, enable_text: false } },
      mail_settings: { sandbox_mode: { enable: true } },
      attachments: [
        { content: 'AAAA', filename: 'a.bin', type: 'application/octet-stream', content_id: 'a' },
      ],
    };
    expect(await ours(emailMessage({ override: more }))).toMatchObject({ kind: 'sent' });
    // The client accepts what the API documentation has, and builds a request of the members that it knows.
    await theirs().mail.send({ ...written(), ...more } as unknown as Mail);
    const [first, second] = vendor.mails;
    expect(second?.mail).toEqual(first?.mail);
    expect(first?.mail).toMatchObject(more);
  });
});

describe('sending', () => {
  test.each<[string, Parameters<typeof ours>, object]>([
    [
      'with a wrong key',
      [undefined, { api_key: 'SG.wrong' }],
      { kind: 'rejected', scope: 'config', code: '401' },
    ],
    [
      'from an unverified sender',
      [undefined, { from: { email: 'eve@example.com', name: 'Eve' } }],
      { kind: 'rejected', scope: 'config', code: '403' },
    ],
    [
      'to an address that SendGrid rejects',
      [emailMessage({ to: { email: 'ada@localhost' } })],
      { kind: 'rejected', scope: 'address', code: '400' },
    ],
    [
      'with an unknown member',
      [emailMessage({ override: { shape: 'round' } })],
      { kind: 'rejected', scope: 'message', code: '400' },
    ],
  ])('a mail %s is an error of its kind', async (_, args, outcome) => {
    expect(await ours(...args)).toMatchObject(outcome);
    expect(vendor.mails).toEqual([]);
  });

  test('retries after a rate limit or a failure of SendGrid', async () => {
    const soon = Math.floor(Date.now() / 1000) + 30;
    const headers = { date: new Date().toUTCString(), 'x-ratelimit-reset': String(soon) };
    vendor.reply({ ...refusal(429, 'too many requests'), headers }, refusal(500, 'Internal Server Error'));
    const sender = sendgrid.connect(config, { egress, transport, clock: systemClock });
    const limited = await sender.send(emailMessage());
    expect(limited).toMatchObject({ kind: 'retry', ambiguous: false, code: '429' });
    expect(limited).toHaveProperty('retryAfterMs');
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'retry', code: '500' });
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'sent' });
    expect(vendor.mails).toHaveLength(1);
    await sender.close();
  });

  test('sends each mail once, before and after an outage of SendGrid', async () => {
    const sender = sendgrid.connect(config, { egress, transport, clock: systemClock });
    await expectRecovery(vendor.outages, () => sender.send(emailMessage()));
    expect(vendor.mails).toHaveLength(2);
    await sender.close();
  });

  test('reports whether the key may send', async () => {
    const verify = (api_key: string) =>
      sendgrid.verify?.({ ...config, api_key }, { egress, transport, clock: systemClock });
    expect(await verify(API_KEY)).toEqual([]);
    vendor.scopes = ['stats.read'];
    expect(await verify(API_KEY)).toMatchObject([{ field: 'api_key' }]);
    expect(await verify('SG.wrong')).toMatchObject([{ field: 'api_key' }]);
  });
});

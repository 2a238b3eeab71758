/** SendGrid's own client beside ours: it proves the stand-in, and what it sends is what we send. */
import { Client } from '@sendgrid/client';
import { type MailDataRequired, MailService } from '@sendgrid/mail';
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

function theirs(apiKey = API_KEY): { client: Client; mail: MailService } {
  const client = new Client();
  client.setApiKey(apiKey);
  client.setDefaultRequest('baseUrl', vendor.address);
  const mail = new MailService();
  mail.setClient(client);
  return { client, mail };
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

/** The mail of `emailMessage()`, as one writes it for SendGrid's client. */
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
  } satisfies MailDataRequired;
}

describe("SendGrid's own client", () => {
  test('is answered as it expects', async () => {
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
    ['to nobody', { personalizations: [{ ...person, to: [] }] }, 400, 'personalizations.0.to'],
    [
      'to what is no address',
      { personalizations: [{ ...person, to: 'ada@' }] },
      400,
      'personalizations.0.to.0.email',
    ],
    ['from somebody who is not verified', { from: 'eve@example.com' }, 403, 'from'],
    ['without a subject', { ...untitled, subject: undefined }, 400, 'subject'],
    ['without content', { ...empty, text: undefined, html: undefined }, 400, 'content'],
    ['with a header that is SendGrid’s own', { headers: { 'Reply-To': 'x' } }, 400, 'headers.Reply-To'],
  ])('is told what is wrong with a mail %s', async (__, changes, code, field) => {
    await expect(
      theirs().mail.send({ ...mail, ...changes } as unknown as MailDataRequired),
    ).rejects.toMatchObject({
      code,
      response: { body: { errors: [{ message: expect.any(String), field, help: null }] } },
    });
    expect(vendor.mails).toEqual([]);
  });

  test('is refused without the key', async () => {
    await expect(theirs('SG.wrong').mail.send(written())).rejects.toMatchObject({
      code: 401,
      message: 'Unauthorized',
    });
  });
});

describe('the same mail by us and by its client', () => {
  const messages: [string, EmailMessage][] = [
    ['with everything', emailMessage()],
    [
      'of letters that need more than a byte',
      emailMessage({ subject: 'Grüße 😀', html: '<p>日本語\r\n</p>' }),
    ],
    ['of HTML alone', emailMessage({ text: '', headers: {} })],
    ['to an address alone', emailMessage({ to: { email: 'ada@example.com' } })],
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

  test('what a broadcast says for SendGrid is the same request, too', async () => {
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
    // It takes what stands in the documentation of the API, and makes a request of what it knows of it.
    await theirs().mail.send({ ...written(), ...more } as unknown as MailDataRequired);
    const [first, second] = vendor.mails;
    expect(second?.mail).toEqual(first?.mail);
    expect(first?.mail).toMatchObject(more);
  });
});

describe('sending', () => {
  test.each<[string, Parameters<typeof ours>, object]>([
    [
      'by a wrong key',
      [undefined, { api_key: 'SG.wrong' }],
      { kind: 'rejected', scope: 'config', code: '401' },
    ],
    [
      'from somebody who is not verified',
      [undefined, { from: { email: 'eve@example.com', name: 'Eve' } }],
      { kind: 'rejected', scope: 'config', code: '403' },
    ],
    [
      'to what SendGrid does not take as an address',
      [emailMessage({ to: { email: 'ada@localhost' } })],
      { kind: 'rejected', scope: 'address', code: '400' },
    ],
    [
      'with what SendGrid does not know',
      [emailMessage({ override: { shape: 'round' } })],
      { kind: 'rejected', scope: 'message', code: '400' },
    ],
  ])('%s is an error of its kind', async (_, given, outcome) => {
    expect(await ours(...given)).toMatchObject(outcome);
    expect(vendor.mails).toEqual([]);
  });

  test('goes on when SendGrid has had too much, or failed', async () => {
    const soon = Math.floor(Date.now() / 1000) + 30;
    const headers = { date: new Date().toUTCString(), 'x-ratelimit-reset': String(soon) };
    vendor.answer({ ...refusal(429, 'too many requests'), headers }, refusal(500, 'Internal Server Error'));
    const sender = sendgrid.connect(config, { egress, transport, clock: systemClock });
    const limited = await sender.send(emailMessage());
    expect(limited).toMatchObject({ kind: 'retry', ambiguous: false, code: '429' });
    expect(limited).toHaveProperty('retryAfterMs');
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'retry', code: '500' });
    expect(await sender.send(emailMessage())).toMatchObject({ kind: 'sent' });
    expect(vendor.mails).toHaveLength(1);
    await sender.close();
  });

  test('before and after SendGrid was away brings each mail once', async () => {
    const sender = sendgrid.connect(config, { egress, transport, clock: systemClock });
    await expectRecovery(vendor.outages, () => sender.send(emailMessage()));
    expect(vendor.mails).toHaveLength(2);
    await sender.close();
  });

  test('is what the key may do, or it may not', async () => {
    const verify = (api_key: string) =>
      sendgrid.verify?.({ ...config, api_key }, { egress, transport, clock: systemClock });
    expect(await verify(API_KEY)).toEqual([]);
    vendor.scopes = ['stats.read'];
    expect(await verify(API_KEY)).toMatchObject([{ field: 'api_key' }]);
    expect(await verify('SG.wrong')).toMatchObject([{ field: 'api_key' }]);
  });
});

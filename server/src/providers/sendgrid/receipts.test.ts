import { generateKeyPairSync, sign } from 'node:crypto';
import { EventWebhook } from '@sendgrid/eventwebhook';
import { expect, test } from 'vitest';
import { sendgridReceipts } from './receipts.ts';

const URL_CALLED = 'https://notify.example.com/v2/integrations/sendgrid/webhooks/incoming/1';
const NOW = 1_600_112_600_000;
const request = (body: string, headers: Record<string, string> = {}, nowMs = NOW) => ({
  url: URL_CALLED,
  headers,
  body: Buffer.from(body),
  nowMs,
});
const signedBy = (signature: string, timestamp: string) => ({
  'x-twilio-email-event-webhook-signature': signature,
  'x-twilio-email-event-webhook-timestamp': timestamp,
});

// A request signed by SendGrid, from the tests of its own library.
const KEY =
  // language-ignore: a key
  'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==';
const SIGNATURE =
  'MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM=';
const TIMESTAMP = '1600112502';
const BODY = `${JSON.stringify([
  {
    email: 'hello@world.com',
    event: 'dropped',
    reason: 'Bounced Address',
    sg_event_id: 'ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA',
    sg_message_id: 'LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0',
    'smtp-id': '<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>',
    timestamp: 1600112492,
  },
])}\r\n`;

test('a request signed by SendGrid is accepted and read', () => {
  const real = request(BODY, signedBy(SIGNATURE, TIMESTAMP));
  const pem = `-----BEGIN PUBLIC KEY-----\n${KEY}\n-----END PUBLIC KEY-----\n`;
  for (const webhook_public_key of [KEY, pem])
    expect(sendgridReceipts.isSigned(real, { webhook_public_key })).toBe(true);
  expect(sendgridReceipts.read(real)).toEqual({
    receipts: [
      {
        kind: 'dropped',
        at: new Date(1_600_112_492_000),
        reason: 'Bounced Address',
        suppress: { address: 'hello@world.com', reason: 'bounced' },
      },
    ],
  });
});

test('a valid signature with a key of another type is rejected', () => {
  const timestamp = String(NOW / 1000);
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const signature = sign('sha256', Buffer.from(timestamp + BODY), privateKey).toString('base64');
  const webhook_public_key = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const signed = request(BODY, signedBy(signature, timestamp));
  expect(sendgridReceipts.isSigned(signed, { webhook_public_key })).toBe(false);
});

test('other requests are rejected', () => {
  const config = { webhook_public_key: KEY };
  const good = signedBy(SIGNATURE, TIMESTAMP);
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
  const otherKey = other.export({ format: 'der', type: 'spki' }).toString('base64');
  const refused: [ReturnType<typeof request>, { webhook_public_key?: string }][] = [
    [request(BODY, good), {}],
    [request(BODY, good), { webhook_public_key: 'nonsense' }],
    [request(BODY, good), { webhook_public_key: otherKey }],
    [request(`${BODY} `, good), config],
    [request(BODY, {}), config],
    [request(BODY, signedBy('', TIMESTAMP)), config],
    [request(BODY, signedBy('AAAA', TIMESTAMP)), config],
    [request(BODY, signedBy(SIGNATURE, '1600112503')), config],
    [request(BODY, signedBy(SIGNATURE, 'now')), config],
    [request(BODY, good, NOW + 26 * 3_600_000), config],
    [request(BODY, good, NOW - 3_600_000), config],
  ];
  for (const [one, given] of refused) expect(sendgridReceipts.isSigned(one, given)).toBe(false);
});

test('SendGrid’s own library agrees on signatures', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const theirs = new EventWebhook();
  for (const body of ['[]', '[{"event":"delivered","email":"ä@example.com"}]\r\n', '']) {
    const made = sign('sha256', Buffer.from(TIMESTAMP + body), { key: privateKey, dsaEncoding: 'der' });
    for (const signature of [made.toString('base64'), SIGNATURE]) {
      const judged = theirs.verifySignature(theirs.convertPublicKeyToECDSA(key), body, signature, TIMESTAMP);
      const ours = sendgridReceipts.isSigned(request(body, signedBy(signature, TIMESTAMP)), {
        webhook_public_key: key,
      });
      expect(ours).toBe(judged);
      expect(ours).toBe(signature !== SIGNATURE);
    }
  }
});

// From the reference of the event webhook.
const base = { email: 'a@example.com', timestamp: 1_513_299_569, sg_event_id: 'e', sg_message_id: 'm' };
test.each([
  [{ event: 'processed' }, undefined],
  [{ event: 'deferred', response: '400 try again later', attempt: '5' }, undefined],
  [{ event: 'open', useragent: 'Mozilla' }, undefined],
  [{ event: 'delivered', response: '250 OK' }, { kind: 'delivered' }],
  [
    { event: 'bounce', type: 'bounce', reason: '500 unknown recipient', status: '5.0.0' },
    { kind: 'bounced', code: '5.0.0', reason: '500 unknown recipient', why: 'bounced' },
  ],
  [
    { event: 'bounce', type: 'blocked', reason: '552 over quota', status: '5.2.2' },
    { kind: 'bounced', code: '5.2.2', reason: '552 over quota' },
  ],
  [
    { event: 'dropped', reason: 'Bounced Address' },
    { kind: 'dropped', reason: 'Bounced Address', why: 'bounced' },
  ],
  [
    { event: 'dropped', reason: 'Invalid' },
    { kind: 'dropped', reason: 'Invalid', why: 'rejected' },
  ],
  [
    { event: 'dropped', reason: 'Spam Reporting Address' },
    { kind: 'dropped', reason: 'Spam Reporting Address', why: 'complained' },
  ],
  [
    { event: 'dropped', reason: 'Unsubscribed Address' },
    { kind: 'dropped', reason: 'Unsubscribed Address', why: 'unsubscribed' },
  ],
  [
    { event: 'dropped', reason: 'Unsubscribed Address', asm_group_id: 10 },
    { kind: 'dropped', reason: 'Unsubscribed Address' },
  ],
  [
    { event: 'dropped', reason: 'Invalid SMTPAPI header' },
    { kind: 'dropped', reason: 'Invalid SMTPAPI header' },
  ],
  [{ event: 'spamreport' }, { kind: 'complained', why: 'complained' }],
  [{ event: 'unsubscribe' }, { kind: 'unsubscribed' }],
  [{ event: 'group_unsubscribe', asm_group_id: 10 }, { kind: 'unsubscribed' }],
])('%j is %j', (event, expected) => {
  const body = JSON.stringify([{ ...base, reference: 'r', ...event }, null, 1, {}]);
  const { why, ...receipt } = { why: undefined, ...expected };
  const suppress = why === undefined ? {} : { suppress: { address: 'a@example.com', reason: why } };
  expect(sendgridReceipts.read(request(body))).toEqual({
    receipts:
      expected === undefined
        ? []
        : [{ ...receipt, ...suppress, reference: 'r', at: new Date(1_513_299_569_000) }],
  });
});

test('a body that is not a list cannot be read', () => {
  for (const body of ['', '{', '{}', 'null', '1'])
    expect(sendgridReceipts.read(request(body))).toBeUndefined();
});

import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { mailgunReceipts } from './receipts.ts';

const KEY = 'canary-key';
const NOW = 1_770_146_800_000;
const url = 'https://notify.example.com/v2/integrations/mailgun/webhooks/incoming/1';
const request = (said: unknown, nowMs = NOW) => ({
  url,
  headers: {},
  body: Buffer.from(typeof said === 'string' ? said : JSON.stringify(said)),
  nowMs,
});
const TOKEN = 'a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0';
function signature(timestamp: string, token = TOKEN, key = KEY) {
  const hex = createHmac('sha256', key)
    .update(timestamp + token)
    .digest('hex');
  return { timestamp, token, signature: hex };
}

test('the documented signature is valid', () => {
  const config = { webhook_signing_key: KEY };
  const seconds = String(NOW / 1000 - 10);
  const said = (one: unknown) => request({ signature: one, 'event-data': { event: 'delivered' } });
  expect(mailgunReceipts.isSigned(said(signature(seconds)), config)).toBe(true);
  const refused: unknown[] = [
    undefined,
    {},
    'text',
    { ...signature(seconds), token: 'x' },
    { ...signature(seconds), timestamp: String(NOW / 1000) },
    { ...signature(seconds), signature: '' },
    { ...signature(seconds), signature: signature(seconds).signature.slice(2) },
    signature(seconds, TOKEN, 'other'),
    signature(seconds, ''),
    signature(String(NOW / 1000 - 26 * 3600)),
    signature(String(NOW / 1000 + 3600)),
    signature(''),
  ];
  for (const one of refused) expect(mailgunReceipts.isSigned(said(one), config)).toBe(false);
  expect(mailgunReceipts.isSigned(said(signature(seconds)), {})).toBe(false);
  expect(mailgunReceipts.isSigned(request('{'), config)).toBe(false);
});

// From the documentation of webhook payloads.
test.each([
  [{ event: 'accepted' }, undefined],
  [{ event: 'opened' }, undefined],
  [{ event: 'delivered', 'delivery-status': { code: 250, message: 'OK' } }, { kind: 'delivered' }],
  [
    {
      event: 'failed',
      severity: 'temporary',
      reason: 'generic',
      'delivery-status': { code: 421, 'retry-seconds': 600, description: 'No MX' },
    },
    undefined,
  ],
  [
    {
      event: 'failed',
      severity: 'permanent',
      reason: 'suppress-bounce',
      'delivery-status': {
        code: 605,
        message: '',
        description: 'Not delivering to previously bounced address',
      },
    },
    { kind: 'dropped', code: '605', reason: 'Not delivering to previously bounced address', why: 'bounced' },
  ],
  [
    { event: 'failed', severity: 'permanent', reason: 'suppress-complaint' },
    { kind: 'dropped', why: 'complained' },
  ],
  [
    { event: 'failed', severity: 'permanent', reason: 'suppress-unsubscribe' },
    { kind: 'dropped', why: 'unsubscribed' },
  ],
  [
    {
      event: 'failed',
      severity: 'permanent',
      reason: 'bounce',
      'delivery-status': {
        code: 550,
        'enhanced-code': '5.1.1',
        'bounce-type': 'hard',
        message: 'No such user',
      },
    },
    { kind: 'bounced', code: '5.1.1', reason: 'No such user', why: 'bounced' },
  ],
  [
    {
      event: 'failed',
      severity: 'permanent',
      reason: 'bounce',
      'delivery-status': { code: 552, 'bounce-type': 'soft', message: 'Mailbox full' },
    },
    { kind: 'bounced', code: '552', reason: 'Mailbox full' },
  ],
  [
    { event: 'failed', severity: 'permanent', reason: 'bounce', 'delivery-status': { code: 550 } },
    { kind: 'bounced', code: '550', why: 'bounced' },
  ],
  [
    { event: 'failed', severity: 'permanent', reason: 'old', 'delivery-status': { code: 602 } },
    { kind: 'bounced', code: '602' },
  ],
  [
    { event: 'rejected', reject: { reason: 'Sandbox' } },
    { kind: 'dropped', reason: 'Sandbox' },
  ],
  [{ event: 'complained' }, { kind: 'complained', why: 'complained' }],
  [{ event: 'unsubscribed' }, { kind: 'unsubscribed' }],
])('%j is %j', (event, expected) => {
  const data = {
    id: 'CCXMjJ7nQi2N3BPigGOdgQ',
    timestamp: 1_770_146_798.25,
    recipient: 'ada@example.com',
    'user-variables': { reference: 'r' },
    ...event,
  };
  const { why, ...receipt } = { why: undefined, ...expected };
  const suppress = why === undefined ? {} : { suppress: { address: 'ada@example.com', reason: why } };
  expect(mailgunReceipts.read(request({ signature: signature('1'), 'event-data': data }))).toEqual({
    once: TOKEN,
    receipts:
      expected === undefined
        ? []
        : [{ ...receipt, ...suppress, reference: 'r', at: new Date(1_770_146_798_250) }],
  });
});

test('variables may be an empty list, and other bodies cannot be read', () => {
  const data = { event: 'delivered', timestamp: 9e12, 'user-variables': [] };
  expect(mailgunReceipts.read(request({ signature: signature('1'), 'event-data': data }))).toEqual({
    once: TOKEN,
    receipts: [{ kind: 'delivered', at: new Date(NOW) }],
  });
  for (const said of ['', '[]', '{}', '{"event-data":{"event":"delivered"}}', { signature: signature('1') }])
    expect(mailgunReceipts.read(request(said))).toBeUndefined();
});

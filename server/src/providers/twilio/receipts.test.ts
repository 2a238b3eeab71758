import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { startEmulator } from '../../../test/support/emulator.ts';
import { notificationContent } from '../../../test/support/notification-content.ts';
import { systemClock } from '../../lib/clock.ts';
import { createEgressGuard } from '../../lib/egress.ts';
import type { ReportRequest } from '../provider.ts';
import { createTransport } from '../shared/transport.ts';
import { twilio } from './index.ts';
import { twilioReceipts } from './receipts.ts';

const NOW = Date.parse('2026-01-31T12:00:00Z');
function request(url: string, fields: string, signature?: string): ReportRequest {
  return {
    url,
    headers: signature === undefined ? {} : { 'x-twilio-signature': signature },
    body: Buffer.from(fields),
    nowMs: NOW,
  };
}

// From the documentation of Twilio, and from the tests of its own library.
const DOCUMENTED = {
  url: 'https://mycompany.com/myapp.php?foo=1&bar=2',
  fields: new URLSearchParams({
    CallSid: 'CA1234567890ABCDE',
    Caller: '+14158675309',
    Digits: '1234',
    From: '+14158675309',
    To: '+18005551212',
  }).toString(),
  token: '12345',
  signature: 'RSOYDt4T1cUTdK1PDd93/VVr8B8=',
};

test('the documented signature is valid, and others are not', () => {
  const { url, fields, token, signature } = DOCUMENTED;
  const isSigned = (one: ReportRequest, auth_token = token) => twilioReceipts.isSigned(one, { auth_token });
  expect(isSigned(request(url, fields, signature))).toBe(true);
  for (const [one, key] of [
    [request(url, fields, signature), '12346'],
    [request(url, `${fields}&x=1`, signature), token],
    [request(`${url}&x=1`, fields, signature), token],
    [request(url.replace('https', 'http'), fields, signature), token],
    [request(url, fields, ''), token],
    [request(url, fields, 'nonsense'), token],
    [request(url, fields), token],
  ] as const)
    expect(isSigned(one, key)).toBe(false);
});

// Created with Twilio's own library (6.2.0), which defines when each is valid.
test.each([
  ['', DOCUMENTED.signature, ['', ':443', ':8443', ':4433']],
  [':443', 'kvajT1Ptam85bY51eRf/AJRuM3w=', ['', ':443']],
  [':8443', 'ZOaJEsozlsUyzk5k5fpaCxTxXDA=', [':8443']],
])('a signature with the port %j as %s is valid for calls to one of %j', (_, signature, called) => {
  const { url, fields, token } = DOCUMENTED;
  for (const port of ['', ':443', ':8443', ':4433']) {
    const one = request(url.replace('.com', `.com${port}`), fields, signature);
    expect(twilioReceipts.isSigned(one, { auth_token: token })).toBe(called.includes(port));
  }
});

test('without an auth token the URL has to be one of ours, with one that is not enough', () => {
  const one = request('https://notify.example.com/', 'MessageStatus=delivered');
  expect(twilioReceipts.isSigned(one, {})).toBe(false);
  expect(twilioReceipts.isSigned({ ...one, reference: 'r' }, {})).toBe(true);
  expect(twilioReceipts.isSigned({ ...one, reference: 'r' }, { auth_token: 'x' })).toBe(false);
});

test('a third-party Twilio calls the URL of a message, with a valid signature', async () => {
  const got: ReportRequest[] = [];
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    got.push({
      url: address + incoming.url,
      headers: incoming.headers,
      body: Buffer.concat(chunks),
      nowMs: NOW,
    });
    response.end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = { account_sid: 'AC1', api_key: 'SK1', api_secret: 's', from: '+14155550100' };
  const emulated = await startEmulator('twilio', {
    account: { sid: 'AC1', auth_token: 'canary' },
    api_keys: [{ sid: 'SK1', secret: 's' }],
    phone_numbers: [{ phone_number: config.from }],
  });
  const egress = createEgressGuard({ allow: '127.0.0.0/8' });
  const transport = createTransport({ egress, origins: { PROVIDER_TWILIO_BASE_URL: emulated.address } });
  try {
    const sender = twilio.connect(config, { egress, transport, clock: systemClock });
    const receiptUrl = `${address}/v2/integrations/twilio/webhooks/incoming/1?token=a-b_c`;
    const outcome = await sender.send({ ...notificationContent(), to: '+15005550001', receiptUrl });
    expect(outcome.kind).toBe('sent');
    await sender.close();
    const sid = outcome.kind === 'sent' ? (outcome.providerId ?? '') : '';
    const response = await fetch(`${emulated.address}/_twilio/simulate/message-status`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('SK1:s')}` },
      body: new URLSearchParams({ MessageSid: sid, Status: 'undelivered' }),
    });
    expect(response.status).toBe(200);
    const last = got.at(-1) as ReportRequest;
    expect(last.url).toBe(receiptUrl);
    expect(twilioReceipts.isSigned(last, { auth_token: 'canary' })).toBe(true);
    expect(twilioReceipts.isSigned(last, { auth_token: 'canary2' })).toBe(false);
    expect(twilioReceipts.read(last)).toEqual({ receipts: [{ kind: 'bounced', at: new Date(NOW) }] });
  } finally {
    await transport.close();
    await emulated.emulator.close();
    server.closeAllConnections();
    server.close();
  }
});

const at = new Date(NOW);
const suppress = (reason: string) => ({ suppress: { address: '+15005550001', reason } });
test.each([
  ['queued', undefined, undefined],
  ['sending', undefined, undefined],
  ['sent', undefined, undefined],
  ['delivered', undefined, { kind: 'delivered' }],
  ['read', undefined, { kind: 'delivered' }],
  ['canceled', undefined, { kind: 'dropped' }],
  ['failed', '30001', { kind: 'dropped', reason: 'the message queue is full' }],
  ['undelivered', '30003', { kind: 'bounced', reason: 'the phone is switched off or unreachable' }],
  [
    'undelivered',
    '30004',
    {
      kind: 'bounced',
      reason: 'the recipient or the carrier blocks these messages',
      ...suppress('rejected'),
    },
  ],
  ['undelivered', '30005', { kind: 'bounced', reason: 'the number does not exist', ...suppress('bounced') }],
  [
    'undelivered',
    '30006',
    {
      kind: 'bounced',
      reason: 'the number is a landline, or its carrier cannot be reached',
      ...suppress('bounced'),
    },
  ],
  ['undelivered', '30007', { kind: 'bounced', reason: 'the carrier filtered the message' }],
  ['undelivered', '30008', { kind: 'bounced', reason: 'the carrier gave no reason' }],
  [
    'failed',
    '21610',
    { kind: 'dropped', reason: 'the recipient has replied STOP', ...suppress('unsubscribed') },
  ],
  ['failed', '99999', { kind: 'dropped' }],
])('%s with %s is %j', (MessageStatus, ErrorCode, expected) => {
  const fields = new URLSearchParams({ MessageSid: 'SM1', MessageStatus, To: '+15005550001' });
  if (ErrorCode !== undefined) fields.set('ErrorCode', ErrorCode);
  const said = twilioReceipts.read({ ...request('https://x/', fields.toString()), reference: 'r' });
  const code = ErrorCode === undefined ? {} : { code: ErrorCode };
  expect(said).toEqual({
    receipts: expected === undefined ? [] : [{ at, reference: 'r', ...code, ...expected }],
  });
});

test('a body without a status cannot be read', () => {
  for (const body of ['', '{}', 'MessageSid=SM1'])
    expect(twilioReceipts.read(request('https://x/', body))).toBeUndefined();
  expect(twilioReceipts.read(request('https://x/', 'SmsStatus=delivered'))).toEqual({
    receipts: [{ kind: 'delivered', at }],
  });
});

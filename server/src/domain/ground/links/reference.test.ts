import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { readReceiptToken, readReference, receiptUrl, referenceOf } from './reference.ts';

test('a reference is decoded to what it was made of', () => {
  for (let round = 0; round < 500; round += 1) {
    const referred = { broadcastId: newId(), userId: newId() };
    const text = referenceOf(referred);
    expect(text).toMatch(/^[\w-]{43}$/);
    expect(readReference(text)).toEqual(referred);
  }
});

test('a reference is 32 bytes: the broadcast, then the user', () => {
  const text = referenceOf({
    broadcastId: '00112233-4455-6677-8899-aabbccddeeff',
    userId: 'ffeeddcc-bbaa-9988-7766-554433221100',
  });
  expect(Buffer.from(text, 'base64url').toString('hex')).toBe(
    '00112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100',
  );
});

test.each([
  '',
  'A',
  'A'.repeat(42),
  'A'.repeat(44),
  `${'A'.repeat(42)}=`,
  `${'A'.repeat(42)}B`, // bits beyond the 32 bytes
  `${'A'.repeat(42)} `,
  `+${'A'.repeat(42)}`,
  '0198c0de-0000-7000-8000-000000000001',
])('%j is not a reference', (text) => {
  expect(readReference(text)).toBeUndefined();
});

const signingKey = createSecretKey(Buffer.alloc(32, 1));
const integration = { id: newId(), provider: 'twilio' };
const reference = referenceOf({ broadcastId: newId(), userId: newId() });
const url =
  receiptUrl({ PUBLIC_URL: 'https://notify.example/base/' }, { signingKey }, integration, reference) ?? '';
const token = new URL(url).searchParams.get('token') ?? '';

test('a message has a separate URL, if the server has a public one', () => {
  expect(url).toBe(
    `https://notify.example/base/v2/integrations/twilio/webhooks/incoming/${integration.id}?token=${token}`,
  );
  expect(readReceiptToken([{ key: signingKey }], integration.id, token)).toBe(reference);
  expect(receiptUrl({ PUBLIC_URL: undefined }, { signingKey }, integration, reference)).toBeUndefined();
});

test('it is valid for no other integration, project or message', () => {
  expect(readReceiptToken([{ key: signingKey }], newId(), token)).toBeUndefined();
  expect(
    readReceiptToken([{ key: createSecretKey(Buffer.alloc(32, 2)) }], integration.id, token),
  ).toBeUndefined();
  for (let place = 0; place < token.length - 1; place += 1) {
    const other = token[place] === 'A' ? 'B' : 'A';
    const changed = token.slice(0, place) + other + token.slice(place + 1);
    expect(readReceiptToken([{ key: signingKey }], integration.id, changed)).toBeUndefined();
  }
  for (const other of ['', reference, token.slice(0, -2), `${token}AA`])
    expect(readReceiptToken([{ key: signingKey }], integration.id, other)).toBeUndefined();
});

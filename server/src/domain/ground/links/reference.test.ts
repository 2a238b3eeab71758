import { expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { readReference, referenceOf } from './reference.ts';

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

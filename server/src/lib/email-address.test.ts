import { expect, test } from 'vitest';
import { isEmailAddress } from './email-address.ts';

test.each([
  'ada@example.com',
  'a.b+c@sub.example.co.uk',
  'x@localhost',
  'müller@exämple.de',
  "o'neil@example.com",
])('%s is an address', (address) => expect(isEmailAddress(address)).toBe(true));

test.each([
  '',
  'ada',
  '@example.com',
  'ada@',
  'ada@@example.com',
  'a b@example.com',
  'ada@example..com',
  'ada@.com',
  'ada@example.com\r\nBcc: x@y.z',
  '<ada@example.com>',
  `${'a'.repeat(320)}@example.com`,
])('%j is not an address', (address) => expect(isEmailAddress(address)).toBe(false));

test('an address that is crafted to slow matching down is rejected quickly', () => {
  expect(isEmailAddress(`a@${'a.'.repeat(120)}!`)).toBe(false);
  expect(isEmailAddress(`${'a@'.repeat(100)}`)).toBe(false);
});

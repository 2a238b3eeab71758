import { expect, test } from 'vitest';
import { isEmailAddress, readRecipients } from './recipients.ts';

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
])('%j is no address', (address) => expect(isEmailAddress(address)).toBe(false));

test('an address that is made to make matching slow is judged like any other', () => {
  expect(isEmailAddress(`a@${'a.'.repeat(150)}!`)).toBe(true);
  expect(isEmailAddress(`${'a@'.repeat(150)}`)).toBe(false);
});

test('a recipient that cannot be used is counted and named, the others go on', () => {
  const read = readRecipients('p', [
    { external_id: '1' },
    { email: 'nonsense' },
    { external_id: '2', email: 'nonsense', first_name: null, phone_numbers: ['+15005550001'] },
    { email: ' ada@example.com ', custom_attributes: { plan: 'pro' } },
  ]);
  expect(read.unusable).toBe(1);
  expect(read.positions).toEqual([0, 2, 3]);
  expect(read.errors).toEqual([
    "recipients.1: 'nonsense' is not an e-mail address",
    "recipients.2: 'nonsense' is not an e-mail address",
  ]);
  expect(read.people).toEqual([
    { projectId: 'p', externalId: '1' },
    { projectId: 'p', externalId: '2', firstName: null, phoneNumbers: ['+15005550001'] },
    { projectId: 'p', email: 'ada@example.com', customAttributes: '{"plan":"pro"}' },
  ]);
});

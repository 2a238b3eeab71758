import { expect, test } from 'vitest';
import { readRecipients } from './recipients.ts';

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

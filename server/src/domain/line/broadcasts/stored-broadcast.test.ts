import { expect, test } from 'vitest';
import { readRecipients } from './stored-broadcast.ts';

test('recipients that name a user keep their positions and nothing but their details', () => {
  const read = readRecipients({ projectId: 'p' }, [
    { external_id: '1', email: null },
    { topic: { subscribers: true } },
    { external_id: '2', first_name: null, phone_numbers: ['+15005550001'] },
    { email: 'ada@example.com', custom_attributes: { plan: 'pro' } },
  ]);
  expect(read.positions).toEqual([0, 2, 3]);
  expect(read.people).toEqual([
    { projectId: 'p', externalId: '1' },
    { projectId: 'p', externalId: '2', firstName: null, phoneNumbers: ['+15005550001'] },
    { projectId: 'p', email: 'ada@example.com', customAttributes: '{"plan":"pro"}' },
  ]);
});

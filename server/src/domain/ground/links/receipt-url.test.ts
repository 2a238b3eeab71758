import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { newId } from '../../../lib/ids.ts';
import { readReceiptToken, receiptUrl } from './receipt-url.ts';
import { referenceOf } from './reference.ts';

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

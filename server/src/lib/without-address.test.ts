import { expect, test } from 'vitest';
import { withoutAddress } from './without-address.ts';

test.each([
  ['550 5.1.1 <ADA@Example.com>: no such user', 'ada@example.com', '550 5.1.1 <[address]>: no such user'],
  ['ada@example.com, ada@example.com', 'ada@example.com', '[address], [address]'],
  ['ada@exampleXcom', 'ada@example.com', 'ada@exampleXcom'],
  ['to a.+*{}/[x]^$|-b@example.com', 'a.+*{}/[x]^$|-b@example.com', 'to [address]'],
  ['nothing of the kind', 'ada@example.com', 'nothing of the kind'],
  ['user unknown', null, 'user unknown'],
  ['user unknown', undefined, 'user unknown'],
])('%j about %j is kept as %j', (said, email, kept) => {
  expect(withoutAddress(said, email)).toBe(kept);
});

test.each([
  ["The 'To' number +15005550001 is not valid", "The 'To' number [address] is not valid"],
  ['To=%2B15005550001&From=1', 'To=[address]&From=1'],
  ['15005550001 has opted out', '[address] has opted out'],
  ['+1 (500) 555-0001 has opted out', '[address] has opted out'],
  ['+150055500012 is another', '+150055500012 is another'],
  ['915005550001 is another', '915005550001 is another'],
])('%j about a phone number is kept as %j', (said, kept) => {
  expect(withoutAddress(said, '+1 500-555 0001')).toBe(kept);
});

test('none of several addresses is kept, nor the end of a longer one', () => {
  const known = ['b@example.com', 'a-b@example.com', 'ExponentPushToken[x.y]', ' '];
  expect(withoutAddress('a-b@example.com, b@example.com: ExponentPushToken[x.y] (b)', known)).toBe(
    '[address], [address]: [address] (b)',
  );
});

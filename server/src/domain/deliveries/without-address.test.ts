import { expect, test } from 'vitest';
import { withoutAddress } from './without-address.ts';

test.each([
  ['550 5.1.1 <ADA@Example.com>: no such user', 'ada@example.com', '550 5.1.1 <[address]>: no such user'],
  ['ada@example.com, ada@example.com', 'ada@example.com', '[address], [address]'],
  ['ada@exampleXcom', 'ada@example.com', 'ada@exampleXcom'],
  ['to a.+*{}/[x]^$|-b@example.com', 'a.+*{}/[x]^$|-b@example.com', 'to [address]'],
  ['nothing of the kind', 'ada@example.com', 'nothing of the kind'],
  ['nobody', null, 'nobody'],
  ['nobody', undefined, 'nobody'],
])('%j about %j is kept as %j', (said, email, kept) => {
  expect(withoutAddress(said, email)).toBe(kept);
});

import { expect, test } from 'vitest';
import { rateOf } from './max-per-second.ts';

test.each([
  [1, [{ limit: 1, windowMs: 1000 }]],
  [
    14,
    [
      { limit: 1, windowMs: 71 },
      { limit: 14, windowMs: 1000 },
    ],
  ],
  [0.5, [{ limit: 1, windowMs: 2000 }]],
  [
    2.5,
    [
      { limit: 1, windowMs: 400 },
      { limit: 2, windowMs: 800 },
    ],
  ],
  [
    2_500,
    [
      { limit: 25, windowMs: 10 },
      { limit: 1000, windowMs: 400 },
    ],
  ],
  [1_000_000, [{ limit: 1000, windowMs: 1 }]],
])('%d per second', (max_per_second, rates) => {
  expect(rateOf({ max_per_second })).toEqual(rates);
});

test('without the setting there is no limit', () => {
  expect(rateOf({})).toEqual([]);
});

import { expect, test } from 'vitest';
import { rateOf } from './max-per-second.ts';

test.each([
  [1, { limit: 1, windowMs: 1000 }],
  [14, { limit: 14, windowMs: 1000 }],
  [0.5, { limit: 1, windowMs: 2000 }],
  [2.5, { limit: 2, windowMs: 800 }],
  [10_000, { limit: 1000, windowMs: 100 }],
])('%d a second', (max_per_second, rate) => {
  expect(rateOf({ max_per_second })).toEqual([rate]);
});

test('no wish is no limit', () => {
  expect(rateOf({})).toEqual([]);
});

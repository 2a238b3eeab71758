import { expect, test } from 'vitest';
import { chunksOf } from './chunks.ts';

test('chunks keep all items in their order, and only the last has fewer', () => {
  expect(chunksOf([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
  expect(chunksOf([1, 2, 3, 4], 2)).toEqual([
    [1, 2],
    [3, 4],
  ]);
  expect(chunksOf([1], 2)).toEqual([[1]]);
  expect(chunksOf([], 2)).toEqual([]);
});

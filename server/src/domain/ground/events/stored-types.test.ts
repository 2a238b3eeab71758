import { expect, test } from 'vitest';
import { CREATED_AND_SENT, countOf, numbersOf } from './stored-types.ts';

test('the events of the second type are numbered after those of the first', () => {
  const row = { type: CREATED_AND_SENT, size: 3 };
  expect(countOf(row)).toBe(6);
  expect(numbersOf(row, undefined)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(numbersOf(row, ['notification.created'])).toEqual([0, 1, 2]);
  expect(numbersOf(row, ['user.created', 'delivery.sent'])).toEqual([3, 4, 5]);
  expect(numbersOf(row, ['delivery.failed'])).toEqual([]);
});

test('a row of one type has its events only', () => {
  const row = { type: 'delivery.sent', size: 2 };
  expect(countOf(row)).toBe(2);
  expect(numbersOf(row, ['delivery.sent'])).toEqual([0, 1]);
  expect(numbersOf(row, ['notification.created'])).toEqual([]);
});

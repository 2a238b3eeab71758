import { expect, test } from 'vitest';
import { CREATED_AND_SENT, countOf, numbersOf } from './stored-types.ts';

test('the events of the second type are numbered after those of the first', () => {
  const row = { type: CREATED_AND_SENT, size: 3 };
  expect(countOf(row)).toBe(6);
  expect(numbersOf(row, undefined)).toEqual({ from: 0, to: 6 });
  expect(numbersOf(row, ['notification.created'])).toEqual({ from: 0, to: 3 });
  expect(numbersOf(row, ['user.created', 'delivery.sent'])).toEqual({ from: 3, to: 6 });
  expect(numbersOf(row, ['delivery.failed'])).toEqual({ from: 0, to: 0 });
});

test('a row of one type has its events only', () => {
  const row = { type: 'delivery.sent', size: 2 };
  expect(countOf(row)).toBe(2);
  expect(numbersOf(row, ['delivery.sent'])).toEqual({ from: 0, to: 2 });
  expect(numbersOf(row, ['notification.created'])).toEqual({ from: 0, to: 0 });
});

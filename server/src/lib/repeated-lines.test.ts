import { expect, test } from 'vitest';
import { RepeatedLines } from './repeated-lines.ts';

test('a line is written once a minute, with how often it was left out', () => {
  const lines = new RepeatedLines();
  expect(lines.note('a', 0)).toBe(0);
  expect(lines.note('a', 1_000)).toBeUndefined();
  expect(lines.note('b', 2_000)).toBe(0);
  expect(lines.note('a', 59_999)).toBeUndefined();
  expect(lines.note('a', 60_000)).toBe(2);
  expect(lines.note('a', 60_001)).toBeUndefined();
  expect(lines.note('a', 200_000)).toBe(1);
});

test('very many lines are not all kept', () => {
  const lines = new RepeatedLines();
  for (let line = 0; line <= 500; line += 1) expect(lines.note(`line ${line}`, line)).toBe(0);
  expect(lines.note('line 500', 1_000)).toBeUndefined();
  expect(lines.note('line 0', 1_000)).toBe(0);
});

import { expect, test } from 'vitest';
import { readJson, writeJson } from './exact-numbers.ts';
import { shortenJson } from './shorten-json.ts';

test('an object that fits stays as it is', () => {
  const commits = { commits: Array.from({ length: 3_000 }, (_, id) => id) };
  expect(shortenJson(commits, 64 * 1024)).toBe(commits);
});

test('lists are cut, and the rest stays', () => {
  const commits = Array.from({ length: 3_000 }, (_, id) => ({ id, message: 'Fix a typo' }));
  const shortened = shortenJson({ ref: 'main', commits, head: commits[7] }, 64 * 1024);
  expect(shortened).toEqual({ ref: 'main', commits: commits.slice(0, 1_000), head: commits[7] });
});

test('texts are cut to whole characters', () => {
  const shortened = shortenJson({ a: `${'x'.repeat(4_094)}😀`.repeat(9), b: 1 }, 10_000);
  expect(shortened).toEqual({ a: `${'x'.repeat(4_094)}\ufffd…`, b: 1 });
});

test('numbers are kept as they were written', () => {
  const read = readJson(`{"ids":[${'9007199254740993,'.repeat(2_000)}1],"id":9007199254740995}`) as object;
  const shortened = shortenJson(read, 20_000);
  expect(writeJson(shortened)).toBe(
    `{"ids":[${Array.from({ length: 1_000 }, () => '9007199254740993').join()}],"id":9007199254740995}`,
  );
});

test('an object of too many members cannot be shortened', () => {
  const members = Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n]);
  expect(shortenJson(Object.fromEntries(members), 64 * 1024)).toBeUndefined();
});

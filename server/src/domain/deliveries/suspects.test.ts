import { expect, test } from 'vitest';
import type { GoneToken } from './gone-token.ts';
import { keepAside, type Suspects, takeConvicted } from './suspects.ts';

const token = (n: number, reason = 'gone'): GoneToken => ({
  projectId: 'p',
  userId: 'u',
  tokenId: `t${n}`,
  channel: 'mobile_push/apns',
  scope: 'token',
  reason,
});
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

test('nine are kept until a success shows that they are gone', () => {
  const suspects: Suspects = new Map();
  expect(numbers(9).map((n) => keepAside(suspects, token(n)))).not.toContain(true);
  expect(takeConvicted(suspects).map(({ tokenId }) => tokenId)).toEqual(numbers(9).map((n) => `t${n}`));
  expect(takeConvicted(suspects)).toEqual([]);
});

test('ten different ones in a row accuse the config, and none of them is discarded', () => {
  const suspects: Suspects = new Map();
  expect(numbers(10).map((n) => keepAside(suspects, token(n)))).toEqual([
    ...numbers(9).map(() => false),
    true,
  ]);
  expect(takeConvicted(suspects)).toEqual([]);
});

test('a success between begins the row anew', () => {
  const suspects: Suspects = new Map();
  for (const n of numbers(9)) keepAside(suspects, token(n));
  takeConvicted(suspects);
  expect(keepAside(suspects, token(9))).toBe(false);
});

test('one token counts once, by what was last said of it', () => {
  const suspects: Suspects = new Map();
  for (const n of numbers(30)) expect(keepAside(suspects, token(1, `said ${n}`))).toBe(false);
  expect(takeConvicted(suspects)).toEqual([token(1, 'said 29')]);
});

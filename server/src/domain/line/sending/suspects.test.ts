import { expect, test } from 'vitest';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import { keepAside, noSuspects, suspect, takeConvicted } from './suspects.ts';

const token = (n: number, reason = 'gone'): GoneToken => ({
  projectId: 'p',
  userId: 'u',
  tokenId: `t${n}`,
  channel: 'mobile_push/apns',
  scope: 'token',
  reason,
});
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

test('tokens are kept until a success shows that they are gone', () => {
  const suspects = noSuspects();
  for (const n of numbers(9)) keepAside(suspects, token(n));
  expect(takeConvicted(suspects).map(({ tokenId }) => tokenId)).toEqual(numbers(9).map((n) => `t${n}`));
  expect(takeConvicted(suspects)).toEqual([]);
});

test('ten users in a row accuse the config, and none of their tokens is discarded', () => {
  const suspects = noSuspects();
  for (const n of numbers(9)) {
    expect(suspect(suspects, `u${n}`)).toBe('noted');
    keepAside(suspects, token(n));
  }
  expect(suspect(suspects, 'u9')).toBe('accused');
  expect(takeConvicted(suspects)).toEqual([]);
});

test('one user never accuses the config, however often', () => {
  const suspects = noSuspects();
  expect(suspect(suspects, 'u')).toBe('noted');
  for (const _ of numbers(100)) expect(suspect(suspects, 'u')).toBe('repeated');
});

test('a success in between begins the row again', () => {
  const suspects = noSuspects();
  for (const n of numbers(9)) suspect(suspects, `u${n}`);
  takeConvicted(suspects);
  expect(suspect(suspects, 'u9')).toBe('noted');
});

test('one token is kept once, with what was last reported of it, and no more than some hundreds', () => {
  const suspects = noSuspects();
  for (const n of numbers(30)) keepAside(suspects, token(1, `said ${n}`));
  expect(takeConvicted(suspects)).toEqual([token(1, 'said 29')]);
  for (const n of numbers(1_000)) keepAside(suspects, token(n));
  expect(takeConvicted(suspects)).toHaveLength(200);
});

import { expect, test } from 'vitest';
import type { GoneToken } from '../../people/tokens/gone-token.ts';
import { addFailure, endSuspicion, keepToken, newSuspicion } from './suspicion.ts';

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
  const suspicion = newSuspicion();
  for (const n of numbers(9)) keepToken(suspicion, token(n));
  expect(endSuspicion(suspicion).map(({ tokenId }) => tokenId)).toEqual(numbers(9).map((n) => `t${n}`));
  expect(endSuspicion(suspicion)).toEqual([]);
});

test('ten users in a row show that the config is at fault, and none of their tokens is discarded', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(9)) {
    expect(addFailure(suspicion, `u${n}`)).toBe('counted');
    keepToken(suspicion, token(n));
  }
  expect(addFailure(suspicion, 'u9')).toBe('config_at_fault');
  expect(endSuspicion(suspicion)).toEqual([]);
});

test('the failures of one user never show that the config is at fault', () => {
  const suspicion = newSuspicion();
  expect(addFailure(suspicion, 'u')).toBe('counted');
  for (const _ of numbers(100)) expect(addFailure(suspicion, 'u')).toBe('repeated');
});

test('a success in between resets the count', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(9)) addFailure(suspicion, `u${n}`);
  endSuspicion(suspicion);
  expect(addFailure(suspicion, 'u9')).toBe('counted');
});

test('one token is kept once, with its last report, and only some hundreds are kept', () => {
  const suspicion = newSuspicion();
  for (const n of numbers(30)) keepToken(suspicion, token(1, `said ${n}`));
  expect(endSuspicion(suspicion)).toEqual([token(1, 'said 29')]);
  for (const n of numbers(1_000)) keepToken(suspicion, token(n));
  expect(endSuspicion(suspicion)).toHaveLength(200);
});

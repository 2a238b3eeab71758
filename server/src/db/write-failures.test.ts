import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WriteFailures } from './write-failures.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const failure = (code: string) => Object.assign(new Error('x'), { code });

test('a full disk is remembered for a moment, and other errors are not', () => {
  const failures = new WriteFailures();
  failures.note(failure('23505'));
  failures.note(new Error('no code'));
  expect(failures.recent()).toBeUndefined();
  failures.note(failure('53100'));
  expect(failures.recent()).toBe('its disk is full');
  failures.note(failure('40001'));
  vi.advanceTimersByTime(4_000);
  expect(failures.recent()).toBe('its disk is full');
  vi.advanceTimersByTime(2_000);
  expect(failures.recent()).toBeUndefined();
});

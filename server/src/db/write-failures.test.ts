import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WriteFailures, whyNotWritten } from './write-failures.ts';

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

test('connections that are lost after a full disk are lost because of it, however long', () => {
  const failures = new WriteFailures();
  const lost = () => failure('ECONNREFUSED');
  const first = lost();
  failures.noteLost(first);
  expect([failures.recent(), whyNotWritten(first)]).toEqual([undefined, undefined]);
  failures.note(failure('53100'));
  for (let times = 0; times < 3; times += 1) {
    vi.advanceTimersByTime(4_000);
    const error = times === 0 ? new Error('Connection terminated unexpectedly') : lost();
    failures.noteLost(error);
    expect([failures.recent(), whyNotWritten(error)]).toEqual(['its disk is full', 'its disk is full']);
  }
  vi.advanceTimersByTime(6_000);
  expect(failures.recent()).toBeUndefined();
  // A replica that stops is no longer read-only.
  failures.note(failure('25006'));
  const later = lost();
  failures.noteLost(later);
  expect(whyNotWritten(later)).toBeUndefined();
});

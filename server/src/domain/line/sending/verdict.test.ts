import { describe, expect, test } from 'vitest';
import type { SendOutcome } from '../../../providers/provider.ts';
import type { Verdict } from './breaker.ts';
import { verdictOf } from './verdict.ts';

const later = (code?: string, more: { ambiguous?: boolean; retryAfterMs?: number } = {}): SendOutcome => ({
  kind: 'retry',
  reason: 'r',
  ambiguous: false,
  ...(code === undefined ? {} : { code }),
  ...more,
});
const refused = (scope: 'message' | 'address' | 'config'): SendOutcome => ({
  kind: 'rejected',
  scope,
  reason: 'r',
});
const gone: SendOutcome = { kind: 'token_gone', scope: 'token', reason: 'r' };

test.each<[string, SendOutcome, Verdict]>([
  ['sent', { kind: 'sent' }, 'works'],
  ['the config refused', refused('config'), 'refuses'],
  ['the message refused', refused('message'), 'unclear'],
  ['the address refused', refused('address'), 'unclear'],
  ['the token gone', gone, 'unclear'],
  ['the token gone, or the config wrong', { ...gone, suspect: 'config' }, 'unclear'],
])('%s', (_, outcome, verdict) => {
  expect(verdictOf(outcome, { overridden: false })).toBe(verdict);
});

test('a refusal of the config is the message’s own where it has an override', () => {
  expect(verdictOf(refused('config'), { overridden: true })).toBe('unclear');
});

describe('a failure to answer', () => {
  test.each([
    ['ETIMEDOUT', { ambiguous: true }],
    ['ECONNREFUSED', {}],
    ['ENOTFOUND', {}],
    ['500', {}],
    ['502', { ambiguous: true }],
    ['503', {}],
    ['InternalServerError', {}],
    ['UNAVAILABLE', {}],
    [undefined, {}],
  ])('%s', (code, more) => {
    expect(verdictOf(later(code, more), { overridden: false })).toBe('silent');
  });
});

describe('an answer that says "later"', () => {
  test.each([
    ['429', {}],
    ['408', {}],
    ['450 4.2.0', {}],
    ['421', {}],
    ['503', { retryAfterMs: 1000 }],
    ['20429', {}],
    ['TooManyRequests', {}],
    ['TOO_MANY_REQUESTS', {}],
    ['QUOTA_EXCEEDED', {}],
    ['RESOURCE_EXHAUSTED', {}],
    ['ThrottlingException', {}],
    ['ratelimited', {}],
    ['token_expired', {}],
    ['LimitExceededException', {}],
  ])('%s', (code, more) => {
    expect(verdictOf(later(code, more), { overridden: false })).toBe('unclear');
  });
});

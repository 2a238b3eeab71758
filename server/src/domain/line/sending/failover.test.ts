import { describe, expect, test } from 'vitest';
import type { SendOutcome } from '../../../providers/provider.ts';
import { asksNext, type Tried, whatCounts } from './failover.ts';

const done = (outcome: SendOutcome): Tried => ({ kind: 'done', outcome });
const refused = (scope: 'message' | 'address' | 'config'): Tried =>
  done({ kind: 'rejected', scope, reason: scope });
const passing = done({ kind: 'retry', reason: 'busy', ambiguous: false });
const ambiguous = done({ kind: 'retry', reason: 'cut', ambiguous: true });
const sent = done({ kind: 'sent' });
const gone = done({ kind: 'token_gone', scope: 'token', reason: 'gone' });
const paused = (untilMs: number): Tried => ({ kind: 'held', untilMs, waitsFor: 'integration' });
const limited: Tried = { kind: 'held', untilMs: 5, waitsFor: 'rate' };

describe('the next integration is asked', () => {
  test.each([
    ['when the config is refused', refused('config'), true],
    ['when it failed before anything was sent', passing, true],
    ['when it is paused', paused(1), true],
    ['not when it was sent', sent, false],
    ['not when it may have been sent', ambiguous, false],
    ['not when the message is refused', refused('message'), false],
    ['not when the address is refused', refused('address'), false],
    ['not when the token is gone', gone, false],
    ['not when it only has to wait its turn', limited, false],
  ])('%s', (_, tried, expected) => {
    expect(asksNext(tried)).toBe(expected);
  });
});

describe('where the last attempt may have arrived, the next integration is asked', () => {
  test.each([
    ['when the config is refused', refused('config'), true],
    ['not when it failed before anything was sent', passing, false],
    ['not when it is paused', paused(1), false],
    ['not when it has to wait its turn', limited, false],
    ['not when it may have been sent', ambiguous, false],
  ])('%s', (_, tried, expected) => {
    expect(asksNext(tried, true)).toBe(expected);
  });
});

describe('what counts of several', () => {
  test.each<[string, Tried[], number]>([
    ['the one that took it', [passing, refused('config'), sent], 2],
    ['the one that may have taken it', [passing, ambiguous], 1],
    ['the one that refused the address', [paused(1), refused('address')], 1],
    ['else the first failure that may pass', [refused('config'), passing, passing, paused(1)], 1],
    ['an attempt rather than a turn to wait for', [passing, limited], 0],
    ['else the one that may work first', [paused(9), paused(3), refused('config')], 1],
    ['a turn to wait for rather than a refusal', [refused('config'), limited], 1],
    ['else the first refusal', [refused('config'), refused('config')], 0],
  ])('%s', (_, all, index) => {
    expect(whatCounts(all)).toBe(all[index]);
  });
});

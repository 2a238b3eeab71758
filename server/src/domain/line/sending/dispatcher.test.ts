import { describe, expect, test } from 'vitest';
import type { SendOutcome } from '../../../providers/provider.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import { type AttemptResult, decisiveResult, mayFailOver } from './dispatcher.ts';

const integration = {} as OpenedIntegration;

const done = (outcome: SendOutcome): AttemptResult => ({ kind: 'done', outcome, integration });
const refused = (scope: 'message' | 'address' | 'config'): AttemptResult =>
  done({ kind: 'rejected', scope, reason: scope });
const passing = done({ kind: 'retry', reason: 'busy', ambiguous: false });
const ambiguous = done({ kind: 'retry', reason: 'cut', ambiguous: true });
const sent = done({ kind: 'sent' });
const gone = done({ kind: 'token_gone', scope: 'token', reason: 'gone' });
const paused = (untilMs: number): AttemptResult => ({
  kind: 'deferred',
  untilMs,
  reason: 'paused',
  waitsFor: 'integration',
});
const limited: AttemptResult = { kind: 'deferred', untilMs: 5, reason: 'rate', waitsFor: 'rate' };

describe('the next integration is tried', () => {
  test.each([
    ['when the config is rejected', refused('config'), true],
    ['when it failed before anything was sent', passing, true],
    ['when it is paused', paused(1), true],
    ['not when it was sent', sent, false],
    ['not when it may have been sent', ambiguous, false],
    ['not when the message is rejected', refused('message'), false],
    ['not when the address is rejected', refused('address'), false],
    ['not when the token is gone', gone, false],
    ['not when it only waits for a permit', limited, false],
  ])('%s', (_, tried, expected) => {
    expect(mayFailOver(tried)).toBe(expected);
  });
});

describe('after an ambiguous attempt, the next integration is tried', () => {
  test.each([
    ['when the config is rejected', refused('config'), true],
    ['not when it failed before anything was sent', passing, false],
    ['not when it is paused', paused(1), false],
    ['not when it waits for a permit', limited, false],
    ['not when it may have been sent', ambiguous, false],
  ])('%s', (_, tried, expected) => {
    expect(mayFailOver(tried, true)).toBe(expected);
  });
});

describe('the decisive result', () => {
  test.each<[string, AttemptResult[], number]>([
    ['the one that accepted it', [passing, refused('config'), sent], 2],
    ['the one that may have accepted it', [passing, ambiguous], 1],
    ['the one that rejected the address', [paused(1), refused('address')], 1],
    ['else the first failure that may pass', [refused('config'), passing, passing, paused(1)], 1],
    ['an attempt rather than a permit to wait for', [passing, limited], 0],
    ['else the one that may work first', [paused(9), paused(3), refused('config')], 1],
    ['a permit to wait for rather than a rejection', [refused('config'), limited], 1],
    ['else the first rejection', [refused('config'), refused('config')], 0],
  ])('%s', (_, all, index) => {
    expect(decisiveResult(all)).toBe(all[index]);
  });
});

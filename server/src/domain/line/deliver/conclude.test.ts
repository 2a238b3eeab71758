import { describe, expect, test } from 'vitest';
import { type BeforeAttempt, concludeTargets, reachedBy, type TargetsConcluded } from './conclude.ts';
import type { TargetResult } from './delivery.ts';

const beforeAttempt = (changes: Partial<BeforeAttempt> = {}): BeforeAttempt => ({
  attempt: 0,
  progress: undefined,
  later: {},
  lost: 0,
  nowMs: 1_000_000,
  expiresAtMs: 2_000_000,
  ...changes,
});
const accepted = (targetId: string): TargetResult => ({
  targetId,
  kind: 'accepted',
  providerId: `id of ${targetId}`,
});
const gone = (targetId: string): TargetResult => ({
  targetId,
  kind: 'gone',
  code: 'Unregistered',
  reason: 'no such',
});
const failed = (targetId: string): TargetResult => ({ targetId, kind: 'failed', code: '400', reason: 'bad' });
const retry = (targetId: string, delayMs = 1_000): TargetResult => ({
  targetId,
  kind: 'retry',
  delayMs,
  code: '503',
  reason: 'later',
});
const deferred = (targetId: string, untilMs = 1_005_000): TargetResult => ({
  targetId,
  kind: 'deferred',
  untilMs,
  reason: 'paused',
});
const figures = (numbers: readonly [number, number, number]) => {
  const [a, g, f] = numbers;
  return { accepted: a, gone: g, failed: f };
};
/** The same results with the ids of the accepted messages. */
const of = (numbers: Parameters<typeof figures>[0], ...targets: string[]) => ({
  ...figures(numbers),
  provider_ids: targets.map((target) => `id of ${target}`),
});

/** State, attempts, figures if there are several targets, and the remaining targets. */
const short = ({ outcome, remaining }: TargetsConcluded) => [
  outcome?.state,
  outcome?.attempts,
  outcome?.targets,
  remaining && Object.keys(remaining.left),
];

describe('a delivery to one target', () => {
  test.each<[TargetResult, unknown[]]>([
    [accepted('a'), ['sent', 1, undefined, undefined]],
    [gone('a'), ['failed', 1, undefined, undefined]],
    [failed('a'), ['failed', 1, undefined, undefined]],
    [retry('a'), ['retrying', 1, undefined, ['a']]],
    [deferred('a'), [undefined, undefined, undefined, ['a']]],
  ])('%j', (result, expected) => {
    expect(short(concludeTargets(beforeAttempt(), [result]))).toEqual(expected);
  });

  test('a deferral does not count as an attempt, and keeps its time', () => {
    const { outcome, remaining } = concludeTargets(beforeAttempt({ attempt: 3 }), [deferred('a', 1_234_567)]);
    expect(outcome).toBeUndefined();
    expect(remaining).toEqual({ ...figures([0, 0, 0]), attempt: 3, left: { a: { atMs: 1_234_567 } } });
  });

  test.each([retry('a', 1_000_001), deferred('a', 2_000_001)])(
    'expires if its retry is due after its time to live: %j',
    (result) => {
      const { outcome, remaining } = concludeTargets(beforeAttempt(), [result]);
      expect(outcome).toMatchObject({ state: 'failed', targets: undefined });
      expect(outcome?.reason).toMatch(
        /^expired: not delivered within the time to live of the channel: (later|paused)$/,
      );
      // The last code of the provider. Without an attempt, the code of an expired delivery.
      expect(outcome?.code).toBe('code' in result ? result.code : 'expired');
      expect(remaining).toBeUndefined();
    },
  );

  test.each([retry('a', 1_000_000), deferred('a', 2_000_000)])(
    'is retried to the last moment: %j',
    (result) => {
      expect(concludeTargets(beforeAttempt(), [result]).remaining?.left).toHaveProperty('a');
    },
  );
});

describe('a delivery to several targets', () => {
  test.each<[string, TargetResult[], unknown[]]>([
    [
      'is sent when any of them accepted it',
      [gone('a'), accepted('b')],
      ['sent', 1, of([1, 1, 0], 'b'), undefined],
    ],
    ['has failed when none accepted it', [gone('a'), failed('b')], ['failed', 1, of([0, 1, 1]), undefined]],
    [
      'is sent when one accepted it and another is to be retried',
      [accepted('a'), retry('b')],
      ['sent', 1, of([1, 0, 0], 'a'), ['b']],
    ],
    [
      'is sent when one accepted it and the others are deferred',
      [accepted('a'), deferred('b')],
      ['sent', 1, of([1, 0, 0], 'a'), ['b']],
    ],
  ])('%s', (_name, results, expected) => {
    expect(short(concludeTargets(beforeAttempt(), results))).toEqual(expected);
  });

  test('adds up the results of earlier attempts', () => {
    const progress = { left: { c: 0 }, ...of([1, 1, 1], 'a') };
    expect(short(concludeTargets(beforeAttempt({ attempt: 1, progress }), [failed('c')]))).toEqual([
      'sent',
      2,
      of([1, 1, 2], 'a'),
      undefined,
    ]);
  });

  test('waits for targets that are deferred, each for its own time', () => {
    const progress = { left: { b: 0, c: 1_500_000 }, ...figures([0, 1, 0]) };
    const { remaining } = concludeTargets(beforeAttempt({ attempt: 1, progress, later: { c: 1_500_000 } }), [
      retry('b', 7),
    ]);
    expect(remaining).toEqual({
      ...figures([0, 1, 0]),
      attempt: 2,
      left: { b: { delayMs: 7 }, c: { atMs: 1_500_000 } },
    });
  });

  test("has the providers' ids of the messages, in the order in which they were accepted", () => {
    const first = concludeTargets(beforeAttempt(), [deferred('a'), accepted('b'), accepted('c')]);
    expect(first).toMatchObject({
      remaining: { ...of([2, 0, 0], 'b', 'c'), attempt: 1, left: { a: { atMs: 1_005_000 } } },
    });
    const progress = { left: { a: 1_005_000 }, ...of([2, 0, 0], 'b', 'c') };
    expect(concludeTargets(beforeAttempt({ attempt: 1, progress }), [accepted('a')]).outcome).toMatchObject({
      providerId: 'id of b',
      targets: of([3, 0, 0], 'b', 'c', 'a'),
    });
    expect(concludeTargets(beforeAttempt({ attempt: 1, progress }), [gone('a')]).outcome).toMatchObject({
      providerId: 'id of b',
      targets: of([2, 1, 0], 'b', 'c'),
    });
    expect(reachedBy(progress)).toEqual({ providerId: 'id of b', targets: of([2, 0, 0], 'b', 'c') });
    expect(
      concludeTargets(beforeAttempt(), [{ targetId: 'a', kind: 'accepted' }, accepted('b')]).outcome,
    ).toMatchObject({
      providerId: 'id of b',
      targets: of([2, 0, 0], 'b'),
    });
    const none = concludeTargets(beforeAttempt(), [{ targetId: 'a', kind: 'accepted' }, retry('b')]);
    expect(none.outcome).toMatchObject({ providerId: undefined, targets: of([1, 0, 0]) });
    expect(none.remaining).not.toHaveProperty('provider_ids');
  });

  test('counts targets that were discarded meanwhile as gone, and reports that of the last ones', () => {
    const one = { left: { b: 0 }, ...figures([0, 0, 0]) };
    expect(concludeTargets(beforeAttempt({ attempt: 1, progress: one, lost: 1 }), []).outcome).toMatchObject({
      state: 'failed',
      attempts: 1,
      code: 'token_discarded',
      targets: undefined,
    });
    const two = { ...one, accepted: 1, provider_ids: ['id of a'] };
    expect(concludeTargets(beforeAttempt({ attempt: 1, progress: two, lost: 1 }), []).outcome).toMatchObject({
      state: 'sent',
      code: undefined,
      providerId: 'id of a',
      targets: of([1, 1, 0], 'a'),
    });
  });

  test.each([
    [[gone('a'), failed('b')], 'bad'],
    [[gone('a'), gone('b')], 'no such'],
    [[gone('a'), failed('b'), retry('c')], 'later'],
    [[accepted('a'), failed('b')], undefined],
  ])('has the reason that explains its state: %j', (results, reason) => {
    expect(concludeTargets(beforeAttempt(), results).outcome?.reason).toBe(reason);
  });
});

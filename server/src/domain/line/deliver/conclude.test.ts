import { describe, expect, test } from 'vitest';
import { type Begun, type Conclusion, cameTo, conclude, type Result } from './conclude.ts';

const begun = (changes: Partial<Begun> = {}): Begun => ({
  attempt: 0,
  progress: undefined,
  later: {},
  lost: 0,
  nowMs: 1_000_000,
  expiresAtMs: 2_000_000,
  ...changes,
});
const accepted = (targetId: string): Result => ({
  targetId,
  kind: 'accepted',
  providerId: `id of ${targetId}`,
});
const gone = (targetId: string): Result => ({
  targetId,
  kind: 'gone',
  code: 'Unregistered',
  reason: 'no such',
});
const failed = (targetId: string): Result => ({ targetId, kind: 'failed', code: '400', reason: 'bad' });
const retry = (targetId: string, delayMs = 1_000): Result => ({
  targetId,
  kind: 'retry',
  delayMs,
  code: '503',
  reason: 'later',
});
const held = (targetId: string, untilMs = 1_005_000): Result => ({
  targetId,
  kind: 'held',
  untilMs,
  reason: 'paused',
});
const figures = (numbers: readonly [number, number, number]) => {
  const [a, g, f] = numbers;
  return { accepted: a, gone: g, failed: f };
};
/** The same with the ids of these, which were accepted. */
const of = (numbers: Parameters<typeof figures>[0], ...targets: string[]) => ({
  ...figures(numbers),
  provider_ids: targets.map((target) => `id of ${target}`),
});

/** State, attempts, figures where there are several targets, and what is left. */
const short = ({ outcome, again }: Conclusion) => [
  outcome?.state,
  outcome?.attempts,
  outcome?.targets,
  again && Object.keys(again.left),
];

describe('a delivery to one target', () => {
  test.each<[Result, unknown[]]>([
    [accepted('a'), ['sent', 1, undefined, undefined]],
    [gone('a'), ['failed', 1, undefined, undefined]],
    [failed('a'), ['failed', 1, undefined, undefined]],
    [retry('a'), ['retrying', 1, undefined, ['a']]],
    [held('a'), [undefined, undefined, undefined, ['a']]],
  ])('%j', (result, expected) => {
    expect(short(conclude(begun(), [result]))).toEqual(expected);
  });

  test('that is held is no attempt, and comes back when it was told to', () => {
    const { outcome, again } = conclude(begun({ attempt: 3 }), [held('a', 1_234_567)]);
    expect(outcome).toBeUndefined();
    expect(again).toEqual({ ...figures([0, 0, 0]), attempt: 3, left: { a: { atMs: 1_234_567 } } });
  });

  test.each([retry('a', 1_000_001), held('a', 2_000_001)])(
    'that would be tried after its time has failed: %j',
    (result) => {
      const { outcome, again } = conclude(begun(), [result]);
      expect(outcome).toMatchObject({ state: 'failed', targets: undefined });
      expect(outcome?.reason).toMatch(/^gave up when it was no news any more: (later|paused)$/);
      // What the provider called it last; where it was not asked, as those are called that come back too
      // late.
      expect(outcome?.code).toBe('code' in result ? result.code : 'expired');
      expect(again).toBeUndefined();
    },
  );

  test.each([retry('a', 1_000_000), held('a', 2_000_000)])('is tried to the last moment: %j', (result) => {
    expect(conclude(begun(), [result]).again?.left).toHaveProperty('a');
  });
});

describe('a delivery to several targets', () => {
  test.each<[string, Result[], unknown[]]>([
    [
      'was sent when any has taken it',
      [gone('a'), accepted('b')],
      ['sent', 1, of([1, 1, 0], 'b'), undefined],
    ],
    ['has failed when none has', [gone('a'), failed('b')], ['failed', 1, of([0, 1, 1]), undefined]],
    [
      'was sent when one has taken it and another is to be tried again',
      [accepted('a'), retry('b')],
      ['sent', 1, of([1, 0, 0], 'a'), ['b']],
    ],
    [
      'was sent when one has taken it and the others are held',
      [accepted('a'), held('b')],
      ['sent', 1, of([1, 0, 0], 'a'), ['b']],
    ],
  ])('%s', (_name, results, expected) => {
    expect(short(conclude(begun(), results))).toEqual(expected);
  });

  test('adds up what became of them before', () => {
    const progress = { left: { c: 0 }, ...of([1, 1, 1], 'a') };
    expect(short(conclude(begun({ attempt: 1, progress }), [failed('c')]))).toEqual([
      'sent',
      2,
      of([1, 1, 2], 'a'),
      undefined,
    ]);
  });

  test('waits for those whose time has not come, each for its own', () => {
    const progress = { left: { b: 0, c: 1_500_000 }, ...figures([0, 1, 0]) };
    const { again } = conclude(begun({ attempt: 1, progress, later: { c: 1_500_000 } }), [retry('b', 7)]);
    expect(again).toEqual({
      ...figures([0, 1, 0]),
      attempt: 2,
      left: { b: { delayMs: 7 }, c: { atMs: 1_500_000 } },
    });
  });

  test('names what providers call the messages, in the order in which they were accepted', () => {
    const first = conclude(begun(), [held('a'), accepted('b'), accepted('c')]);
    expect(first).toMatchObject({
      again: { ...of([2, 0, 0], 'b', 'c'), attempt: 1, left: { a: { atMs: 1_005_000 } } },
    });
    const progress = { left: { a: 1_005_000 }, ...of([2, 0, 0], 'b', 'c') };
    expect(conclude(begun({ attempt: 1, progress }), [accepted('a')]).outcome).toMatchObject({
      providerId: 'id of b',
      targets: of([3, 0, 0], 'b', 'c', 'a'),
    });
    expect(conclude(begun({ attempt: 1, progress }), [gone('a')]).outcome).toMatchObject({
      providerId: 'id of b',
      targets: of([2, 1, 0], 'b', 'c'),
    });
    expect(cameTo(progress)).toEqual({ providerId: 'id of b', targets: of([2, 0, 0], 'b', 'c') });
    expect(conclude(begun(), [{ targetId: 'a', kind: 'accepted' }, accepted('b')]).outcome).toMatchObject({
      providerId: 'id of b',
      targets: of([2, 0, 0], 'b'),
    });
    const none = conclude(begun(), [{ targetId: 'a', kind: 'accepted' }, retry('b')]);
    expect(none.outcome).toMatchObject({ providerId: undefined, targets: of([1, 0, 0]) });
    expect(none.again).not.toHaveProperty('provider_ids');
  });

  test('counts those that were discarded meanwhile as gone, and says so where they were the last', () => {
    const one = { left: { b: 0 }, ...figures([0, 0, 0]) };
    expect(conclude(begun({ attempt: 1, progress: one, lost: 1 }), []).outcome).toMatchObject({
      state: 'failed',
      attempts: 1,
      code: 'token_discarded',
      targets: undefined,
    });
    const two = { ...one, accepted: 1, provider_ids: ['id of a'] };
    expect(conclude(begun({ attempt: 1, progress: two, lost: 1 }), []).outcome).toMatchObject({
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
  ])('tells in the words that explain its state: %j', (results, reason) => {
    expect(conclude(begun(), results).outcome?.reason).toBe(reason);
  });
});

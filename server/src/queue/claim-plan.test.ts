import { describe, expect, test } from 'vitest';
import { NIL } from './claim.ts';
import { afterClaim, type ClaimState, INITIAL, nextStep, planClaim } from './claim-plan.ts';
import type { Job } from './jobs.ts';

const LIMITS = { maxJobs: 100, maxWeight: 200, maxPartitions: 4 };

const jobs = (count: number, weight = 1, partitionKey = 'a'): Job[] =>
  Array.from({ length: count }, (_, id) => ({ id, partitionKey, weight }) as Job);

/** The state after a claim with these limits that returned these jobs. */
const claimed = (found: readonly Job[], state: ClaimState = INITIAL, busy: string[] = []) =>
  afterClaim(state, planClaim(state, LIMITS, busy), found);

describe('the plan of a claim', () => {
  test('the first one looks at as many jobs as a batch may have, from the first partition on', () => {
    expect(planClaim(INITIAL, LIMITS, ['a'])).toEqual({
      ...LIMITS,
      exceptPartitions: ['a'],
      afterPartition: NIL,
      oldestFirst: false,
    });
  });

  test('the next one starts behind the partition of the last job', () => {
    const state = claimed([...jobs(3, 1, 'a'), ...jobs(2, 1, 'b')]);
    expect(planClaim(state, LIMITS, []).afterPartition).toBe('b');
    expect(planClaim(claimed([], state), LIMITS, []).afterPartition).toBe('b');
  });

  test('it looks at twice as many jobs as fill a batch, and at eight or more', () => {
    const maxJobsAfter = (found: Job[]) => planClaim(claimed(found), LIMITS, []).maxJobs;
    expect(maxJobsAfter(jobs(4, 20))).toBe(20);
    expect(maxJobsAfter(jobs(1, 5_000))).toBe(8);
    expect(maxJobsAfter(jobs(10, 0))).toBe(LIMITS.maxJobs);
  });

  test('a claim without jobs keeps the average weight', () => {
    expect(claimed([], claimed(jobs(4, 20))).averageWeight).toBe(20);
  });

  test('every eighth claim takes the oldest jobs', () => {
    let state = INITIAL;
    const oldest: boolean[] = [];
    for (let count = 0; count < 16; count += 1) {
      oldest.push(planClaim(state, LIMITS, []).oldestFirst);
      state = claimed([], state);
    }
    expect(oldest.flatMap((is, index) => (is ? [index] : []))).toEqual([7, 15]);
  });

  test('there may be more after a full batch, or if a partition was left out', () => {
    expect(INITIAL.mayHaveMore).toBe(false);
    expect(claimed(jobs(3)).mayHaveMore).toBe(false);
    expect(claimed(jobs(100)).mayHaveMore).toBe(true);
    expect(claimed(jobs(2, 100)).mayHaveMore).toBe(true);
    expect(claimed([], INITIAL, ['busy']).mayHaveMore).toBe(true);
  });
});

describe('the next step of a producer', () => {
  const now = {
    ...{ isRunning: true, hasSlot: true, isBlocked: false },
    ...{ hasReserved: false, mayHaveReady: false, lastRanReserved: false },
  };

  test('without jobs, without a slot or after its stop it waits', () => {
    const all = { ...now, hasReserved: true, mayHaveReady: true };
    expect(nextStep(now)).toBe('wait');
    expect(nextStep({ ...all, hasSlot: false })).toBe('wait');
    expect(nextStep({ ...all, isRunning: false })).toBe('wait');
  });

  test('reserved jobs and ready jobs take turns', () => {
    const both = { ...now, hasReserved: true, mayHaveReady: true };
    expect(nextStep(both)).toBe('run reserved');
    expect(nextStep({ ...both, lastRanReserved: true })).toBe('claim');
    expect(nextStep({ ...now, hasReserved: true, lastRanReserved: true })).toBe('run reserved');
    expect(nextStep({ ...now, mayHaveReady: true })).toBe('claim');
  });

  test('while the handler is blocked, reserved jobs are released and nothing is claimed', () => {
    const blocked = { ...now, isBlocked: true, mayHaveReady: true };
    expect(nextStep(blocked)).toBe('wait');
    expect(nextStep({ ...blocked, hasReserved: true })).toBe('release reserved');
  });
});

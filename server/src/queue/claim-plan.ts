import { type Claim, NIL } from './claim.ts';
import type { BatchLimits } from './handler.ts';
import type { Job, JobKind } from './jobs.ts';
import { weightOf } from './slots.ts';

// Every eighth claim takes the oldest jobs, so that bulk work goes on beside endless small work.
const OLDEST_EVERY = 8;
// The fewest jobs that a claim looks at. It locks what it looks at, and locking is writing. So it looks at
// twice as many jobs as fill a batch, judged by the average weight of the last claim.
const MIN_CANDIDATES = 8;

/** What a producer remembers from one claim to the next. */
export interface ClaimState {
  claims: number;
  /** The average weight of the jobs of the last claim that found any. */
  averageWeight: number;
  /** The rotation goes on behind this partition. */
  afterPartition: string;
  /** There may be ready jobs that the last claim left: jobs that arrive now queue up behind them. */
  mayHaveMore: boolean;
}

export const INITIAL: ClaimState = { claims: 0, averageWeight: 1, afterPartition: NIL, mayHaveMore: false };

export type ClaimPlan = Omit<Claim<JobKind>, 'kind' | 'leaseId' | 'priorities'>;

/** What the next claim asks for. Partitions that are busy are left out. */
export function planClaim(
  { claims, averageWeight, afterPartition }: ClaimState,
  { maxJobs, maxWeight, maxPartitions }: BatchLimits,
  busyPartitions: readonly string[],
): ClaimPlan {
  const candidates = Math.max(MIN_CANDIDATES, Math.ceil((2 * maxWeight) / averageWeight));
  return {
    maxJobs: Math.min(maxJobs, candidates),
    maxWeight,
    maxPartitions,
    exceptPartitions: busyPartitions,
    afterPartition,
    oldestFirst: (claims + 1) % OLDEST_EVERY === 0,
  };
}

/** The state after a claim. */
export function afterClaim(state: ClaimState, plan: ClaimPlan, jobs: readonly Job[]): ClaimState {
  const weight = weightOf(jobs);
  return {
    claims: state.claims + 1,
    averageWeight: jobs.length === 0 ? state.averageWeight : Math.max(1, weight / jobs.length),
    afterPartition: jobs.at(-1)?.partitionKey ?? state.afterPartition,
    mayHaveMore: plan.exceptPartitions.length > 0 || jobs.length >= plan.maxJobs || weight >= plan.maxWeight,
  };
}

/** A step of the claim loop; `wait` until something changes. */
export type Step = 'release reserved' | 'run reserved' | 'claim' | 'wait';

/** What a producer does next. Reserved jobs and jobs in the database take turns. */
export function nextStep(now: {
  isRunning: boolean;
  hasSlot: boolean;
  isBlocked: boolean;
  hasReserved: boolean;
  mayHaveReady: boolean;
  lastRanReserved: boolean;
}): Step {
  if (!now.isRunning || !now.hasSlot) return 'wait';
  if (now.isBlocked) return now.hasReserved ? 'release reserved' : 'wait';
  if (now.hasReserved && !(now.mayHaveReady && now.lastRanReserved)) return 'run reserved';
  return now.mayHaveReady ? 'claim' : 'wait';
}

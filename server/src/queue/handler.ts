import type { Job, JobKind } from './jobs.ts';
import type { SlotLimits } from './slots.ts';

/** How large one claim may be. */
export interface BatchLimits {
  maxJobs: number;
  maxWeight: number;
  maxPartitions: number;
}

/** A batch is one job. */
export const ONE_JOB = { gatherBelow: 0, maxJobs: 1, maxWeight: 1, maxPartitions: 1 } as const;

/** How jobs of one kind are done. */
export interface Handler<Kind extends JobKind = JobKind> extends SlotLimits, BatchLimits {
  /**
   * What its jobs are: small work (default), bulk, or, by their priority, `both`: each then has batches and
   * as many slots of its own, so that small work does not wait for bulk.
   */
  work?: 'small' | 'bulk' | 'both';
  /** No batch starts while the running ones weigh this much: their jobs are in memory. */
  maxRunningWeight?: number;
  /** While it returns true no batch starts. The part that unblocks the handler wakes the producer. */
  isBlocked?(): boolean;
  /**
   * Does a batch, and completes it (complete.ts) in the transaction that records its effect. May run twice
   * for the same job. Where a batch may wait for a host that hangs, call `heartbeat` for each part that ends.
   * Returns the kinds of ready jobs that it has enqueued; scheduled jobs do not count.
   */
  run(jobs: readonly Job<Kind>[], leaseId: string, heartbeat: () => void): Promise<readonly JobKind[]>;
  /** Records that a job failed for good because of a bug, and completes it. */
  discard(job: Job<Kind>, leaseId: string, error: unknown): Promise<void>;
}

/** Jobs that run together under one lease. */
export interface Batch {
  jobs: readonly Job[];
  leaseId: string;
}

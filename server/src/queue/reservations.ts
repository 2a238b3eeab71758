import type { Batch, BatchLimits } from './handler.ts';
import type { Job } from './jobs.ts';
import { weightOf } from './slots.ts';

/** Capacity for jobs that this process is about to write under its own lease. */
export interface Reservation {
  leaseId: string;
  /** Ends the reservation with the jobs that were written and committed under its lease. */
  end(jobs: readonly Job[]): void;
}

/**
 * Jobs that this process accepts for itself: written under its lease, they need no claim. Reservations and
 * the jobs that wait to run never exceed one batch. They may be of any partition.
 */
export class Reservations {
  readonly #limits: BatchLimits;
  #waiting: { job: Job; leaseId: string }[] = [];
  #used = { jobs: 0, weight: 0 };
  #open = 0;

  constructor(limits: BatchLimits) {
    this.#limits = limits;
  }

  /** Whether jobs are being written of which nothing is known here yet. */
  get areOpen(): boolean {
    return this.#open > 0;
  }

  /** Whether jobs wait to run. */
  get haveJobs(): boolean {
    return this.#waiting.length > 0;
  }

  /** Reserves capacity, if there is enough; `onEnd` receives the jobs that were written. */
  open(
    leaseId: string,
    { jobs, weight }: { jobs: number; weight: number },
    onEnd: (jobs: readonly Job[]) => void,
  ): Reservation | undefined {
    const { maxJobs, maxWeight } = this.#limits;
    if (this.#used.jobs + jobs > maxJobs || this.#used.weight + weight > maxWeight) return undefined;
    this.#open += 1;
    this.#use(jobs, weight);
    return {
      leaseId,
      end: (written) => {
        this.#open -= 1;
        this.#use(written.length - jobs, weightOf(written) - weight);
        this.#waiting.push(...written.map((job) => ({ job, leaseId })));
        onEnd(written);
      },
    };
  }

  /** Takes the jobs of the oldest lease out. */
  takeBatch(): Batch {
    const leaseId = this.#waiting[0]?.leaseId ?? '';
    const jobs = this.#waiting.filter((one) => one.leaseId === leaseId).map(({ job }) => job);
    this.#waiting = this.#waiting.filter((one) => one.leaseId !== leaseId);
    this.#use(-jobs.length, -weightOf(jobs));
    return { jobs, leaseId };
  }

  #use(jobs: number, weight: number): void {
    this.#used = { jobs: this.#used.jobs + jobs, weight: this.#used.weight + weight };
  }
}

import type { Database } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { within } from '../lib/tracing.ts';
import { afterFailure, type FailureDeps } from './after-failure.ts';
import { claim } from './claim.ts';
import { afterClaim, INITIAL, nextStep, planClaim } from './claim-plan.ts';
import type { Batch, BatchLimits, Handler } from './handler.ts';
import type { Job, JobKind } from './jobs.ts';
import type { Lease } from './lease.ts';
import { ReleaseQueue, releaseUnknown } from './release.ts';
import { Slots, weightOf } from './slots.ts';

/** Capacity for jobs that this process is about to write under its own lease. */
export interface Reservation {
  leaseId: string;
  /** Ends the reservation with the jobs that were written and committed under its lease. */
  end(jobs: readonly Job[]): void;
}

/** Claims the jobs of one kind, and runs them in batches. */
export class Producer {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #kind: JobKind;
  readonly #handler: Handler;
  readonly #slots: Slots;
  readonly #wakeKind: (kind: JobKind) => void;
  readonly #failureDeps: FailureDeps;
  readonly #releases = new ReleaseQueue();
  readonly #reservations: Reservations;
  /**
   * The jobs that run or are reserved here, by id, and how often: a job whose lease has expired can be
   * claimed here again before its former run has ended.
   */
  readonly #held = new Map<number, number>();
  readonly #onIdle: (() => void)[] = [];
  #state = INITIAL;
  #isRunning = false;
  #isClaiming = false;
  /** There may be ready jobs in the database. */
  #mayHaveReady = false;
  /** There may be jobs under our lease that are unknown here. */
  #mayHaveUnknown = false;
  #lastRanReserved = false;

  constructor(options: {
    db: Database;
    clock: Clock;
    log: Logger;
    lease: Lease;
    kind: JobKind;
    handler: Handler;
    /** Called with the kinds of jobs that a batch has enqueued. */
    wakeKind: (kind: JobKind) => void;
  }) {
    const { handler, kind, clock, log } = options;
    this.#db = options.db;
    this.#log = log;
    this.#lease = options.lease;
    this.#kind = kind;
    this.#handler = handler;
    this.#wakeKind = options.wakeKind;
    this.#slots = new Slots(handler, () => this.wake());
    this.#failureDeps = { handler, kind, clock, log, releases: this.#releases };
    this.#reservations = new Reservations(handler);
  }

  /** Running batches. */
  get active(): number {
    return this.#slots.active;
  }

  start(): void {
    this.#isRunning = true;
    this.wake();
  }

  /** Starts no more batches. Resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    if (this.active === 0 && !this.#isClaiming) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** There may be ready jobs. */
  wake(): void {
    this.#mayHaveReady = true;
    this.#continue();
  }

  /** A notification may have been missed: looks for ready jobs, and for unknown jobs under our lease. */
  poll(): void {
    this.#mayHaveUnknown = true;
    this.wake();
  }

  /**
   * Reserves capacity for jobs that are about to be written. Write them under the lease of the reservation:
   * this worker then holds them from the start and need not claim them. Returns undefined if there is no
   * capacity, or if other jobs are ready: then write them as ready, behind those.
   */
  reserve(jobs: number, weight: number): Reservation | undefined {
    if (!this.#isRunning || this.#state.mayHaveMore || this.#mayHaveUnknown || !this.#lease.isFresh)
      return undefined;
    return this.#reservations.open(this.#lease.id, { jobs, weight }, (written) => {
      this.#hold(written);
      this.#continue();
    });
  }

  #continue(): void {
    // Not as a part of the request that happens to wake it.
    if (!this.#isClaiming) void within(undefined, () => this.#claimLoop());
  }

  /**
   * Starts batches until there is no ready job or no free slot. One claim at a time: two would only wait for
   * each other's rows.
   */
  async #claimLoop(): Promise<void> {
    this.#isClaiming = true;
    try {
      for (let step = this.#nextStep(); step !== 'wait'; step = this.#nextStep()) {
        this.#lastRanReserved = step === 'run reserved';
        if (step === 'release reserved') this.#releaseReserved();
        else if (step === 'claim') await this.#runClaimed();
        else this.#runReserved();
      }
    } catch (error) {
      // The next poll tries again. If the database is unavailable, there is nothing to do until then.
      this.#log.warn({ err: error, kind: this.#kind }, 'jobs could not be claimed');
    } finally {
      this.#isClaiming = false;
      this.#notifyIdle();
    }
  }

  #nextStep(): ReturnType<typeof nextStep> {
    return nextStep({
      isRunning: this.#isRunning,
      hasSlot: this.#slots.free,
      isBlocked: this.#handler.isBlocked?.() ?? false,
      hasReserved: this.#reservations.haveJobs,
      mayHaveReady: this.#mayHaveReady,
      lastRanReserved: this.#lastRanReserved,
    });
  }

  /** Lets any worker have the jobs: when this one is unblocked, its lease may have expired. */
  #releaseReserved(): void {
    const { jobs, leaseId } = this.#reservations.takeBatch();
    this.#letGo(jobs);
    this.#releases.add(jobs, leaseId);
  }

  #runReserved(): void {
    const batch = this.#reservations.takeBatch();
    void this.#run(batch); // holds them, too
    this.#letGo(batch.jobs);
  }

  async #runClaimed(): Promise<void> {
    this.#mayHaveReady = false;
    await this.#releases.flush(this.#db);
    await this.#lease.refresh();
    const leaseId = this.#lease.id;
    await this.#releaseUnknown(leaseId);
    const jobs = await this.#claim(leaseId);
    if (jobs.length === 0) return;
    this.#mayHaveReady = true;
    void this.#run({ jobs, leaseId });
  }

  /**
   * A connection can break after a claim was committed and before its response arrived. The worker lives and
   * holds such jobs, but would never run them. There is no claim and no reservation in flight here, so any
   * job under our lease that does not run is one of those.
   */
  async #releaseUnknown(leaseId: string): Promise<void> {
    if (!this.#mayHaveUnknown || this.#reservations.areOpen) return;
    // Nothing is reserved before the response: each job under our lease is either known or lost.
    const jobs = await releaseUnknown(this.#db, leaseId, this.#kind, [...this.#held.keys()]);
    this.#mayHaveUnknown = false;
    if (jobs > 0)
      this.#log.warn(
        { kind: this.#kind, jobs },
        'the response to a claim was lost; its jobs are ready again',
      );
  }

  async #claim(leaseId: string): Promise<Job[]> {
    const plan = planClaim(this.#state, this.#handler, this.#slots.busyPartitions);
    const jobs = await claim(this.#db, { kind: this.#kind, leaseId, ...plan });
    this.#state = afterClaim(this.#state, plan, jobs);
    // A crash of the database can undo the commit of a claim. A job that runs here was started before,
    // whatever its row says.
    return jobs.map((job) => (this.#held.has(job.id) ? { ...job, attempt: Math.max(job.attempt, 2) } : job));
  }

  async #run({ jobs, leaseId }: Batch): Promise<void> {
    const { heartbeat, end } = this.#slots.take(jobs);
    this.#hold(jobs);
    const running = this.#handler.run(jobs, leaseId, heartbeat);
    const queued = await running.catch((error: unknown) =>
      afterFailure(this.#failureDeps, { jobs, leaseId }, heartbeat, error),
    );
    end();
    this.#letGo(jobs);
    if (this.#state.mayHaveMore || !this.#releases.isEmpty) this.#mayHaveReady = true;
    for (const kind of queued) this.#wakeKind(kind);
    this.#continue();
    this.#notifyIdle();
  }

  #hold(jobs: readonly Job[]): void {
    for (const { id } of jobs) this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
  }

  #letGo(jobs: readonly Job[]): void {
    for (const { id } of jobs) {
      const count = (this.#held.get(id) ?? 0) - 1;
      if (count > 0) this.#held.set(id, count);
      else this.#held.delete(id);
    }
  }

  #notifyIdle(): void {
    if (this.active > 0 || this.#isClaiming) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}

/**
 * Jobs that this process accepts for itself: written under its lease, they need no claim. Reservations and
 * the jobs that wait to run never exceed one batch. They may be of any partition.
 */
class Reservations {
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

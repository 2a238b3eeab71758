import type { Database } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { within } from '../lib/tracing.ts';
import { claim } from './claim.ts';
import { afterClaim, type ClaimState, INITIAL, nextStep, planClaim, type Step } from './claim-plan.ts';
import type { Batch, BatchLimits, Handler } from './handler.ts';
import {
  ALL_PRIORITIES,
  BULK_PRIORITIES,
  type Job,
  type JobKind,
  type Priorities,
  SMALL_PRIORITIES,
  type Work,
} from './jobs.ts';
import type { Lease } from './lease.ts';
import { ReleaseQueue, releaseUnknown } from './release.ts';
import { type RunDeps, runBatch } from './run-batch.ts';
import { Slots, weightOf } from './slots.ts';

/** Capacity for jobs that this process is about to write under its own lease. */
export interface Reservation {
  leaseId: string;
  /** Whether there is capacity for a job of this priority. Write the others as ready. */
  includes(job: Pick<Job, 'priority'>): boolean;
  /** Ends the reservation with the jobs that were written and committed under its lease. */
  end(jobs: readonly Job[]): void;
}

/** Jobs that have batches and slots of their own. */
interface Lane {
  readonly priorities: Priorities;
  readonly slots: Slots;
  readonly reservations: Reservations;
  state: ClaimState;
  /** There may be ready jobs in the database. */
  mayHaveReady: boolean;
  lastRanReserved: boolean;
}

/** Claims the jobs of one kind that are a part of the work of this process, and runs them in batches. */
export class Producer {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #kind: JobKind;
  readonly #handler: Handler;
  /** The one that claimed last is the last, so that none claims all the time. */
  #lanes: readonly Lane[];
  readonly #wakeKind: (kind: JobKind) => void;
  readonly #runDeps: RunDeps;
  readonly #releases = new ReleaseQueue();
  /**
   * The jobs that run or are reserved here, by id, and how often: a job whose lease has expired can be
   * claimed here again before its former run has ended.
   */
  readonly #held = new Map<number, number>();
  readonly #onIdle: (() => void)[] = [];
  #isRunning = false;
  #isClaiming = false;
  /** There may be jobs under our lease that are unknown here. */
  #mayHaveUnknown = false;

  constructor(options: {
    db: Database;
    clock: Clock;
    log: Logger;
    lease: Lease;
    kind: JobKind;
    handler: Handler;
    work: Work;
    /** Called with the kinds of jobs that a batch has enqueued. */
    wakeKind: (kind: JobKind) => void;
  }) {
    const { handler, kind, clock, log, work } = options;
    this.#db = options.db;
    this.#log = log;
    this.#lease = options.lease;
    this.#kind = kind;
    this.#handler = handler;
    this.#wakeKind = options.wakeKind;
    this.#lanes = prioritiesOf(handler, work).map((priorities) => ({
      priorities,
      slots: new Slots(handler, () => this.wake()),
      reservations: new Reservations(handler),
      state: INITIAL,
      mayHaveReady: false,
      lastRanReserved: false,
    }));
    this.#runDeps = { db: options.db, handler, kind, clock, log, releases: this.#releases };
  }

  /** Running batches. */
  get active(): number {
    return this.#lanes.reduce((sum, { slots }) => sum + slots.active, 0);
  }

  /** From now on, it claims. The first poll finds what is ready. */
  start(): void {
    this.#isRunning = true;
  }

  /** Starts no more batches. Resolves when the last one has ended. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    if (this.active === 0 && !this.#isClaiming) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** There may be ready jobs: these, or any. A claim that finds none costs as much as one that finds some. */
  wake(jobs?: readonly Pick<Job, 'priority'>[]): void {
    for (const lane of this.#lanes)
      if (jobs === undefined || jobs.some((job) => isIn(job, lane.priorities))) lane.mayHaveReady = true;
    this.#continue();
  }

  /** A notification may have been missed: looks for ready jobs, and for unknown jobs under our lease. */
  poll(): void {
    this.#mayHaveUnknown = true;
    this.wake();
  }

  /** Whether such a job is a part of the work of this process. */
  runs(job: Pick<Job, 'priority'>): boolean {
    return this.#lanes.some(({ priorities }) => isIn(job, priorities));
  }

  /**
   * Reserves capacity for jobs that are about to be written. Write those that it includes under its lease:
   * this worker then holds them from the start and need not claim them. Includes no job that would overtake
   * others that are ready. Returns undefined if it would include none.
   */
  reserve(jobs: readonly Pick<Job, 'priority' | 'weight'>[]): Reservation | undefined {
    if (!this.#isRunning || this.#mayHaveUnknown || !this.#lease.isFresh) return undefined;
    const leaseId = this.#lease.id;
    const open = this.#lanes.flatMap((lane) => {
      const own = jobs.filter((job) => isIn(job, lane.priorities));
      const end = lane.state.mayHaveMore || own.length === 0 ? undefined : lane.reservations.open(own);
      return end === undefined ? [] : [{ priorities: lane.priorities, end }];
    });
    if (open.length === 0) return undefined;
    return {
      leaseId,
      includes: (job) => open.some(({ priorities }) => isIn(job, priorities)),
      end: (written) => {
        for (const { priorities, end } of open)
          end(
            written.filter((job) => isIn(job, priorities)),
            leaseId,
          );
        this.#hold(written);
        this.#continue();
      },
    };
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
      for (let next = this.#nextStep(); next !== undefined; next = this.#nextStep()) {
        const { lane, step } = next;
        lane.lastRanReserved = step === 'run reserved';
        if (step === 'release reserved') this.#releaseReserved(lane);
        else if (step === 'claim') {
          this.#lanes = [...this.#lanes.filter((other) => other !== lane), lane];
          await this.#runClaimed(lane);
        } else this.#runReserved(lane);
      }
    } catch (error) {
      // The next poll tries again. If the database is unavailable, there is nothing to do until then.
      this.#log.warn({ err: error, kind: this.#kind }, 'jobs could not be claimed');
    } finally {
      this.#isClaiming = false;
      this.#notifyIdle();
    }
  }

  get #hasRoom(): boolean {
    const running = this.#lanes.reduce((sum, { slots }) => sum + slots.weight, 0);
    return running < (this.#handler.maxRunningWeight ?? Number.POSITIVE_INFINITY);
  }

  #nextStep(): { lane: Lane; step: Exclude<Step, 'wait'> } | undefined {
    for (const lane of this.#lanes) {
      const step = nextStep({
        isRunning: this.#isRunning,
        hasSlot: lane.slots.free && this.#hasRoom,
        isBlocked: this.#handler.isBlocked?.() ?? false,
        hasReserved: lane.reservations.haveJobs,
        mayHaveReady: lane.mayHaveReady,
        lastRanReserved: lane.lastRanReserved,
      });
      if (step !== 'wait') return { lane, step };
    }
    return undefined;
  }

  /** Lets any worker have the jobs: when this one is unblocked, its lease may have expired. */
  #releaseReserved({ reservations }: Lane): void {
    const { jobs, leaseId } = reservations.takeBatch();
    this.#letGo(jobs);
    this.#releases.addInterrupted(jobs, leaseId);
  }

  #runReserved(lane: Lane): void {
    const batch = lane.reservations.takeBatch();
    void this.#run(lane, batch); // holds them, too
    this.#letGo(batch.jobs);
  }

  async #runClaimed(lane: Lane): Promise<void> {
    lane.mayHaveReady = false;
    await this.#releases.flush(this.#db);
    if (!(await this.#lease.refresh())) return; // the next poll tries again
    const leaseId = this.#lease.id;
    await this.#releaseUnknown(leaseId);
    const jobs = await this.#claim(lane, leaseId);
    if (jobs.length === 0) return;
    lane.mayHaveReady = true;
    void this.#run(lane, { jobs, leaseId });
  }

  /**
   * A connection can break after a claim was committed and before its response arrived. The worker lives and
   * holds such jobs, but would never run them. There is no claim and no reservation in flight here, so any
   * job under our lease that does not run is one of those.
   */
  async #releaseUnknown(leaseId: string): Promise<void> {
    if (!this.#mayHaveUnknown || this.#lanes.some(({ reservations }) => reservations.areOpen)) return;
    // Nothing is reserved before the response: each job under our lease is either known or lost. A batch may
    // have failed since the last release.
    const known = [...this.#held.keys(), ...this.#releases.jobIds];
    const jobs = await releaseUnknown(this.#db, leaseId, this.#kind, known);
    this.#mayHaveUnknown = false;
    if (jobs > 0)
      this.#log.warn(
        { kind: this.#kind, jobs },
        'the response to a claim was lost; its jobs are ready again',
      );
  }

  async #claim(lane: Lane, leaseId: string): Promise<Job[]> {
    const plan = planClaim(lane.state, this.#handler, lane.slots.busyPartitions);
    const { priorities } = lane;
    const jobs = await claim(this.#db, { kind: this.#kind, leaseId, priorities, ...plan });
    lane.state = afterClaim(lane.state, plan, jobs);
    // A crash of the database can undo the commit of a claim. A job that runs here was started before,
    // whatever its row says.
    return jobs.map((job) => (this.#held.has(job.id) ? { ...job, attempt: Math.max(job.attempt, 2) } : job));
  }

  async #run(lane: Lane, batch: Batch): Promise<void> {
    const { jobs } = batch;
    const { heartbeat, end } = lane.slots.take(jobs);
    this.#hold(jobs);
    const queued = await runBatch(this.#runDeps, batch, heartbeat);
    end();
    this.#letGo(jobs);
    if (lane.state.mayHaveMore || !this.#releases.isEmpty) lane.mayHaveReady = true;
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
 * Jobs of a lane that this process accepts for itself: written under its lease, they need no claim.
 * Reservations and the jobs that wait to run never exceed one batch. They may be of any partition.
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

  /**
   * Reserves capacity, if there is enough. Call the result with the jobs that were written, and their lease.
   */
  open(
    jobs: readonly Pick<Job, 'weight'>[],
  ): ((written: readonly Job[], leaseId: string) => void) | undefined {
    const { maxJobs, maxWeight } = this.#limits;
    const weight = weightOf(jobs);
    if (this.#used.jobs + jobs.length > maxJobs || this.#used.weight + weight > maxWeight) return undefined;
    this.#open += 1;
    this.#use(jobs.length, weight);
    return (written, leaseId) => {
      this.#open -= 1;
      this.#use(written.length - jobs.length, weightOf(written) - weight);
      this.#waiting.push(...written.map((job) => ({ job, leaseId })));
    };
  }

  /** Takes the jobs out, as far as they are under the lease of the oldest one. */
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

/** The priorities of each lane. */
function prioritiesOf({ work: own = 'small' }: Handler, work: Work): readonly Priorities[] {
  if (own !== 'both') return work === 'both' || work === own ? [ALL_PRIORITIES] : [];
  return [...(work === 'bulk' ? [] : [SMALL_PRIORITIES]), ...(work === 'small' ? [] : [BULK_PRIORITIES])];
}

function isIn({ priority }: Pick<Job, 'priority'>, [lowest, highest]: Priorities): boolean {
  return priority >= lowest && priority <= highest;
}

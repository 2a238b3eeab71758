import { type Database, isDatabaseUnavailable } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { backoff } from './backoff.ts';
import { claim } from './claim.ts';
import type { Job, JobKind } from './jobs.ts';
import type { Lease } from './lease.ts';
import { LeaseLost, release, releaseStrays } from './settle.ts';
import { type SlotLimits, Slots, weightOf } from './slots.ts';

/** How jobs of one kind are done. */
export interface Handler<Kind extends JobKind = JobKind> extends SlotLimits {
  /** The size of a batch: jobs, recipients, projects. */
  maxJobs: number;
  maxWeight: number;
  maxProjects: number;
  /** While it returns true no batch begins; the lane is to be woken afterwards. */
  isBlocked?(): boolean;
  /**
   * Does a batch and settles it (see settle.ts) in the transaction that records its effect. May run twice for
   * the same job. `progress` is to be called for each part that ends, where a batch may wait for somebody who
   * hangs.
   */
  run(jobs: readonly Job<Kind>[], leaseId: string, progress: () => void): Promise<void>;
  /** Records, and settles, that a job failed for good: its error is ours, and repeating it did not help. */
  giveUp(job: Job<Kind>, leaseId: string, error: unknown): Promise<void>;
}

/** Room in the next batch. */
export interface Reservation {
  leaseId: string;
  /** Ends the reservation, with the jobs that were written and committed under its lease. */
  end(jobs: readonly Job[]): void;
}

// An error of ours is tried again for up to two hours and a quarter before the job is given up.
const MAX_ATTEMPTS = 8;
const NIL = '00000000-0000-0000-0000-000000000000';
// A batch that the database failed is done again at once; when that fails too, after a pause that grows up to
// this, so that a full disk is not asked without end.
const LONGEST_PAUSE_MS = 5_000;
// Every eighth claim takes the oldest jobs, so that bulk goes on while small work never ends.
const OLDEST_EVERY = 8;
// A claim looks at so many jobs at least, and at as many as twice fill a batch if they weigh what the last
// ones did: whatever it looks at it locks, and locking is writing.
const FEWEST_LOOKED_AT = 8;

interface Batch {
  jobs: Job[];
  leaseId: string;
  progress(): void;
}

/** The jobs of one kind. */
export class Lane {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #kind: JobKind;
  readonly #handler: Handler;
  readonly #slots: Slots;
  readonly #idle: (() => void)[] = [];
  /** Jobs that a batch left behind; they are given back as soon as the database can be told. */
  #leftBehind: { ids: number[]; leaseId: string; dueAtMs?: number }[] = [];
  /** The jobs of the batches at work. */
  readonly #held = new Set<number>();
  #lookForStrays = false;
  /** Jobs that were ours from the start, and what room is taken by them and by reservations. */
  #handed: { job: Job; leaseId: string }[] = [];
  #taken = { jobs: 0, weight: 0 };
  #reservations = 0;
  #lastWasHanded = false;
  /** The last claim left something behind, or may have: who comes now waits behind it. */
  #behind = true;
  #claiming = false;
  #woken = false;
  #running = false;
  #turns = 0;
  #lastWeight = 1; // of a job, on average
  #afterProject = NIL;

  constructor(options: {
    db: Database;
    clock: Clock;
    log: Logger;
    lease: Lease;
    kind: JobKind;
    handler: Handler;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#lease = options.lease;
    this.#kind = options.kind;
    this.#handler = options.handler;
    this.#slots = new Slots(options.handler, () => this.wake());
  }

  get active(): number {
    return this.#slots.active;
  }

  start(): void {
    this.#running = true;
    this.wake();
  }

  async stop(): Promise<void> {
    this.#running = false;
    if (this.active === 0 && !this.#claiming) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  wake(): void {
    this.#woken = true;
    this.#fill();
  }

  /**
   * Something may have gone by: looks for ready jobs, and before for those that are ours without our knowing.
   */
  poll(): void {
    this.#lookForStrays = true;
    this.wake();
  }

  /**
   * As the worker's. Such jobs are of any projects, as they come: there are never more of them than one
   * batch.
   */
  reserve(jobs: number, weight: number): Reservation | undefined {
    const { maxJobs, maxWeight } = this.#handler;
    const fits = this.#taken.jobs + jobs <= maxJobs && this.#taken.weight + weight <= maxWeight;
    if (!this.#running || this.#behind || this.#lookForStrays || !this.#lease.isFresh || !fits)
      return undefined;
    const leaseId = this.#lease.id;
    this.#reservations += 1;
    this.#take(jobs, weight);
    return {
      leaseId,
      end: (written) => {
        this.#reservations -= 1;
        this.#take(-jobs, -weight);
        for (const job of written) {
          this.#take(1, job.weight);
          this.#held.add(job.id);
          this.#handed.push({ job, leaseId });
        }
        this.#fill();
      },
    };
  }

  #take(jobs: number, weight: number): void {
    this.#taken = { jobs: this.#taken.jobs + jobs, weight: this.#taken.weight + weight };
  }

  #fill(): void {
    if (!this.#claiming) void this.#fillSlots();
  }

  /**
   * Begins batches until nothing is ready or every slot is taken. One claim at a time: two would only wait
   * for each other's rows.
   */
  async #fillSlots(): Promise<void> {
    this.#claiming = true;
    try {
      while (this.#running && this.#slots.free) {
        if (this.#handler.isBlocked?.()) {
          this.#releaseHanded();
          break;
        }
        // Those at hand and those in the database take turns.
        this.#lastWasHanded = this.#handed.length > 0 && !(this.#woken && this.#lastWasHanded);
        if (this.#lastWasHanded) this.#runHanded();
        else if (this.#woken) await this.#runClaimed();
        else break;
      }
    } catch (error) {
      // The next poll tries again; when it is the database that is gone, there is nothing to do until then.
      this.#log.warn({ err: error, kind: this.#kind }, 'jobs could not be claimed');
    } finally {
      this.#claiming = false;
      this.#sayIfIdle();
    }
  }

  #runHanded(): void {
    const leaseId = this.#handed[0]?.leaseId ?? '';
    const jobs = this.#handed.filter((one) => one.leaseId === leaseId).map(({ job }) => job);
    this.#handed = this.#handed.filter((one) => one.leaseId !== leaseId);
    this.#take(-jobs.length, -weightOf(jobs));
    void this.#runBatch(jobs, leaseId);
  }

  /**
   * Whoever can do these jobs first is to have them: when this lane may go on, its lease may have expired.
   */
  #releaseHanded(): void {
    for (const { job, leaseId } of this.#handed.splice(0)) {
      this.#take(-1, -job.weight);
      this.#held.delete(job.id);
      this.#leftBehind.push({ ids: [job.id], leaseId });
    }
  }

  async #runClaimed(): Promise<void> {
    this.#woken = false;
    await this.#giveBack();
    await this.#lease.refresh();
    const leaseId = this.#lease.id;
    await this.#releaseStrays(leaseId);
    const jobs = await this.#claim(leaseId);
    if (jobs.length === 0) return;
    this.#woken = true;
    void this.#runBatch(jobs, leaseId);
  }

  /**
   * A connection can break after a claim was committed and before its answer came: such jobs are held by a
   * worker that lives and will never do them. No claim and no reservation is under way here, so whatever is
   * leased to us and not at work is one of those.
   */
  async #releaseStrays(leaseId: string): Promise<void> {
    if (!this.#lookForStrays || this.#reservations > 0) return;
    // Until it is answered nothing is reserved: what is written under our lease is known here, or a stray.
    const strays = await releaseStrays(this.#db, leaseId, this.#kind, [...this.#held]);
    this.#lookForStrays = false;
    if (strays > 0)
      this.#log.warn(
        { kind: this.#kind, jobs: strays },
        'the answer to a claim was lost; its jobs are free again',
      );
  }

  async #claim(leaseId: string): Promise<Job[]> {
    const busy = this.#slots.busyProjects;
    this.#turns += 1;
    const { maxWeight } = this.#handler;
    const filling = Math.ceil((2 * maxWeight) / this.#lastWeight);
    const maxJobs = Math.min(this.#handler.maxJobs, Math.max(FEWEST_LOOKED_AT, filling));
    const claimed = await claim(this.#db, {
      kind: this.#kind,
      leaseId,
      maxJobs,
      maxWeight,
      maxProjects: this.#handler.maxProjects,
      exceptProjects: busy,
      afterProject: this.#afterProject,
      oldestFirst: this.#turns % OLDEST_EVERY === 0,
    });
    this.#afterProject = claimed.at(-1)?.projectId ?? this.#afterProject;
    const weight = weightOf(claimed);
    if (claimed.length > 0) this.#lastWeight = Math.max(1, weight / claimed.length);
    this.#behind = busy.length > 0 || claimed.length >= maxJobs || weight >= maxWeight;
    // A crash of the database can undo the commit of a claim: a job that is at work here was begun before,
    // whatever its row says.
    return claimed.map((job) =>
      this.#held.has(job.id) ? { ...job, attempt: Math.max(job.attempt, 2) } : job,
    );
  }

  async #runBatch(jobs: Job[], leaseId: string): Promise<void> {
    const slot = this.#slots.take(jobs);
    for (const job of jobs) this.#held.add(job.id);
    try {
      await this.#handler.run(jobs, leaseId, slot.progress);
    } catch (error) {
      await this.#afterFailure({ jobs, leaseId, progress: slot.progress }, error);
    } finally {
      slot.end();
      for (const job of jobs) this.#held.delete(job.id);
      if (this.#behind || this.#leftBehind.length > 0) this.#woken = true;
      this.#fill();
      this.#sayIfIdle();
    }
  }

  /**
   * One job that cannot be done must not hold up those that were claimed with it: each is tried by itself.
   */
  async #afterFailure({ jobs, leaseId, progress }: Batch, error: unknown): Promise<void> {
    if (error instanceof LeaseLost) {
      this.#log.warn(
        { kind: this.#kind, jobs: jobs.length },
        'a lease was lost; what it covered is done by who holds it now',
      );
      // Of a batch some jobs may still be ours.
      this.#leftBehind.push({ ids: jobs.map((job) => job.id), leaseId });
    } else if (isDatabaseUnavailable(error)) {
      this.#log.warn(
        { err: error, kind: this.#kind, jobs: jobs.length },
        'the database failed in a batch; it is done again',
      );
      this.#leaveBehind(jobs, leaseId);
    } else if (jobs.length > 1) {
      for (const job of jobs) {
        const again = { ...job, attempt: job.attempt + 1 };
        try {
          await this.#handler.run([again], leaseId, progress);
        } catch (alone) {
          await this.#afterFailure({ jobs: [again], leaseId, progress }, alone);
        }
      }
    } else {
      for (const job of jobs) await this.#afterFailureAlone(job, leaseId, error);
    }
  }

  async #afterFailureAlone(job: Job, leaseId: string, error: unknown): Promise<void> {
    this.#log.error(
      { err: error, kind: this.#kind, job: job.id, attempt: job.attempt, projectId: job.projectId },
      'a job failed',
    );
    if (job.attempt >= MAX_ATTEMPTS) {
      try {
        await this.#handler.giveUp(job, leaseId, error);
        return;
      } catch (giveUpError) {
        this.#log.error({ err: giveUpError, kind: this.#kind, job: job.id }, 'a job could not be given up');
      }
    }
    this.#leftBehind.push({ ids: [job.id], leaseId, dueAtMs: this.#clock.now() + backoff(job.attempt) });
  }

  /** To be done again: at once the first time, later after a pause. */
  #leaveBehind(jobs: readonly Job[], leaseId: string): void {
    for (const [again, group] of Map.groupBy(jobs, (job) => job.attempt > 1)) {
      const pauseMs = Math.min(backoff(Math.min(...group.map((job) => job.attempt))), LONGEST_PAUSE_MS);
      this.#leftBehind.push({
        ids: group.map((job) => job.id),
        leaseId,
        ...(again ? { dueAtMs: this.#clock.now() + pauseMs } : {}),
      });
    }
  }

  async #giveBack(): Promise<void> {
    const all = this.#leftBehind;
    this.#leftBehind = [];
    while (all.length > 0) {
      const next = all[0];
      try {
        if (next) await release(this.#db, next.leaseId, next.ids, next.dueAtMs);
        all.shift();
      } catch (error) {
        this.#leftBehind.push(...all);
        throw error;
      }
    }
  }

  #sayIfIdle(): void {
    if (this.active > 0 || this.#claiming) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

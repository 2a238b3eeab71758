import { type Database, isDatabaseUnavailable } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { waitMs } from '../lib/wait.ts';
import { backoff } from './backoff.ts';
import { claim } from './claim.ts';
import { JOB_KINDS, type Job, type JobKind } from './jobs.ts';
import { Lease, rescue } from './lease.ts';
import { promote } from './promote.ts';
import { LeaseLost, release, releaseStrays } from './settle.ts';

/** How jobs of one kind are done. */
export interface Handler<Kind extends JobKind = JobKind> {
  /** Batches at work at the same time, in all and for one project. */
  slots: number;
  slotsPerProject: number;
  /**
   * While a batch that weighs less is at work no other begins: it soon ends, and what comes meanwhile makes a larger one, which costs little
   * more. 0 where a batch waits for others than the database.
   */
  gatherBelow: number;
  /** The size of a batch: jobs, recipients, projects. */
  maxJobs: number;
  maxWeight: number;
  maxProjects: number;
  /** Does a batch and settles it (see settle.ts) in the transaction that records its effect. May run twice for the same job. */
  run(jobs: readonly Job<Kind>[], leaseId: string): Promise<void>;
  /** Records, and settles, that a job failed for good: its error is ours, and repeating it did not help. */
  giveUp(job: Job<Kind>, leaseId: string, error: unknown): Promise<void>;
}

export type Handlers = { readonly [Kind in JobKind]: Handler<Kind> };

// A commit in this process wakes the worker, and NOTIFY does from another; the poll finds what both missed.
const POLL_MS = 1_000;
// An error of ours is tried again over about three hours before the job is given up.
const MAX_ATTEMPTS = 8;
const NIL = '00000000-0000-0000-0000-000000000000';
// A batch that the database failed is done again at once; when that fails too, after a pause that grows up to this, so that a
// full disk is not asked without end.
const LONGEST_PAUSE_MS = 5_000;
// After the work that still runs was told to end, so long.
const HURRY_MS = 3_000;
// Every eighth claim takes the oldest jobs, so that bulk goes on while small work never ends.
const OLDEST_EVERY = 8;

/** Claims jobs and hands them to their handlers until stopped. */
export class Worker {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #lanes: ReadonlyMap<JobKind, Lane>;
  #poll: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: { db: Database; clock: Clock; log: Logger; node: string; handlers: Handlers }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#lease = new Lease({
      db: options.db,
      node: options.node,
      onError: (error) => this.#log.warn({ err: error }, 'the worker could not renew its lease'),
    });
    const lane = (kind: JobKind) =>
      new Lane({ ...options, lease: this.#lease, kind, handler: options.handlers[kind] as Handler });
    this.#lanes = new Map(JOB_KINDS.map((kind) => [kind, lane(kind)]));
  }

  async start(): Promise<void> {
    await this.#lease.start();
    this.#poll = setInterval(() => {
      this.#polling ??= this.#pollOnce().finally(() => {
        this.#polling = undefined;
      });
    }, POLL_MS);
    for (const lane of this.#lanes.values()) lane.start();
  }

  /** There may be ready jobs of this kind. */
  wake(kind: JobKind): void {
    this.#lanes.get(kind)?.wake();
  }

  /** Batches now at work. */
  get active(): number {
    return [...this.#lanes.values()].reduce((sum, lane) => sum + lane.active, 0);
  }

  /**
   * Claims no more and lets running batches end for at most `graceMs`; then `hurry` is to bring them to an end. What has not ended
   * even then is given back.
   */
  stop(graceMs: number, hurry: () => Promise<void> = async () => {}): Promise<void> {
    this.#stopping ??= this.#stop(graceMs, hurry);
    return this.#stopping;
  }

  async #stop(graceMs: number, hurry: () => Promise<void>): Promise<void> {
    clearInterval(this.#poll);
    const idle = Promise.all([...this.#lanes.values()].map((lane) => lane.stop()));
    if (!(await endsWithin(idle, graceMs))) await endsWithin(Promise.all([hurry(), idle]), HURRY_MS);
    await this.#polling;
    await this.#lease.stop().catch((error: unknown) => {
      this.#log.warn({ err: error }, 'the lease could not be ended; its jobs are free when it runs out');
    });
  }

  async #pollOnce(): Promise<void> {
    try {
      const kinds = await rescue(this.#db, this.#lease.id);
      for (let more = true; more; ) {
        const due = await promote(this.#db, this.#clock.now());
        for (const kind of due.kinds) kinds.add(kind);
        more = due.more;
      }
      if (kinds.size > 0) this.#log.debug({ kinds: [...kinds] }, 'jobs became ready');
    } catch (error) {
      this.#log.warn({ err: error }, 'the queue could not be polled');
    }
    for (const lane of this.#lanes.values()) lane.poll();
  }
}

async function endsWithin(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  const timer = new AbortController();
  const late = waitMs(limitMs, timer.signal).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

/** The jobs of one kind. */
class Lane {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #kind: JobKind;
  readonly #handler: Handler;
  readonly #activeByProject = new Map<string, number>();
  readonly #idle: (() => void)[] = [];
  /** Jobs that a batch left behind; they are given back as soon as the database can be told. */
  #leftBehind: { ids: number[]; leaseId: string; dueAtMs?: number }[] = [];
  /** The jobs of the batches at work. */
  readonly #held = new Set<number>();
  #lookForStrays = false;
  #active = 0;
  /** Of these, how many soon end. */
  #short = 0;
  #claiming = false;
  #woken = false;
  #running = false;
  #turns = 0;
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
  }

  get active(): number {
    return this.#active;
  }

  start(): void {
    this.#running = true;
    this.wake();
  }

  async stop(): Promise<void> {
    this.#running = false;
    if (this.#active === 0 && !this.#claiming) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  wake(): void {
    this.#woken = true;
    if (!this.#claiming) void this.#claimAll();
  }

  /** Something may have gone by: looks for ready jobs, and before for those that are ours without our knowing. */
  poll(): void {
    this.#lookForStrays = true;
    this.wake();
  }

  /** Claims until nothing is ready or every slot is taken. One claim at a time: two would only wait for each other's rows. */
  async #claimAll(): Promise<void> {
    this.#claiming = true;
    try {
      while (this.#running && this.#woken && this.#active < this.#handler.slots && this.#short === 0) {
        this.#woken = false;
        await this.#giveBack();
        const leaseId = this.#lease.id;
        await this.#releaseStrays(leaseId);
        const jobs = await this.#claim(leaseId);
        if (jobs.length === 0) continue;
        this.#woken = true;
        void this.#runBatch(jobs, leaseId);
      }
    } catch (error) {
      // The next poll tries again; when it is the database that is gone, there is nothing to do until then.
      this.#log.warn({ err: error, kind: this.#kind }, 'jobs could not be claimed');
    } finally {
      this.#claiming = false;
      this.#sayIfIdle();
    }
  }

  /**
   * A connection can break after a claim was committed and before its answer came: such jobs are held by a worker that lives and will
   * never do them. No claim is under way here, so whatever is leased to us and not at work is one of those.
   */
  async #releaseStrays(leaseId: string): Promise<void> {
    if (!this.#lookForStrays) return;
    this.#lookForStrays = false;
    const strays = await releaseStrays(this.#db, leaseId, this.#kind, [...this.#held]);
    if (strays > 0)
      this.#log.warn(
        { kind: this.#kind, jobs: strays },
        'the answer to a claim was lost; its jobs are free again',
      );
  }

  async #claim(leaseId: string): Promise<Job[]> {
    const busy = [...this.#activeByProject].filter(([, batches]) => batches >= this.#handler.slotsPerProject);
    this.#turns += 1;
    const jobs = await claim(this.#db, {
      kind: this.#kind,
      leaseId,
      maxJobs: this.#handler.maxJobs,
      maxWeight: this.#handler.maxWeight,
      maxProjects: this.#handler.maxProjects,
      exceptProjects: busy.map(([projectId]) => projectId),
      afterProject: this.#afterProject,
      oldestFirst: this.#turns % OLDEST_EVERY === 0,
    });
    this.#afterProject = jobs.at(-1)?.projectId ?? this.#afterProject;
    return jobs;
  }

  async #runBatch(jobs: Job[], leaseId: string): Promise<void> {
    const projects = new Set(jobs.map((job) => job.projectId));
    const short = jobs.reduce((sum, job) => sum + job.weight, 0) < this.#handler.gatherBelow;
    this.#active += 1;
    if (short) this.#short += 1;
    for (const job of jobs) this.#held.add(job.id);
    for (const id of projects) this.#activeByProject.set(id, (this.#activeByProject.get(id) ?? 0) + 1);
    try {
      await this.#handler.run(jobs, leaseId);
    } catch (error) {
      await this.#afterFailure(jobs, leaseId, error);
    } finally {
      this.#active -= 1;
      if (short) this.#short -= 1;
      for (const job of jobs) this.#held.delete(job.id);
      for (const id of projects) {
        const batches = (this.#activeByProject.get(id) ?? 1) - 1;
        if (batches === 0) this.#activeByProject.delete(id);
        else this.#activeByProject.set(id, batches);
      }
      this.wake();
      this.#sayIfIdle();
    }
  }

  /** One job that cannot be done must not hold up those that were claimed with it: each is tried by itself. */
  async #afterFailure(jobs: Job[], leaseId: string, error: unknown): Promise<void> {
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
          await this.#handler.run([again], leaseId);
        } catch (alone) {
          await this.#afterFailure([again], leaseId, alone);
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
    if (this.#active > 0 || this.#claiming) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

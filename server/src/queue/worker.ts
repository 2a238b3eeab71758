import type { Database } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { waitMs } from '../lib/wait.ts';
import { findWork } from './find-work.ts';
import type { Handler } from './handler.ts';
import { jobFacts } from './job-facts.ts';
import { JOB_KINDS, type JobKind, type Work } from './jobs.ts';
import { type DelayedJob, Lease, Rescuer } from './lease.ts';
import { Producer } from './producer.ts';
import { promote } from './promote.ts';

/** The handlers of all kinds. */
export type Handlers = { readonly [Kind in JobKind]: Handler<Kind> };

// A commit in this process wakes the worker, and NOTIFY one of another process. The poll finds the rest.
const POLL_MS = 1_000;
// How long `stop` waits after it has called `hurry`.
const HURRY_MS = 3_000;
// A worker may have had thousands of jobs when it ended.
const MAX_REPORTED = 20;

/** Claims jobs and hands them to their handlers until stopped. */
export class Worker {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #rescuer: Rescuer;
  readonly #producers: ReadonlyMap<JobKind, Producer>;
  readonly #pollMs: number;
  #poll: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: {
    db: Database;
    clock: Clock;
    log: Logger;
    node: string;
    keyIds?: readonly string[];
    handlers: Handlers;
    /** The part of the jobs that this process runs. Others run the rest. */
    work: Work;
    pollMs?: number | undefined;
    /** Called with each kind of which a batch has enqueued ready jobs. */
    announce?: (kind: JobKind) => void;
  }) {
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#rescuer = new Rescuer(options.db, { onDelayed: (jobs) => this.#reportDelayed(jobs) });
    this.#lease = new Lease({
      db: options.db,
      node: options.node,
      keyIds: options.keyIds,
      onError: (error) => this.#log.warn({ err: error }, 'the worker could not renew its lease'),
    });
    const wakeKind = (kind: JobKind) => {
      this.producer(kind).wake();
      options.announce?.(kind);
    };
    this.#producers = new Map(
      JOB_KINDS.map((kind) => {
        const handler = options.handlers[kind] as Handler;
        return [kind, new Producer({ ...options, lease: this.#lease, kind, handler, wakeKind })];
      }),
    );
  }

  async start(): Promise<void> {
    await this.#lease.start();
    for (const producer of this.#producers.values()) producer.start();
    const poll = () => {
      this.#polling ??= this.#pollOnce().finally(() => {
        this.#polling = undefined;
      });
    };
    this.#poll = setInterval(poll, this.#pollMs);
    poll();
  }

  /** The producer of a kind. */
  producer(kind: JobKind): Producer {
    const producer = this.#producers.get(kind);
    if (producer === undefined) throw new Error(`no producer for jobs of the kind ${kind}`);
    return producer;
  }

  /**
   * Stops claiming, and waits for running batches for at most `graceMs`. Then calls `hurry`, which should end
   * them. Releases the jobs of batches that run even longer.
   */
  stop(graceMs: number, hurry: () => Promise<void> = async () => {}): Promise<void> {
    this.#stopping ??= this.#stop(graceMs, hurry);
    return this.#stopping;
  }

  async #stop(graceMs: number, hurry: () => Promise<void>): Promise<void> {
    clearInterval(this.#poll);
    const idle = Promise.all([...this.#producers.values()].map((producer) => producer.stop()));
    if (!(await endsWithin(idle, graceMs))) await endsWithin(Promise.all([hurry(), idle]), HURRY_MS);
    await this.#polling;
    await this.#lease.stop().catch((error: unknown) => {
      this.#log.warn({ err: error }, 'the lease could not be ended; its jobs are released when it expires');
    });
  }

  /** One of these jobs may be the reason why its workers end. Those that were there most often come first. */
  #reportDelayed(jobs: readonly DelayedJob[]): void {
    const sorted = jobs.toSorted((a, b) => b.cutOffs - a.cutOffs || a.id - b.id);
    for (const job of sorted.slice(0, MAX_REPORTED)) {
      const { attempt: attempts, cutOffs, dueAt } = job;
      const facts = { ...jobFacts(job), attempts, cutOffs, dueAt };
      this.#log.warn(facts, 'a job waits, because its workers have ended');
    }
    const more = sorted.length - MAX_REPORTED;
    if (more > 0) this.#log.warn({ jobs: more }, 'more jobs wait, because their workers have ended');
  }

  async #pollOnce(): Promise<void> {
    let found: ReadonlySet<JobKind> = new Set(JOB_KINDS);
    try {
      const kinds = new Set<JobKind>();
      for (let more = true; more; ) {
        const nowMs = this.#clock.now();
        for (const kind of await this.#rescuer.rescue(this.#lease.id, nowMs)) kinds.add(kind);
        const due = await promote(this.#db, nowMs);
        for (const kind of due.kinds) kinds.add(kind);
        more = due.more;
      }
      if (kinds.size > 0) this.#log.debug({ kinds: [...kinds] }, 'jobs became ready');
      found = await findWork(this.#db, this.#lease.id);
    } catch (error) {
      this.#log.warn({ err: error }, 'the queue could not be polled');
    }
    for (const kind of found) this.producer(kind).poll();
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

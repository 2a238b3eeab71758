import type { Database } from '../db/client.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import { waitMs } from '../lib/wait.ts';
import { JOB_KINDS, type JobKind } from './jobs.ts';
import { type Handler, Lane, type Reservation } from './lane.ts';
import { Lease, rescue } from './lease.ts';
import { promote } from './promote.ts';

/** How jobs are done. */
export type Handlers = { readonly [Kind in JobKind]: Handler<Kind> };

// A commit in this process wakes the worker, and NOTIFY does from another; the poll finds what both missed.
const POLL_MS = 1_000;
// After the work that still runs was told to end, so long.
const HURRY_MS = 3_000;
/** Claims jobs and hands them to their handlers until stopped. */
export class Worker {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #lease: Lease;
  readonly #lanes: ReadonlyMap<JobKind, Lane>;
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
    pollMs?: number | undefined;
  }) {
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#lease = new Lease({
      db: options.db,
      node: options.node,
      keyIds: options.keyIds,
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
    }, this.#pollMs);
    for (const lane of this.#lanes.values()) lane.start();
  }

  /** There may be ready jobs of this kind. */
  wake(kind: JobKind): void {
    this.#lanes.get(kind)?.wake();
  }

  /**
   * Room for jobs that are about to be written: written under the lease of the answer they are ours from the
   * start, and need not be claimed. The answer is undefined when others are waiting; then they are to be
   * written as ready.
   */
  reserve(kind: JobKind, jobs: number, weight: number): Reservation | undefined {
    return this.#lanes.get(kind)?.reserve(jobs, weight);
  }

  /** Batches now at work. */
  get active(): number {
    return [...this.#lanes.values()].reduce((sum, lane) => sum + lane.active, 0);
  }

  /**
   * Claims no more and lets running batches end for at most `graceMs`; then `hurry` is to bring them to an
   * end. What has not ended even then is given back.
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

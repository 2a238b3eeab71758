import { isOfOneItem } from '../db/client.ts';
import { Batcher } from '../lib/batcher.ts';
import type { Logger } from '../lib/log.ts';
import { waitMs } from '../lib/wait.ts';

// A commit that takes longer counts as a failure. Shorter than a lease lasts without renewal (8 s): this
// worker sends nothing more of its jobs when other workers may claim them.
const BLOCKED_AFTER_MS = 5_000;
const RETRY_EVERY_MS = 250;

/**
 * Writes the outcomes of jobs in batches, in the order of the reports. No report is dropped while the process
 * lives: while the database cannot be written to (unavailable, read-only, disk full), reports are kept and
 * retried. Meanwhile `isBlocked` is true and nothing new may be sent. So the reports are bounded by the sends
 * in flight, and a crash can repeat only those.
 */
export class OutcomeWriter<Report extends object> {
  readonly #commit: (reports: readonly Report[], isRetry: boolean) => Promise<void>;
  readonly #log: Logger;
  readonly #onUnblocked: () => void;
  readonly #batcher: Batcher<Report, Report>;
  readonly #closing = new AbortController();
  /** Reports whose commit may have been made although it failed. Later they may be in another batch. */
  readonly #tried = new WeakSet<Report>();
  /** When the current batch started, and whether it has failed more than once. */
  #beganMs: number | undefined;
  #isFailing = false;

  /** `commit` writes reports in one transaction. With `isRetry` an earlier try may have been committed. */
  constructor(options: {
    commit: (reports: readonly Report[], isRetry: boolean) => Promise<void>;
    /** The time between the starts of two batches, unless one is full. Default: until one is written. */
    everyMs?: number;
    maxReports: number;
    log: Logger;
    /** Called when `isBlocked` has become false. */
    onUnblocked: () => void;
  }) {
    this.#commit = options.commit;
    this.#log = options.log;
    this.#onUnblocked = options.onUnblocked;
    this.#batcher = new Batcher({
      run: async (reports) => {
        await this.#commitUntilWritten(reports);
        return reports;
      },
      concurrency: 1,
      maxItems: options.maxReports,
      // A report that cannot be written must not affect the others: their messages would be sent again.
      splitAfter: isOfOneItem,
      ...(options.everyMs === undefined ? {} : { everyMs: options.everyMs }),
    });
  }

  /** While true, nothing may be sent: its outcome could not be written. */
  get isBlocked(): boolean {
    return this.#isFailing || performance.now() - (this.#beganMs ?? Infinity) > BLOCKED_AFTER_MS;
  }

  /** Resolves when the report is committed. Rejects if the report itself cannot be written. */
  async report(report: Report): Promise<void> {
    await this.#batcher.add(report);
  }

  /** Ends the retries. Reports that were not written are lost, and their jobs run again. */
  close(): void {
    this.#closing.abort();
  }

  async #commitUntilWritten(reports: readonly Report[]): Promise<void> {
    this.#beganMs = performance.now();
    try {
      for (let failures = 0; ; ) {
        try {
          await this.#commit(
            reports,
            reports.some((one) => this.#tried.has(one)),
          );
          return;
        } catch (error) {
          if (isOfOneItem(error)) throw error; // it was rolled back
          for (const one of reports) this.#tried.add(one);
          if (this.#closing.signal.aborted) throw error;
          failures += 1;
          // A deadlock or a broken connection passes immediately, and is no reason to stop sending.
          if (failures === 1) continue;
          this.#noteFailure(error);
          await waitMs(RETRY_EVERY_MS, this.#closing.signal).catch(() => {});
        }
      }
    } finally {
      this.#noteEnd();
    }
  }

  #noteFailure(error: unknown): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#log.warn({ err: error }, 'outcomes cannot be written: nothing is sent until they can');
  }

  #noteEnd(): void {
    const wasBlocked = this.isBlocked;
    if (this.#isFailing) this.#log.info('outcomes can be written again');
    this.#isFailing = false;
    this.#beganMs = undefined;
    if (wasBlocked) this.#onUnblocked();
  }
}

import { type Database, isDatabaseUnavailable } from '../../db/client.ts';
import { Batcher } from '../../lib/batcher.ts';
import { waitMs } from '../../lib/wait.ts';
import type { AddressKeys } from '../suppressions/address-keys.ts';
import { type DeliveryOutcome, type FinishedJob, writeOutcomes } from './write-outcomes.ts';

export type Report = { outcome: DeliveryOutcome } | { finished: FinishedJob };

// Written down every 50 ms or 500 results: what a crash repeats is what was sent since.
const LINGER_MS = 50;
const MAX_REPORTS = 500;
// While the database is away the outcomes are kept; after that the job is repeated by whoever claims it.
const KEEP_TRYING_MS = 120_000;
const RETRY_EVERY_MS = 250;

/**
 * Writes down what became of deliveries, in batches, in the order of the reports. An outcome is a fact, true whoever holds the lease by now,
 * and a final one is never overwritten; that makes the count of finals exact whatever is repeated. The job itself is only
 * ended under the lease that it was claimed with.
 */
export class OutcomeRecorder {
  readonly #db: Database;
  readonly #addressKeys: AddressKeys;
  readonly #onRecorded: (outcomes: readonly DeliveryOutcome[], retriesQueued: boolean) => void;
  readonly #batcher: Batcher<Report, Written>;

  constructor(options: {
    db: Database;
    addressKeys: AddressKeys;
    onRecorded: (outcomes: readonly DeliveryOutcome[], retriesQueued: boolean) => void;
  }) {
    this.#db = options.db;
    this.#addressKeys = options.addressKeys;
    this.#onRecorded = options.onRecorded;
    this.#batcher = new Batcher({
      run: (reports) => this.#write(reports),
      concurrency: 1,
      maxItems: MAX_REPORTS,
      lingerMs: LINGER_MS,
    });
  }

  /** Resolves when the report is committed. */
  async report(report: Report): Promise<void> {
    const written = await this.#batcher.add(report);
    if (!written.ok) throw written.error;
  }

  async #write(reports: Report[]): Promise<Written[]> {
    try {
      await this.#commit(reports);
      return reports.map(() => ({ ok: true }));
    } catch (error) {
      // What one report did to the batch must not be held against the others: their e-mails would be sent again.
      if (reports.length === 1 || isDatabaseUnavailable(error))
        return reports.map(() => ({ ok: false, error }));
      const written: Written[] = [];
      for (const report of reports) written.push(...(await this.#write([report])));
      return written;
    }
  }

  async #commit(reports: readonly Report[]): Promise<void> {
    const outcomes = reports.flatMap((report) => ('outcome' in report ? [report.outcome] : []));
    const finished = reports.flatMap((report) => ('finished' in report ? [report.finished] : []));
    const until = performance.now() + KEEP_TRYING_MS;
    for (let isRepeat = false; ; isRepeat = true) {
      try {
        const { written, retries } = await this.#db.transaction((tx) =>
          writeOutcomes({ tx, addressKeys: this.#addressKeys, isRepeat }, outcomes, finished),
        );
        this.#onRecorded(written, retries > 0);
        return;
      } catch (error) {
        if (!isDatabaseUnavailable(error) || performance.now() > until) throw error;
        await waitMs(RETRY_EVERY_MS);
      }
    }
  }
}

type Written = { ok: true } | { ok: false; error: unknown };

import type { Database } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import { OutcomeWriter } from '../../../queue/outcome-writer.ts';
import type { AddressKeys } from '../../ground/suppressions/address-keys.ts';
import { type DeliveryOutcome, type FinishedJob, writeOutcomes } from './write-outcomes.ts';

export type Report = { outcome: DeliveryOutcome } | { finished: FinishedJob };

// Written every 50 ms or 500 results: a crash repeats only what was sent since the last write.
const LINGER_MS = 50;
const MAX_REPORTS = 500;

/**
 * Records the outcomes of deliveries, in batches. An outcome is a fact and is written even if the worker has
 * lost its lease; a final one is never overwritten. That makes the count of final outcomes exact whatever is
 * repeated. The job itself ends only under the lease that it was claimed with.
 */
export class OutcomeRecorder {
  readonly #writer: OutcomeWriter<Report>;

  constructor({
    db,
    addressKeys,
    log,
    onRecorded,
    onUnblocked = () => {},
  }: {
    db: Database;
    addressKeys: AddressKeys;
    log: Logger;
    onRecorded: (outcomes: readonly DeliveryOutcome[], retriesQueued: boolean) => void;
    /** Called when deliveries may be sent after a block. */
    onUnblocked?: () => void;
  }) {
    this.#writer = new OutcomeWriter({
      async commit(reports, isRepeat) {
        const outcomes = reports.flatMap((report) => ('outcome' in report ? [report.outcome] : []));
        const finished = reports.flatMap((report) => ('finished' in report ? [report.finished] : []));
        const { written, retries } = await db.transaction((tx) =>
          writeOutcomes({ tx, addressKeys, isRepeat }, outcomes, finished),
        );
        onRecorded(written, retries > 0);
      },
      lingerMs: LINGER_MS,
      maxReports: MAX_REPORTS,
      log,
      onUnblocked,
    });
  }

  /** While true, nothing may be sent: see OutcomeWriter. */
  get isBlocked(): boolean {
    return this.#writer.isBlocked;
  }

  /** Resolves when the report is committed. */
  report(report: Report): Promise<void> {
    return this.#writer.report(report);
  }

  close(): void {
    this.#writer.close();
  }
}

import type { Database } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import { waitMs } from '../../../lib/wait.ts';
import { endPauses, type Pause, type PauseKey, writePauses } from './pauses.ts';

const RETRY_EVERY_MS = 1_000;

/**
 * Writes which integrations are paused, for the API, `doctor` and other nodes. While the database is busy or
 * unavailable it keeps only the latest change of each integration.
 */
export class PauseRecorder {
  readonly #db: Database;
  readonly #log: Logger;
  /** The changes to write; `pause` is undefined for the end of a pause. */
  readonly #changes = new Map<string, { key: PauseKey; pause: Pause | undefined }>();
  #writing: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor({ db, log }: { db: Database; log: Logger }) {
    this.#db = db;
    this.#log = log;
  }

  paused(pause: Pause): void {
    this.#change(pause, pause);
  }

  resumed(key: PauseKey): void {
    this.#change(key, undefined);
  }

  /** Writes the remaining changes, unless the database is unavailable. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#writing;
  }

  #change(key: PauseKey, pause: Pause | undefined): void {
    this.#changes.set(`${key.projectId}:${key.integrationId}:${key.host}`, { key, pause });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#changes.size > 0) {
      const changes = [...this.#changes];
      this.#changes.clear();
      try {
        const pauses = changes.flatMap(([, { pause }]) => pause ?? []);
        const ended = changes.flatMap(([, { key, pause }]) => (pause === undefined ? [key] : []));
        await this.#db.transaction(async (tx) => {
          if (pauses.length > 0) await writePauses(tx, pauses);
          if (ended.length > 0) await endPauses(tx, ended);
        });
      } catch (error) {
        this.#log.warn({ err: error }, 'could not write the pauses of integrations; retrying');
        if (this.#closing.signal.aborted) return;
        for (const [name, change] of changes) if (!this.#changes.has(name)) this.#changes.set(name, change);
        await waitMs(RETRY_EVERY_MS, this.#closing.signal).catch(() => {});
      }
    }
  }
}

import { type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from './messages.ts';

// A statement whose connection broke may still be running. It ends soon, or the server is gone.
const ASK_EVERY_MS = 500;

/**
 * Commits whose response was lost: they may have succeeded, and no message announces what they wrote. When
 * the database responds, `missed` makes subscribers read it. Not before: they would fail to, and disconnect
 * their clients.
 */
export class LostResponses {
  readonly #db: Pick<Queryable, 'query'>;
  readonly #bus: Pick<Bus, 'publish'>;
  #sinceMs: number | undefined;

  constructor({ db, bus }: { db: Pick<Queryable, 'query'>; bus: Pick<Bus, 'publish'> }) {
    this.#db = db;
    this.#bus = bus;
  }

  /** Notes that notifications created after `sinceMs`, by the database's clock, may be missing. */
  note(sinceMs: number): void {
    const isNoted = this.#sinceMs !== undefined;
    this.#sinceMs = Math.min(this.#sinceMs ?? sinceMs, sinceMs);
    if (!isNoted) this.#askLater();
  }

  #askLater(): void {
    setTimeout(() => void this.#publish(), ASK_EVERY_MS).unref();
  }

  async #publish(): Promise<void> {
    try {
      await this.#db.query(ping);
    } catch {
      this.#askLater();
      return;
    }
    const sinceMs = this.#sinceMs;
    this.#sinceMs = undefined;
    this.#bus.publish({ type: 'missed', sinceMs });
  }
}

const ping = sql('ping', 'select 1');

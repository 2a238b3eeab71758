import { isClosed, isResponseLost, type Queryable, sql } from '../../../db/client.ts';
import type { Bus, MessagesMissed } from './messages.ts';

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
  #missed: Omit<MessagesMissed, 'type'> | undefined;

  constructor({ db, bus }: { db: Pick<Queryable, 'query'>; bus: Pick<Bus, 'publish'> }) {
    this.#db = db;
    this.#bus = bus;
  }

  /**
   * Notes that a commit failed. If its response was lost, notifications may be missing that were created
   * after `sinceMs`. `untilMs` is the time of the failure, if it is known. Both are by the database's clock.
   */
  note(error: unknown, { sinceMs, untilMs }: { sinceMs: number; untilMs: number | undefined }): void {
    if (!isResponseLost(error)) return;
    const noted = this.#missed;
    this.#missed = {
      sinceMs: Math.min(noted?.sinceMs ?? sinceMs, sinceMs),
      untilMs:
        untilMs === undefined || (noted !== undefined && noted.untilMs === undefined)
          ? undefined
          : Math.max(noted?.untilMs ?? 0, untilMs + ASK_EVERY_MS),
    };
    if (noted === undefined) this.#askLater();
  }

  #askLater(): void {
    setTimeout(() => void this.#publish(), ASK_EVERY_MS).unref();
  }

  async #publish(): Promise<void> {
    try {
      await this.#db.query(ping);
    } catch (error) {
      if (!isClosed(error)) this.#askLater();
      return;
    }
    const missed = this.#missed;
    this.#missed = undefined;
    if (missed !== undefined) this.#bus.publish({ type: 'missed', ...missed });
  }
}

const ping = sql('ping', 'select 1');

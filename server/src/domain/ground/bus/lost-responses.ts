import { isClosed, isResponseLost, type Queryable } from '../../../db/client.ts';
import { databaseMs } from '../../../db/database-clock.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Bus } from './messages.ts';

// A statement whose connection broke may still be running. It ends soon, or the server is gone.
const ASK_EVERY_MS = 500;
// How far the clock of the service, which follows the database's, may be corrected meanwhile.
const MAX_CORRECTION_MS = 1_000;

/**
 * Writes whose response was lost: they may have succeeded, and no message announces what they changed. When
 * the database responds, `missed` makes subscribers read it. Not before: they would fail to, and disconnect
 * their clients.
 */
export class LostResponses {
  readonly #db: Pick<Queryable, 'query'>;
  readonly #bus: Pick<Bus, 'publish'>;
  readonly #clock: Clock;
  /** When the first of them began, and the last one failed. */
  #noted: { sinceMs: number; untilMs: number } | undefined;

  constructor({
    db,
    bus,
    clock,
  }: {
    db: Pick<Queryable, 'query'>;
    bus: Pick<Bus, 'publish'>;
    clock: Clock;
  }) {
    this.#db = db;
    this.#bus = bus;
    this.#clock = clock;
  }

  /** Notes that a write failed that began at `beganMs`, by the clock of the service. */
  note(error: unknown, beganMs: number): void {
    if (!isResponseLost(error)) return;
    const noted = this.#noted;
    this.#noted = { sinceMs: Math.min(noted?.sinceMs ?? beganMs, beganMs), untilMs: this.#clock.now() };
    if (noted === undefined) this.#askLater();
  }

  #askLater(): void {
    setTimeout(() => void this.#publish(), ASK_EVERY_MS).unref();
  }

  async #publish(): Promise<void> {
    const askedMs = this.#clock.now();
    let nowMs: number;
    try {
      nowMs = await databaseMs(this.#db);
    } catch (error) {
      if (!isClosed(error)) this.#askLater();
      return;
    }
    const noted = this.#noted;
    this.#noted = undefined;
    if (noted === undefined) return;
    // The last of them may still be running, and commit after subscribers have read: they read once more.
    if (noted.untilMs > askedMs - ASK_EVERY_MS) {
      this.#noted = noted;
      this.#askLater();
    }
    // Subscribers compare with the times of rows. The response may have taken long.
    const sinceMs = noted.sinceMs + (nowMs - this.#clock.now()) - MAX_CORRECTION_MS;
    const untilMs = noted.untilMs + (nowMs - askedMs) + ASK_EVERY_MS;
    this.#bus.publish({ type: 'missed', sinceMs: Math.floor(sinceMs), untilMs: Math.ceil(untilMs) });
  }
}

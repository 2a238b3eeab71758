/** Where time comes from, so that tests can move it. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
}

let epochMs: number | undefined;

/**
 * The time of the service: the database's, as soon as that is known (db/database-clock.ts), and this
 * machine's before that. Several servers share a database, and what is due or expired must not depend on
 * whose clock is wrong. In between it follows the monotonic clock, so a change of this machine's clock moves
 * nothing.
 */
export const systemClock: Clock = {
  now: () => (epochMs === undefined ? Date.now() : Math.floor(epochMs + performance.now())),
};

/** Sets the time of the service: it was `nowMs` when `performance.now()` was `atMs`. */
export function setClock(nowMs: number, atMs: number): void {
  epochMs = nowMs - atMs;
}

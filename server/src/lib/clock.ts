/** The source of time, which tests can replace. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
}

let epochMs: number | undefined;

/**
 * The time of the service: the database's once it is known (db/database-clock.ts), this machine's before
 * that. Several servers share a database, and due and expired times must not depend on a wrong clock. Between
 * synchronisations it follows the monotonic clock, so changes of this machine's clock have no effect.
 */
export const systemClock: Clock = {
  now: () => (epochMs === undefined ? Date.now() : Math.floor(epochMs + performance.now())),
};

/** Sets the time of the service: it was `nowMs` when `performance.now()` was `atMs`. */
export function setClock(nowMs: number, atMs: number): void {
  epochMs = nowMs - atMs;
}

/** The milliseconds since a time. Infinity if the clock has gone back behind it: caches then read again. */
export function sinceMs(clock: Clock, thenMs: number): number {
  const ms = clock.now() - thenMs;
  return ms < 0 ? Number.POSITIVE_INFINITY : ms;
}

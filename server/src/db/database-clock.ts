import { setClock, systemClock } from '../lib/clock.ts';
import { resetIds } from '../lib/ids.ts';
import type { Logger } from '../lib/log.ts';
import { type Queryable, sql } from './client.ts';
import { StartError } from './embedded/start-error.ts';

const EVERY_MS = 5_000;
// A larger difference is logged, because certificates are still checked by this machine's clock.
const TOLERATED_MS = 30_000;
// If the clock goes back by less, ids still rise and have a time in the future. After more, they would have
// it for too long: times of creation, months and retention follow from ids.
const IDS_AHEAD_MS = 24 * 3_600_000;

/**
 * Sets the service's time by the database's clock, again and again until `stop`. Resolves after the first
 * reading. While the database does not respond, the monotonic clock continues.
 */
export async function followDatabaseClock({
  db,
  log,
}: {
  db: Queryable;
  log: Logger;
}): Promise<{ stop(): void }> {
  const differsByMs = await readClock(db);
  // Ids rise: without this, all would have the time of one that was made by a clock that is ahead.
  resetIds(systemClock.now());
  if (Math.abs(differsByMs) > TOLERATED_MS)
    log.warn(
      { differs_by_ms: differsByMs },
      "This machine's clock differs from the database's, which is used; " +
        'correct it, because certificates are checked by it',
    );
  let reading = false;
  const timer = setInterval(() => {
    if (reading) return;
    reading = true;
    void readClock(db)
      .then(() => resetIds(systemClock.now() + IDS_AHEAD_MS))
      .catch(() => undefined) // the next one tries again
      .finally(() => {
        reading = false;
      });
  }, EVERY_MS);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/**
 * Throws a `StartError` if the clock of a cell's database differs from the service's, which is that of the
 * default cell. All cells use that one: a second clock would let one database expire what is in another.
 */
export async function checkClockOfCell(db: Queryable): Promise<void> {
  const { nowMs, atMs } = await askClock(db);
  const serviceMs = systemClock.now() - (performance.now() - atMs);
  const aheadMs = nowMs - serviceMs;
  if (Math.abs(aheadMs) <= TOLERATED_MS) return;
  throw new StartError(
    `the clock of its database is ${Math.round(Math.abs(aheadMs) / 1000)} s ` +
      `${aheadMs > 0 ? 'ahead of' : 'behind'} that of the first cell: set both by NTP`,
  );
}

/** Sets the clock. Returns how far this machine's clock is ahead. */
async function readClock(db: Queryable): Promise<number> {
  const { nowMs, atMs } = await askClock(db);
  setClock(nowMs, atMs);
  return Math.round(Date.now() - nowMs);
}

/** Returns the time of a database, and what `performance.now()` was then. */
async function askClock(db: Queryable): Promise<{ nowMs: number; atMs: number }> {
  const askedAt = performance.now();
  const nowMs = await databaseMs(db);
  return { nowMs, atMs: (askedAt + performance.now()) / 2 };
}

/** The time of the database, in Unix milliseconds. */
export async function databaseMs(db: Pick<Queryable, 'query'>): Promise<number> {
  const [row] = await db.query<{ now_ms: number }>(selectNow);
  if (row === undefined) throw new Error('the database returned no time');
  return row.now_ms;
}

const selectNow = sql(
  'database_clock',
  'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms',
);

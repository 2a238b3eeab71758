import { hash, randomInt } from 'node:crypto';
import { byteaArray, textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { waitMs } from '../../../lib/wait.ts';
import { type RateLimit, RateLimiter, type RatePermit } from './rate-limiter.ts';

// Requests of one statement. Their schedules stay far below the memory of the limiter, which drops none.
const MAX_REQUESTS = 200;
// Another node has changed a schedule: the next attempt follows within this time, at random.
const RETRY_WITHIN_MS = 5;
// After this many attempts a message is deferred, for about this long.
const MAX_ATTEMPTS = 10;
const CONTENDED_DEFERRAL_MS = 100;
// After a write a node pauses: at random, up to twice the duration of the statement, within these bounds.
// Otherwise a node that always has messages would be the first one each time.
const MIN_PAUSE_MS = 10;
const MAX_PAUSE_MS = 100;
// Permits are computed for the end of the statement, which probably takes as long as the last one. They are
// computed for at most this much later.
const MAX_LEAD_MS = 1_000;
// Permits that are already later than this when the statement ends are stale: they would all leave at once.
const MAX_LATE_MS = 100;
// A version is a random number below this one.
const VERSIONS = 2 ** 48 - 1;
// For how long messages are deferred if the database cannot be reached.
const UNAVAILABLE_DEFERRAL_MS = 1_000;
// A limit that is far too small (one in a year) is checked again after a day.
const LONGEST_WINDOW_MS = 24 * 3_600_000;
// Rows are purged this long after their windows ended.
const KEEP_MS = 60_000;

interface Request {
  limits: readonly RateLimit[];
  targetId: string;
  hasReturned: boolean;
  attempts: number;
  resolve: (permit: RatePermit) => void;
}

/**
 * The rate limiter of all nodes of a database. The schedules are in table `rate_schedules`. A node computes
 * the permits of all messages that wait at that moment on its copy, and writes it if no other node has
 * written since; otherwise it repeats that on the newer one. No lock is held meanwhile, so a node that stops
 * delays no other. A message whose schedule other nodes change all the time is deferred.
 */
export class SharedRateLimiter {
  readonly #db: Queryable;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #limiter = new RateLimiter({ keepsReservations: false });
  #waiting: Request[] = [];
  #isWriting = false;
  /** How long the last statement took, up to MAX_LEAD_MS. */
  #leadMs = 0;

  constructor({ db, clock, log }: { db: Queryable; clock: Clock; log: Logger }) {
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
  }

  /** See RateLimiter. */
  take(
    limits: readonly RateLimit[],
    targetId: string,
    _nowMs: number,
    hasReturned = false,
  ): RatePermit | Promise<RatePermit> {
    if (limits.length === 0) return { waitMs: 0 };
    return new Promise((resolve) => {
      this.#waiting.push({ limits: limits.map(hashed), targetId, hasReturned, attempts: 0, resolve });
      if (this.#isWriting) return;
      this.#isWriting = true;
      setImmediate(() => void this.#work()); // gathers the messages of a batch
    });
  }

  async #work(): Promise<void> {
    let left: Request[] = [];
    while (left.length > 0 || this.#waiting.length > 0) {
      const requests = [...left, ...this.#waiting.splice(0, MAX_REQUESTS - left.length)];
      left = await this.#takeAll(requests).catch((error: unknown) => {
        this.#log.warn({ err: error }, 'the rates could not be read; messages are deferred');
        // Whether the last statement was committed is not known.
        for (const { limits } of requests)
          for (const limit of limits) this.#limiter.restore(limit, undefined);
        const deferredUntilMs = this.#clock.now() + UNAVAILABLE_DEFERRAL_MS;
        for (const { resolve } of requests) resolve({ deferredUntilMs });
        return [];
      });
      const pauseMs = Math.min(Math.max(2 * this.#leadMs, MIN_PAUSE_MS), MAX_PAUSE_MS);
      await waitMs(Math.random() * (left.length > 0 ? RETRY_WITHIN_MS : pauseMs));
    }
    this.#isWriting = false;
  }

  /** Resolves requests. Returns those whose schedules another node had written, for another attempt. */
  async #takeAll(requests: readonly Request[]): Promise<Request[]> {
    const startedMs = this.#clock.now();
    const leadMs = this.#leadMs;
    const permits = requests.map(({ limits, targetId, hasReturned }) =>
      this.#limiter.take(limits, targetId, startedMs + leadMs, hasReturned),
    );
    const stale = await this.#swap(requests, startedMs);
    const nowMs = this.#clock.now();
    this.#leadMs = Math.min(Math.max(nowMs - startedMs, 0), MAX_LEAD_MS);
    return requests.filter((request, n) => {
      const permit = permits[n];
      const isStale = request.limits.some(({ key }) => stale.has(key));
      if (!isStale && permit !== undefined) {
        request.resolve(this.#after(permit, startedMs + leadMs, nowMs));
        return false;
      }
      request.attempts += 1;
      if (request.attempts < MAX_ATTEMPTS) return true;
      request.resolve({ deferredUntilMs: Math.ceil(nowMs + CONTENDED_DEFERRAL_MS * (0.5 + Math.random())) });
      return false;
    });
  }

  /** Writes the schedules of requests. Returns the keys that another node had written, after reading them. */
  async #swap(requests: readonly Request[], nowMs: number): Promise<ReadonlySet<string>> {
    const limits = new Map(requests.flatMap((request) => request.limits.map((limit) => [limit.key, limit])));
    const keys = [...limits.keys()];
    const states = keys.map((key) => this.#limiter.stateOf(key));
    const newVersion = randomInt(VERSIONS);
    const rows = await this.#db.query<Row>(swapSchedules, [
      textArray(keys),
      states.map(({ version }) => version ?? null),
      byteaArray(states.map(({ times }) => times)),
      [...limits.values()].map(({ rates }) => new Date(nowMs + longestWindow(rates) + KEEP_MS)),
      newVersion,
    ]);
    const stale = new Set<string>();
    for (const { key, swapped, version, times, database_ms } of rows) {
      this.#limiter.databaseMs = database_ms;
      const limit = limits.get(key);
      if (limit === undefined) continue;
      if (swapped) this.#limiter.stored(key, newVersion);
      else {
        stale.add(key);
        this.#limiter.restore(limit, version === null || times === null ? undefined : { version, times });
      }
    }
    return stale;
  }

  /** The same permit, as seen from now. Defers the message if the permit is stale. */
  #after(permit: RatePermit, computedForMs: number, nowMs: number): RatePermit {
    if ('deferredUntilMs' in permit) return permit;
    const leftMs = computedForMs + permit.waitMs - nowMs;
    if (leftMs < -MAX_LATE_MS) return { deferredUntilMs: nowMs + this.#leadMs };
    // The clock may have been set back meanwhile.
    return { waitMs: Math.min(Math.max(leftMs, 0), permit.waitMs + MAX_LEAD_MS) };
  }
}

/** Keys may contain addresses of webhooks, which are secret. */
function hashed({ key, rates }: RateLimit): RateLimit {
  return { key: hash('sha256', key, 'base64url'), rates };
}

function longestWindow(rates: RateLimit['rates']): number {
  return Math.min(LONGEST_WINDOW_MS, Math.max(...rates.map(({ windowMs }) => windowMs)));
}

interface Row {
  key: string;
  swapped: boolean;
  /** Null if this node has written the row, or if another one inserts it at this moment; so is `times`. */
  version: number | null;
  times: Buffer | null;
  /** The time by the clock of the database. */
  database_ms: number;
}

/** Deletes schedules whose windows have ended. Reads the whole table: a row per limit in use. */
export async function purgeRateSchedules({ db, clock }: { db: Queryable; clock: Clock }): Promise<void> {
  await db.query(deleteOldSchedules, [new Date(clock.now())]);
}

// Primary key of rate_schedules. The commit does not wait for the disk: a crash of the database takes longer
// than most windows. A row that another node writes at this moment is returned as it was before, and the next
// attempt finds the new one. No version is used twice, also after a purge or a crash: a node may still have a
// copy of an earlier row.
const swapSchedules = sql(
  'swap_rate_schedules',
  `with swapped as (
    insert into rate_schedules as known (key, version, times, expires_at)
    select key, $5::bigint, times, expires_at
    from unnest($1::text[], $3::bytea[], $4::timestamptz[]) as g (key, times, expires_at)
    order by key
    on conflict (key) do update
    set version = excluded.version, times = excluded.times, expires_at = excluded.expires_at
    where known.version = ($2::bigint[])[array_position($1::text[], excluded.key)]
    returning key
  )
  select g.key, s.key is not null as swapped, k.version, k.times,
    (extract(epoch from now()) * 1000)::float8 as database_ms
  from (select set_config('synchronous_commit', 'off', true)) without_waiting, unnest($1::text[]) as g (key)
  left join swapped s on s.key = g.key
  left join rate_schedules k on k.key = any ($1::text[]) and k.key = g.key and s.key is null`,
);
const deleteOldSchedules = sql('purge_rate_schedules', 'delete from rate_schedules where expires_at < $1');

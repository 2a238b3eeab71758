import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { SlidingWindow, type Taken } from '../../../lib/sliding-window.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { Bus } from '../bus/messages.ts';

/** Counts the requests of callers per minute. `take` returns a promise only if it must ask the database. */
export interface RateWindows {
  take(name: string, limit: number): Taken | Promise<Taken>;
  /**
   * Returns what `take` would return if this node already knows that the limit is reached; otherwise
   * undefined. Takes nothing.
   */
  refusal(name: string, limit: number): Taken | undefined;
  close(): Promise<void>;
}

// About 400 bytes each: at most 20 MB. Beyond that, the least recently used window is dropped.
const MAX_WINDOWS = 50_000;

/** The windows of the only node of a database, in memory. */
export class OwnWindows implements RateWindows {
  readonly #windows = new LRUCache<string, SlidingWindow>(cacheLimit(MAX_WINDOWS));
  readonly #clock: Clock;

  constructor({ clock }: { clock: Clock }) {
    this.#clock = clock;
  }

  take(name: string, limit: number): Taken {
    let window = this.#windows.get(name);
    if (window === undefined) {
      window = new SlidingWindow();
      this.#windows.set(name, window);
    }
    return window.take(limit, this.#clock.now());
  }

  refusal(name: string, limit: number): Taken | undefined {
    return this.#windows.get(name)?.refusal(limit, this.#clock.now());
  }

  async close(): Promise<void> {}
}

// A node reserves as many permits at a time as the limit allows per second, and uses them in that second.
const SECONDS = 60;
const RELEASE_EVERY_MS = 1_000;
// How long a request waits for permits that other nodes reserved and may not need, and how often it checks.
const WAIT_FOR_PERMITS_MS = 1_000;
const CHECK_EVERY_MS = 15;

/** Permits that this node reserved in a window. */
interface Reservation {
  second: number;
  permits: number;
  free: number;
  oldest: number;
  /** No permits were left in this second: the database is not asked before the next. */
  exhausted: boolean;
  taking: Promise<void> | undefined;
}

/**
 * The windows that all nodes of a database share, in table `rate_windows`. A node reserves the permits of a
 * second in advance, so a busy caller costs one write per second instead of one per request; the last permits
 * are taken one by one. When none is left, other nodes are asked to release those that they do not need, so
 * exactly as many requests pass as the limit allows.
 */
export class SharedWindows implements RateWindows {
  readonly #db: Queryable;
  readonly #clock: Clock;
  readonly #bus: Bus;
  readonly #nodeId: string;
  readonly #held = new LRUCache<string, Reservation>(cacheLimit(MAX_WINDOWS));
  readonly #unsubscribe: () => void;
  readonly #timer: NodeJS.Timeout;
  #releasing: Promise<void> = Promise.resolve();

  constructor({ db, clock, bus, nodeId }: { db: Queryable; clock: Clock; bus: Bus; nodeId: string }) {
    this.#db = db;
    this.#clock = clock;
    this.#bus = bus;
    this.#nodeId = nodeId;
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'rate_limit_short' && message.nodeId !== nodeId) this.#releaseSoon([message.name]);
    });
    this.#timer = setInterval(() => this.#releaseSoon(this.#stale()), RELEASE_EVERY_MS);
    this.#timer.unref();
  }

  take(name: string, limit: number): Taken | Promise<Taken> {
    return this.#takeHeld(name, limit) ?? this.#takeShared(name, limit);
  }

  refusal(name: string, limit: number): Taken | undefined {
    return this.#held.get(name)?.exhausted === true ? this.#takeHeld(name, limit) : undefined;
  }

  /** Releases all reservations. Those that cannot be released expire after a minute. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    this.#releaseSoon([...this.#held.keys()]);
    await this.#releasing;
  }

  /**
   * Takes a permit that this node reserved in or after the second of the request, or refuses if it knows that
   * none is left. Returns undefined if the database has to be asked.
   */
  #takeHeld(name: string, limit: number, arrivedIn = this.#second()): Taken | undefined {
    const held = this.#held.get(name);
    if (held === undefined || !isOf(held, arrivedIn)) return undefined;
    if (held.permits > 0) held.permits -= 1;
    else if (!held.exhausted) return undefined;
    return {
      allowed: !held.exhausted,
      remaining: Math.min(limit, held.free + held.permits),
      resetSeconds: Math.max(1, held.oldest + SECONDS - this.#second()),
    };
  }

  async #takeShared(name: string, limit: number): Promise<Taken> {
    // Not the second of the response: a database that takes longer than a second would be asked without end.
    const arrivedIn = this.#second();
    for (;;) {
      const held = this.#of(name);
      held.taking ??= this.#refill(name, held, limit).finally(() => {
        held.taking = undefined;
      });
      await held.taking;
      const taken = this.#takeHeld(name, limit, arrivedIn);
      if (taken !== undefined) return taken;
    }
  }

  #of(name: string): Reservation {
    let held = this.#held.get(name);
    if (held === undefined) {
      held = { second: 0, permits: 0, free: 0, oldest: 0, exhausted: false, taking: undefined };
      this.#held.set(name, held);
    }
    return held;
  }

  async #refill(name: string, held: Reservation, limit: number): Promise<void> {
    const deadline = performance.now() + WAIT_FOR_PERMITS_MS;
    for (;;) {
      const second = this.#second();
      const unused = held.permits;
      held.permits = 0;
      const [row] = await this.#db.query<Row>(reservePermits, [
        name,
        this.#nodeId,
        second,
        limit,
        Math.ceil(limit / SECONDS),
        unused,
        held.second,
      ]);
      if (row === undefined) throw new Error('rate_take returned no row');
      held.second = second;
      held.permits = row.granted;
      held.free = row.free;
      held.oldest = row.oldest ?? second;
      held.exhausted = row.granted === 0;
      if (row.granted > 0 || row.others === 0 || performance.now() > deadline) return;
      this.#bus.publish({ type: 'rate_limit_short', name, nodeId: this.#nodeId });
      await waitMs(CHECK_EVERY_MS);
    }
  }

  #stale(): string[] {
    const second = this.#second();
    return [...this.#held].filter(([, held]) => !isOf(held, second)).map(([name]) => name);
  }

  #releaseSoon(names: readonly string[]): void {
    const released = names.flatMap((name) => {
      const held = this.#held.get(name);
      if (held === undefined || held.taking !== undefined) return [];
      const { permits, second } = held;
      this.#held.delete(name);
      return [{ name, permits, second }];
    });
    if (released.length === 0) return;
    this.#releasing = this.#releasing.then(async () => {
      await this.#db
        .query(releasePermits, [
          released.map(({ name }) => name),
          this.#nodeId,
          released.map(({ permits }) => permits),
          released.map(({ second }) => second),
        ])
        // Then they count as used for the rest of their minute.
        .catch(() => {});
    });
  }

  #second(): number {
    return Math.floor(this.#clock.now() / 1_000);
  }
}

/**
 * Whether permits were reserved in this second or later. More than a minute later means a clock that was
 * wrong.
 */
function isOf(held: Reservation, second: number): boolean {
  return held.second >= second && held.second - second < SECONDS;
}

interface Row {
  granted: number;
  free: number;
  others: number;
  oldest: number | null;
}

/** Deletes windows without requests in the last two minutes. Reads the whole table: one row per caller. */
export async function purgeRateWindows({ db, clock }: { db: Queryable; clock: Clock }): Promise<void> {
  await db.query(deleteOldWindows, [Math.floor(clock.now() / 1_000) - 2 * SECONDS]);
}

// Primary key of rate_windows. The commit does not wait for the disk: what a crash loses is counted again.
const reservePermits = sql(
  'rate_take',
  `select granted, free, others, oldest
  from (select set_config('synchronous_commit', 'off', true)) without_waiting,
    rate_take($1, $2, $3, $4, $5, $6, $7)`,
);
// In the order of names, so that two nodes that release the same ones do not deadlock.
const releasePermits = sql(
  'rate_give_back',
  `with given as (
    select w.name, g.places, g.second
    from unnest($1::text[], $3::int[], $4::bigint[]) as g (name, places, second)
    join rate_windows w on w.name = g.name
    where w.name = any ($1::text[])
    order by w.name
    for update of w
  ),
  released as (
    update rate_windows w
    set counts[(given.second % 60 + 1)::int] = case
        when abs(w.second - given.second) < 60
        then greatest(0, w.counts[(given.second % 60 + 1)::int] - given.places)
        else w.counts[(given.second % 60 + 1)::int]
      end,
      held = w.held - $2::text
    from given
    where w.name = any ($1::text[]) and w.name = given.name
    returning 1
  )
  select from released, (select set_config('synchronous_commit', 'off', true)) without_waiting`,
);
const deleteOldWindows = sql('rate_purge', 'delete from rate_windows where second < $1');

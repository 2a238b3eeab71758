import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { SlidingWindow, type Taken } from '../../../lib/sliding-window.ts';
import { waitMs } from '../../../lib/wait.ts';
import type { Bus } from '../bus/messages.ts';

/** Counts what callers do in a minute. `take` answers at once where no other node has to be asked. */
export interface RateWindows {
  take(name: string, limit: number): Taken | Promise<Taken>;
  /**
   * What `take` would answer if it is known here, without looking further, that it would refuse; takes
   * nothing.
   */
  refusal(name: string, limit: number): Taken | undefined;
  close(): Promise<void>;
}

// About 400 bytes each: 20 MB at most, whoever asks. Beyond that the least recent one starts anew.
const MAX_WINDOWS = 50_000;

/** The windows of a node that is alone on its database: in memory. */
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

// A node takes as many places at a time as the limit gives in a second, and uses them in that second.
const SECONDS = 60;
const GIVE_BACK_EVERY_MS = 1_000;
// How long a request waits for places that other nodes hold and may not need, and how often it looks.
const PATIENCE_MS = 1_000;
const LOOK_EVERY_MS = 15;

/** Places that this node took for a window. */
interface Held {
  second: number;
  places: number;
  free: number;
  oldest: number;
  /** Nothing was left in this second: it is not asked again before the next. */
  exhausted: boolean;
  taking: Promise<void> | undefined;
}

/**
 * The windows that all nodes of a database share, in `rate_windows`. A node takes places in advance, a
 * second's worth at a time, so a busy caller costs a write a second and not one a request; the last places
 * are taken one by one. Where none is left but another node holds some, it is asked to give back what it does
 * not need: so neither one more nor one less than the limit goes through.
 */
export class SharedWindows implements RateWindows {
  readonly #db: Queryable;
  readonly #clock: Clock;
  readonly #bus: Bus;
  readonly #nodeId: string;
  readonly #held = new LRUCache<string, Held>(cacheLimit(MAX_WINDOWS));
  readonly #unsubscribe: () => void;
  readonly #timer: NodeJS.Timeout;
  #givingBack: Promise<void> = Promise.resolve();

  constructor({ db, clock, bus, nodeId }: { db: Queryable; clock: Clock; bus: Bus; nodeId: string }) {
    this.#db = db;
    this.#clock = clock;
    this.#bus = bus;
    this.#nodeId = nodeId;
    this.#unsubscribe = bus.subscribe((message) => {
      if (message.type === 'rate_limit_short' && message.nodeId !== nodeId)
        this.#giveBackSoon([message.name]);
    });
    this.#timer = setInterval(() => this.#giveBackSoon(this.#stale()), GIVE_BACK_EVERY_MS);
    this.#timer.unref();
  }

  take(name: string, limit: number): Taken | Promise<Taken> {
    return this.#takeHeld(name, limit) ?? this.#takeShared(name, limit);
  }

  refusal(name: string, limit: number): Taken | undefined {
    return this.#held.get(name)?.exhausted === true ? this.#takeHeld(name, limit) : undefined;
  }

  /** Gives back what is held. What cannot be given back is free again after a minute. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#unsubscribe();
    this.#giveBackSoon([...this.#held.keys()]);
    await this.#givingBack;
  }

  /**
   * From what this node holds since the second in which the request came, or refused for what it knows.
   * `undefined`: the database has to be asked.
   */
  #takeHeld(name: string, limit: number, cameIn = this.#second()): Taken | undefined {
    const held = this.#held.get(name);
    if (held === undefined || !isOf(held, cameIn)) return undefined;
    if (held.places > 0) held.places -= 1;
    else if (!held.exhausted) return undefined;
    return {
      allowed: !held.exhausted,
      remaining: Math.min(limit, held.free + held.places),
      resetSeconds: Math.max(1, held.oldest + SECONDS - this.#second()),
    };
  }

  async #takeShared(name: string, limit: number): Promise<Taken> {
    // Not the second in which the answer comes: a database that takes longer than one would be asked without
    // end.
    const cameIn = this.#second();
    for (;;) {
      const held = this.#of(name);
      held.taking ??= this.#refill(name, held, limit).finally(() => {
        held.taking = undefined;
      });
      await held.taking;
      const taken = this.#takeHeld(name, limit, cameIn);
      if (taken !== undefined) return taken;
    }
  }

  #of(name: string): Held {
    let held = this.#held.get(name);
    if (held === undefined) {
      held = { second: 0, places: 0, free: 0, oldest: 0, exhausted: false, taking: undefined };
      this.#held.set(name, held);
    }
    return held;
  }

  async #refill(name: string, held: Held, limit: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const second = this.#second();
      const back = held.places;
      held.places = 0;
      const [row] = await this.#db.query<Row>(takePlaces, [
        name,
        this.#nodeId,
        second,
        limit,
        Math.ceil(limit / SECONDS),
        back,
        held.second,
      ]);
      if (row === undefined) throw new Error('rate_take answered nothing');
      held.second = second;
      held.places = row.granted;
      held.free = row.free;
      held.oldest = row.oldest ?? second;
      held.exhausted = row.granted === 0;
      if (row.granted > 0 || row.others === 0 || performance.now() > deadline) return;
      this.#bus.publish({ type: 'rate_limit_short', name, nodeId: this.#nodeId });
      await waitMs(LOOK_EVERY_MS);
    }
  }

  #stale(): string[] {
    const second = this.#second();
    return [...this.#held].filter(([, held]) => !isOf(held, second)).map(([name]) => name);
  }

  #giveBackSoon(names: readonly string[]): void {
    const given = names.flatMap((name) => {
      const held = this.#held.get(name);
      if (held === undefined || held.taking !== undefined) return [];
      const { places, second } = held;
      this.#held.delete(name);
      return [{ name, places, second }];
    });
    if (given.length === 0) return;
    this.#givingBack = this.#givingBack.then(async () => {
      await this.#db
        .query(givePlacesBack, [
          given.map(({ name }) => name),
          this.#nodeId,
          given.map(({ places }) => places),
          given.map(({ second }) => second),
        ])
        // They count as used, then, until their minute is over.
        .catch(() => {});
    });
  }

  #second(): number {
    return Math.floor(this.#clock.now() / 1_000);
  }
}

/**
 * Whether it was taken in this second or later; by more than a minute, that was by a clock that has been put
 * right since.
 */
function isOf(held: Held, second: number): boolean {
  return held.second >= second && held.second - second < SECONDS;
}

interface Row {
  granted: number;
  free: number;
  others: number;
  oldest: number | null;
}

/**
 * Deletes the windows in which nothing was counted in the last minutes. Reads all of them: there are as many
 * as there were callers.
 */
export async function purgeRateWindows({ db, clock }: { db: Queryable; clock: Clock }): Promise<void> {
  await db.query(deleteOldWindows, [Math.floor(clock.now() / 1_000) - 2 * SECONDS]);
}

// Primary key of rate_windows. The commit does not wait for the disk: what a crash loses is counted again.
const takePlaces = sql(
  'rate_take',
  `select granted, free, others, oldest
  from (select set_config('synchronous_commit', 'off', true)) without_waiting,
    rate_take($1, $2, $3, $4, $5, $6, $7)`,
);
// In the order of names, so that two nodes that give back the same ones do not deadlock.
const givePlacesBack = sql(
  'rate_give_back',
  `with given as (
    select w.name, g.places, g.second
    from unnest($1::text[], $3::int[], $4::bigint[]) as g (name, places, second)
    join rate_windows w on w.name = g.name
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
    where w.name = given.name
    returning 1
  )
  select from released, (select set_config('synchronous_commit', 'off', true)) without_waiting`,
);
const deleteOldWindows = sql('rate_purge', 'delete from rate_windows where second < $1');

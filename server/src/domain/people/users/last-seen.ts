import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';

// `last_seen_at` is true to the minute: a user who clicks about costs one update a minute, not one a click.
const RESOLUTION_MS = 60_000;
const FLUSH_EVERY_MS = 1_000;
const MAX_REMEMBERED = 100_000;

/** Notes when users were last here and writes it in batches, away from their requests. */
export class LastSeen {
  readonly #deps: { db: Queryable; clock: Clock; log: Logger };
  readonly #noted = new LRUCache<string, number>(cacheLimit(MAX_REMEMBERED));
  readonly #timer: NodeJS.Timeout;
  #pending = new Map<string, number>();
  #flushing: Promise<void> = Promise.resolve();

  constructor(deps: { db: Queryable; clock: Clock; log: Logger }) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.flush(), FLUSH_EVERY_MS);
    this.#timer.unref();
  }

  /** The user made a request now. Never waits. */
  note(userId: string): void {
    const now = this.#deps.clock.now();
    const before = this.#noted.get(userId);
    if (before !== undefined && now - before < RESOLUTION_MS) return;
    this.#noted.set(userId, now);
    this.#pending.set(userId, now);
  }

  /** Writes what was noted, in turn with a flush that is under way. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  /** Writes the last notes and stops. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  async #write(): Promise<void> {
    if (this.#pending.size === 0) return;
    const pending = this.#pending;
    this.#pending = new Map();
    try {
      await this.#deps.db.query(updateLastSeen, [
        [...pending.keys()],
        [...pending.values()].map((ms) => new Date(ms)),
      ]);
    } catch (error) {
      // Worth a line but no retry: the next request of each user notes it again.
      for (const userId of pending.keys()) this.#noted.delete(userId);
      this.#deps.log.warn({ err: error, users: pending.size }, 'last_seen_at was not written');
    }
  }
}

// users_pkey. In the order of ids, so that two nodes that write the same users do not deadlock.
const updateLastSeen = sql(
  'update_last_seen',
  `with seen as (
    select u.id, s.at
    from unnest($1::uuid[], $2::timestamptz[]) as s (id, at)
    join users u on u.id = s.id
    order by u.id
    for update of u
  )
  update users u
  set last_seen_at = greatest(u.last_seen_at, seen.at)
  from seen
  where u.id = seen.id`,
);

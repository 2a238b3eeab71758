import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';

// The resolution of `last_seen_at`: an active user causes one update a minute, not one for each request.
const RESOLUTION_MS = 60_000;
const FLUSH_EVERY_MS = 1_000;
const MAX_REMEMBERED = 100_000;

/** Records when users were last seen. Writes in batches, outside the requests. */
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

  /** Records that the user has just made a request. */
  note(userId: string): void {
    const now = this.#deps.clock.now();
    const before = this.#noted.get(userId);
    if (before !== undefined && now - before < RESOLUTION_MS) return;
    this.#noted.set(userId, now);
    this.#pending.set(userId, now);
  }

  /** Writes what was recorded, after a flush that is in flight. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#write());
    return this.#flushing;
  }

  /** Flushes and stops. */
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
      // No retry: the next request of each user records it.
      for (const userId of pending.keys()) this.#noted.delete(userId);
      this.#deps.log.warn({ err: error, users: pending.size }, 'could not write last_seen_at');
    }
  }
}

// users_pkey. Sorted, so that two nodes that write the same users do not deadlock.
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

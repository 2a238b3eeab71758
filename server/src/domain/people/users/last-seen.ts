import { LRUCache } from 'lru-cache';
import { type Queryable, sql } from '../../../db/client.ts';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { PeriodicWriter } from '../../../lib/periodic-writer.ts';

// The resolution of `last_seen_at`: an active user causes one update a minute, not one for each request.
const RESOLUTION_MS = 60_000;
const FLUSH_EVERY_MS = 1_000;
const MAX_REMEMBERED = 100_000;

/** Records when users were last seen. */
export class LastSeen {
  readonly #clock: Clock;
  readonly #noted = new LRUCache<string, number>(cacheLimit(MAX_REMEMBERED));
  readonly #writer: PeriodicWriter<{ userId: string; atMs: number }>;

  constructor({ db, clock, log }: { db: Queryable; clock: Clock; log: Logger }) {
    this.#clock = clock;
    this.#writer = new PeriodicWriter(FLUSH_EVERY_MS, async (seen) => {
      try {
        await db.query(updateLastSeen, [
          seen.map(({ userId }) => userId),
          seen.map(({ atMs }) => new Date(atMs)),
        ]);
      } catch (error) {
        // No retry: the next request of each user records it.
        for (const { userId } of seen) this.#noted.delete(userId);
        log.warn({ err: error, users: seen.length }, 'could not write last_seen_at');
      }
    });
  }

  /** Records that the user has just made a request. */
  note(userId: string): void {
    const atMs = this.#clock.now();
    const before = this.#noted.get(userId);
    if (before !== undefined && atMs - before < RESOLUTION_MS) return;
    this.#noted.set(userId, atMs);
    this.#writer.note({ userId, atMs });
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }

  close(): Promise<void> {
    return this.#writer.close();
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

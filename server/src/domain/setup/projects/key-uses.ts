import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import type { ProjectKey } from './keys.ts';

const FLUSH_EVERY_MS = 60_000;

/** Records when keys last verified a token. Writes at most once a minute, outside the requests. */
export class KeyUses {
  readonly #deps: { db: Queryable; clock: Clock; log: Logger };
  readonly #timer: NodeJS.Timeout;
  #used = new Set<ProjectKey>();
  #flushing: Promise<void> = Promise.resolve();

  constructor(deps: { db: Queryable; clock: Clock; log: Logger }) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.flush(), FLUSH_EVERY_MS);
    this.#timer.unref();
  }

  /** Records that the key has just verified a token. */
  note(key: ProjectKey): void {
    this.#used.add(key);
  }

  /** Writes the uses since the last flush. */
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
    if (this.#used.size === 0) return;
    const used = [...this.#used];
    this.#used = new Set();
    try {
      await this.#deps.db.query(upsertUses, [
        used.map(({ projectId }) => projectId),
        used.map(({ id }) => id),
        new Date(this.#deps.clock.now()),
      ]);
    } catch (error) {
      // No retry: the next request with the key records it.
      this.#deps.log.warn({ err: error, keys: used.length }, 'could not write when keys were last used');
    }
  }
}

// Primary key. Sorted, so that two nodes that write the same keys do not deadlock.
const upsertUses = sql(
  'upsert_project_key_uses',
  `insert into project_key_uses (project_id, key_id, used_at)
  select distinct project_id, key_id, $3::timestamptz
  from unnest($1::uuid[], $2::text[]) as u (project_id, key_id)
  order by project_id, key_id
  on conflict (project_id, key_id) do update
  set used_at = greatest(project_key_uses.used_at, excluded.used_at)`,
);

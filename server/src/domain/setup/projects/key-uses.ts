import { type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { PeriodicWriter } from '../../../lib/periodic-writer.ts';
import type { ProjectKey } from './keys.ts';

const FLUSH_EVERY_MS = 60_000;

/** Records when keys last verified a token. Writes at most once a minute. */
export class KeyUses extends PeriodicWriter<ProjectKey> {
  constructor({ db, clock, log }: { db: Queryable; clock: Clock; log: Logger }) {
    super(FLUSH_EVERY_MS, async (used) => {
      try {
        await db.query(upsertUses, [
          used.map(({ projectId }) => projectId),
          used.map(({ id }) => id),
          new Date(clock.now()),
        ]);
      } catch (error) {
        // No retry: the next request with the key records it.
        log.warn({ err: error, keys: used.length }, 'could not write when keys were last used');
      }
    });
  }
}

// Primary keys. Sorted, so that two nodes that write the same keys do not deadlock. The row of a project that
// has moved to another cell meanwhile would stay here for ever.
const upsertUses = sql(
  'upsert_project_key_uses',
  `insert into project_key_uses (project_id, key_id, used_at)
  select distinct u.project_id, u.key_id, $3::timestamptz
  from unnest($1::uuid[], $2::text[]) as u (project_id, key_id)
  join projects p on p.id = u.project_id
  order by u.project_id, u.key_id
  on conflict (project_id, key_id) do update
  set used_at = greatest(project_key_uses.used_at, excluded.used_at)`,
);

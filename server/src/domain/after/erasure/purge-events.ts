import { type Queryable, sql } from '../../../db/client.ts';

// A row may stand for 1000 events, and mostly stands for a few.
const BATCH = 1_000;

/** Deletes a batch of the events whose ids are lower, oldest first; answers whether there may be more. */
export async function purgeEvents(db: Queryable, beforeId: string): Promise<boolean> {
  return (await db.query(deleteEvents, [beforeId, BATCH])).length === BATCH;
}

// Primary keys of projects and of events (project_id, id). By ctid: no row of events is ever changed.
const deleteEvents = sql(
  'purge_events',
  `delete from events
  where ctid = any (array(
    select e.ctid
    from projects p
    cross join lateral (
      select ctid
      from events
      where project_id = p.id and id < $1
      order by id
      limit $2
    ) e
    limit $2
  ))
  returning 1`,
);

import { type Queryable, sql } from '../../db/client.ts';

// A row may stand for 1000 events, and mostly stands for a few.
const BATCH = 1_000;

/** Deletes a batch of the events whose ids are lower, oldest first; answers whether there may be more. */
export async function purgeEvents(db: Queryable, beforeId: string): Promise<boolean> {
  return (await db.query(deleteEvents, [beforeId, BATCH])).length === BATCH;
}

// Primary keys of projects and of events (project_id, id).
const deleteEvents = sql(
  'purge_events',
  `with expired as (
    select e.project_id, e.id
    from projects p
    cross join lateral (
      select project_id, id
      from events
      where project_id = p.id and id < $1
      order by id
      limit $2
    ) e
    limit $2
  )
  delete from events
  using expired
  where events.project_id = expired.project_id and events.id = expired.id
  returning 1`,
);

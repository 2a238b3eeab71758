import type { Event } from '../../../contract/event.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type EventRow, expand, splitEventId } from './expand.ts';
import { PARTS } from './stored-types.ts';

/** One of the project's events. */
export async function getEvent(db: Queryable, projectId: string, id: string): Promise<Event | undefined> {
  return (await getEvents(db, projectId, [id]))[0];
}

/** Those of these events that there are, in no particular order. */
export async function getEvents(db: Queryable, projectId: string, ids: readonly string[]): Promise<Event[]> {
  const wanted = ids.map(splitEventId);
  const rows = await db.query<EventRow>(selectEvents, [
    projectId,
    wanted.map(({ rowId }) => rowId),
    wanted.map(({ number }) => number),
  ]);
  return rows.flatMap(expand);
}

// Primary key (project_id, id), each by itself (`limit 1`): a join might read all of the project's.
const selectEvents = sql(
  'get_events',
  `select e.*, wanted.number as first
  from unnest($2::uuid[], $3::int[]) as wanted (id, number)
  cross join lateral (
    select e.id, part.type, e.broadcast_id, part.details,
      e.user_ids[wanted.number - part.base + 1 : wanted.number - part.base + 1] as user_ids,
      e.broadcast_ids[wanted.number - part.base + 1 : wanted.number - part.base + 1] as broadcast_ids
    from events e
    cross join ${PARTS}
    where e.project_id = $1 and e.id = wanted.id and wanted.number between part.base and part.base + e.size - 1
    limit 1
  ) e`,
);

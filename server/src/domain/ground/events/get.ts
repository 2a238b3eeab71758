import type { Event } from '../../../contract/event.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type EventRow, expand, splitEventId } from './expand.ts';
import { nameUsers } from './name-users.ts';
import { TYPES_OF_ROW } from './stored-types.ts';

/** Returns one of the project's events, if it exists. */
export async function getEvent(db: Queryable, projectId: string, id: string): Promise<Event | undefined> {
  return (await getEvents(db, projectId, [id]))[0];
}

/** Returns the events that exist, in no particular order. */
export async function getEvents(db: Queryable, projectId: string, ids: readonly string[]): Promise<Event[]> {
  const wanted = ids.map(splitEventId);
  const rows = await db.query<EventRow & { number: number }>(selectEvents, [
    projectId,
    wanted.map(({ rowId }) => rowId),
    wanted.map(({ number }) => number),
  ]);
  const events = rows.flatMap((row) => expand(row, row.number, row.number + 1));
  await nameUsers(db, events);
  return events;
}

// Primary key (project_id, id), for each event (`limit 1`): a join might read all events of the project.
const selectEvents = sql(
  'get_events',
  `select e.*, wanted.number
  from unnest($2::uuid[], $3::int[]) as wanted (id, number)
  cross join lateral (
    select e.id, e.type, e.size, e.broadcast_id, e.details,
      e.user_ids[wanted.number % e.size + 1 : wanted.number % e.size + 1] as user_ids,
      e.broadcast_ids[wanted.number % e.size + 1 : wanted.number % e.size + 1] as broadcast_ids
    from events e
    where e.project_id = $1 and e.id = wanted.id and wanted.number < e.size * ${TYPES_OF_ROW}
    limit 1
  ) e`,
);

import type { Event, EventType } from '../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../db/client.ts';
import { type Cursor, NEWEST, OLDEST } from '../../lib/cursor.ts';
import { firstIdAt } from '../../lib/ids.ts';
import { type EventRow, expand, splitEventId } from './expand.ts';

/** Which of a project's events a list is about. */
export interface EventFilter {
  /** All of them where it is left out. */
  types?: readonly EventType[] | undefined;
  /** Unix milliseconds: from this time on, and before that one. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/**
 * Up to `limit` events of the project beyond the cursor, nearest first. Reads about as many rows as that takes, and of a row
 * only the users of the events that are answered.
 */
export async function listEvents(
  db: Queryable,
  projectId: string,
  { types, sinceMs, untilMs }: EventFilter,
  { direction, id, limit }: Cursor,
): Promise<Event[]> {
  const { rowId, number } = splitEventId(id);
  const rows = await db.query<EventRow>(STATEMENTS[types === undefined ? 'all' : 'ofTypes'][direction], [
    projectId,
    rowId,
    number,
    limit,
    sinceMs === undefined ? OLDEST : firstIdAt(Math.max(0, sinceMs)),
    untilMs === undefined ? NEWEST : firstIdAt(Math.max(0, untilMs)),
    ...(types === undefined ? [] : [types]),
  ]);
  return rows.flatMap((row) => (direction === 'older' ? expand(row).reverse() : expand(row)));
}

// Primary key (project_id, id); of some types, index events_of_type (project_id, type, id), each type by itself. A row has at least one
// event, so `limit` rows are enough; `before` counts the events that are nearer than the row's, and ends the reading of users and details,
// which may be long. Of the cursor's own row only the events beyond the cursor are left.
function listText(direction: Cursor['direction'], ofTypes: boolean): string {
  const older = direction === 'older';
  const order = older ? 'desc' : 'asc';
  const range = `e.project_id = $1 and e.id >= $5 and e.id < $6
        and ${older ? 'e.id <= $2 and (e.id < $2 or $3::int > 0)' : 'e.id >= $2 and (e.id > $2 or e.size > $3::int + 1)'}`;
  const picked = ofTypes
    ? `select e.id, e.size
      from unnest($7::text[]) as wanted (type)
      cross join lateral (
        select e.id, e.size
        from events e
        where e.type = wanted.type and ${range}
        order by e.id ${order}
        limit $4
      ) e
      order by e.id ${order}
      limit $4`
    : `select e.id, e.size
      from events e
      where ${range}
      order by e.id ${order}
      limit $4`;
  // The numbers of the events that are meant, both included.
  const bounds = older
    ? 'case when id = $2 then least(size, $3::int) else size end - 1 as last, 0 as first'
    : 'case when id = $2 then $3::int + 1 else 0 end as first, size - 1 as last';
  const taken = older
    ? 'greatest(first, last - ($4 - before)::int + 1) as first, last'
    : 'first, least(last, first + ($4 - before)::int - 1) as last';
  return `with picked as (
      ${picked}
    ),
    bounded as (
      select id, ${bounds}
      from picked
    ),
    counted as (
      select *, coalesce(sum(last - first + 1) over (
        order by id ${order} rows between unbounded preceding and 1 preceding
      ), 0) as before
      from bounded
    ),
    taken as (
      select id, ${taken}
      from counted
      where before < $4
    )
    select e.*, taken.first
    from taken
    cross join lateral (
      select id, type, broadcast_id, details,
        user_ids[taken.first + 1 : taken.last + 1] as user_ids,
        broadcast_ids[taken.first + 1 : taken.last + 1] as broadcast_ids
      from events
      where project_id = $1 and id = taken.id
      limit 1
    ) e
    order by e.id ${order}`;
}

const both = (name: string, ofTypes: boolean): Record<Cursor['direction'], Statement> => ({
  older: sql(`list_${name}_older`, listText('older', ofTypes)),
  newer: sql(`list_${name}_newer`, listText('newer', ofTypes)),
});

const STATEMENTS = { all: both('events', false), ofTypes: both('events_of_types', true) };

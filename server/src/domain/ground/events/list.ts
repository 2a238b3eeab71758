import type { Event, EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import { type EventRow, expand, splitEventId } from './expand.ts';
import { PARTS, whereStored } from './stored-types.ts';

/** Which of a project's events a list is about. */
export interface EventFilter {
  /** All of them where it is left out. */
  types?: readonly EventType[] | undefined;
  /** Unix milliseconds: from this time on, and before that one. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
}

/**
 * Up to `limit` events of the project beyond the cursor, nearest first. Reads about as many rows as that
 * takes, and of a row only the users of the events that are answered.
 */
export async function listEvents(
  db: Queryable,
  projectId: string,
  { types, sinceMs, untilMs }: EventFilter,
  { direction, id, limit }: Cursor,
): Promise<Event[]> {
  const { rowId, number } = splitEventId(id);
  const stored = types === undefined ? [] : whereStored(types);
  const rows = await db.query<EventRow>(STATEMENTS[types === undefined ? 'all' : 'ofTypes'][direction], [
    projectId,
    rowId,
    number,
    limit,
    sinceMs === undefined ? OLDEST : firstIdAt(Math.max(0, sinceMs)),
    untilMs === undefined ? NEWEST : firstIdAt(Math.max(0, untilMs)),
    ...(types === undefined ? [] : [stored.map((one) => one.stored), stored.map((one) => one.place)]),
  ]);
  return rows.flatMap((row) => (direction === 'older' ? expand(row).reverse() : expand(row)));
}

// Primary key (project_id, id); of some types, index events_of_type (project_id, type, id), each type by
// itself. A part of a row has at least one event, so `limit` parts are enough; `before` counts the events
// that are nearer than the part's, and ends the reading of users and details, which may be long. Of the
// cursor's own row only the events beyond the cursor are left.
function listText(direction: Cursor['direction'], ofTypes: boolean): string {
  const older = direction === 'older';
  const order = older ? 'desc' : 'asc';
  const range = (base: string) => `e.project_id = $1 and e.id >= $5 and e.id < $6
        and ${
          older
            ? `e.id <= $2 and (e.id < $2 or $3::int > ${base})`
            : `e.id >= $2 and (e.id > $2 or ${base} + e.size > $3::int + 1)`
        }`;
  const picked = ofTypes
    ? `select e.id, e.base, e.size
      from unnest($7::text[], $8::int[]) as wanted (stored, place)
      cross join lateral (
        select e.id, wanted.place * e.size as base, e.size
        from events e
        where e.type = wanted.stored and ${range('wanted.place * e.size')}
        order by e.id ${order}
        limit $4
      ) e
      order by e.id ${order}, e.base ${order}
      limit $4`
    : `select e.id, part.base, e.size
      from events e
      cross join ${PARTS}
      where ${range('part.base')}
      order by e.id ${order}, part.base ${order}
      limit $4`;
  // The numbers of the events that are meant, both included.
  const bounds = older
    ? 'case when id = $2 then least(base + size, $3::int) else base + size end - 1 as last, base as first'
    : 'case when id = $2 then greatest(base, $3::int + 1) else base end as first, base + size - 1 as last';
  const taken = older
    ? 'greatest(first, last - ($4 - before)::int + 1) as first, last'
    : 'first, least(last, first + ($4 - before)::int - 1) as last';
  return `with picked as (
      ${picked}
    ),
    bounded as (
      select id, base, ${bounds}
      from picked
    ),
    counted as (
      select *, coalesce(sum(last - first + 1) over (
        order by id ${order}, base ${order} rows between unbounded preceding and 1 preceding
      ), 0) as before
      from bounded
    ),
    taken as (
      select id, base, ${taken}
      from counted
      where before < $4
    )
    select e.*, taken.first
    from taken
    cross join lateral (
      select e.id, split_part(e.type, '+', case taken.base when 0 then 1 else 2 end) as type, e.broadcast_id,
        case when taken.base > 0 or strpos(e.type, '+') = 0 then e.details end as details,
        e.user_ids[taken.first - taken.base + 1 : taken.last - taken.base + 1] as user_ids,
        e.broadcast_ids[taken.first - taken.base + 1 : taken.last - taken.base + 1] as broadcast_ids
      from events e
      where e.project_id = $1 and e.id = taken.id
      limit 1
    ) e
    order by e.id ${order}, taken.base ${order}`;
}

const both = (name: string, ofTypes: boolean): Record<Cursor['direction'], Statement> => ({
  older: sql(`list_${name}_older`, listText('older', ofTypes)),
  newer: sql(`list_${name}_newer`, listText('newer', ofTypes)),
});

const STATEMENTS = { all: both('events', false), ofTypes: both('events_of_types', true) };

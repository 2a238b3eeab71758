import type { Event, EventType } from '../../../contract/event.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { firstIdAt } from '../../../lib/ids.ts';
import { type EventRow, expand, splitEventId } from './expand.ts';
import { nameUsers } from './name-users.ts';
import { numbersOf, storedTypes, TYPES_OF_ROW } from './stored-types.ts';

export interface EventFilter {
  /** All types if left out. */
  types?: readonly EventType[] | undefined;
  /** Unix milliseconds, inclusive. */
  sinceMs?: number | undefined;
  /** Exclusive. */
  untilMs?: number | undefined;
}

/**
 * Returns up to `limit` events of the project beyond the cursor, nearest first. Reads only the rows and users
 * that the page needs.
 */
export async function listEvents(
  db: Queryable,
  projectId: string,
  { types, sinceMs, untilMs }: EventFilter,
  { direction, id, limit }: Cursor,
): Promise<Event[]> {
  const { rowId, number } = splitEventId(id);
  const stored = types === undefined ? [] : storedTypes(types);
  const ranges = stored.map((type) => numbersOf({ type, size: 1 }, types));
  const rows = await db.query<EventRow>(STATEMENTS[types === undefined ? 'all' : 'ofTypes'][direction], [
    projectId,
    rowId,
    number,
    limit,
    sinceMs === undefined ? OLDEST : firstIdAt(Math.max(0, sinceMs)),
    untilMs === undefined ? NEWEST : firstIdAt(Math.max(0, untilMs)),
    ...(types === undefined ? [] : [stored, ranges.map(({ from }) => from), ranges.map(({ to }) => to)]),
  ]);
  const events = rows.flatMap((row) => {
    let { from, to } = numbersOf(row, types);
    if (direction === 'older') {
      if (row.id === rowId) to = Math.min(to, number);
      return expand(row, Math.max(from, to - limit), to).reverse();
    }
    if (row.id === rowId) from = Math.max(from, number + 1);
    return expand(row, from, Math.min(to, from + limit));
  });
  const listed = events.slice(0, limit);
  await nameUsers(db, listed);
  return listed;
}

// Primary key (project_id, id); of some types, index events_of_type (project_id, type, id), each stored type
// by itself. Each row has at least one event, so `limit` rows are enough. Users, which may be many, are read
// only for the rows and events that fit on the page.
function listText(direction: Cursor['direction'], ofTypes: boolean): string {
  const older = direction === 'older';
  const order = older ? 'desc' : 'asc';
  // The rows with events beyond the cursor, of the events with numbers `low * size` to `high * size - 1`.
  const rows = (low: string, high: string) => `e.id, e.size, ${low} as low, ${high} as high
        from events e
        where e.project_id = $1 and e.id >= $5 and e.id < $6
          and ${
            older
              ? `e.id <= $2 and (e.id < $2 or $3::int > ${low} * e.size)`
              : `e.id >= $2 and (e.id > $2 or ${high} * e.size > $3::int + 1)`
          }`;
  const picked = ofTypes
    ? `e.*
      from unnest($7::text[], $8::int[], $9::int[]) as wanted (stored, low, high)
      cross join lateral (
        select ${rows('wanted.low', 'wanted.high')}
          and e.type = wanted.stored
        order by e.id ${order}
        limit $4
      ) e`
    : rows('0', TYPES_OF_ROW);
  const numbers = older
    ? `low * size as low,
        case when id = $2 then least(high * size, $3::int) else high * size end as high`
    : `case when id = $2 then greatest(low * size, $3::int + 1) else low * size end as low,
        high * size as high`;
  const nearest = older
    ? 'greatest(low, high - $4::int) as first, high - 1 as last'
    : 'low as first, least(high, low + $4::int) - 1 as last';
  // Events of both types: the users of the first type's events, then those that only the second's have.
  const ids = (column: string) =>
    `case when first >= e.size or last < e.size then e.${column}[first % e.size + 1 : last % e.size + 1]
        else e.${column}[first + 1 :] || e.${column}[: least(first, last - e.size + 1)] end as ${column}`;
  return `with picked as (
      select ${picked}
      order by id ${order}
      limit $4
    ),
    numbered as (
      select id, ${numbers}
      from picked
    ),
    counted as (
      select *, sum(high - low) over (order by id ${order} rows unbounded preceding) as through
      from numbered
    ),
    nearest as (
      select id, ${nearest}
      from counted
      where through - (high - low) < $4
    )
    select e.*
    from nearest
    cross join lateral (
      select e.id, e.type, e.size, e.broadcast_id, e.details, ${ids('user_ids')}, ${ids('broadcast_ids')}
      from events e
      where e.project_id = $1 and e.id = nearest.id
      limit 1
    ) e
    order by nearest.id ${order}`;
}

const both = (name: string, ofTypes: boolean): Record<Cursor['direction'], Statement> => ({
  older: sql(`list_${name}_older`, listText('older', ofTypes)),
  newer: sql(`list_${name}_newer`, listText('newer', ofTypes)),
});

const STATEMENTS = { all: both('events', false), ofTypes: both('events_of_types', true) };

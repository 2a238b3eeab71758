import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { filterCondition, filterValues, IN_STATUS, isFiltered, type KnownFilter } from './row.ts';

/**
 * The highest unread count. Counting takes 0.09 µs for each, so 0.4 ms at most, also for a user with a
 * hundred thousand; a difference beyond it means nothing to readers.
 */
export const MAX_UNREAD_COUNT = 5_000;

/** Counts the user's notifications that are neither read nor archived, up to `MAX_UNREAD_COUNT`. */
export async function countUnread(
  db: Queryable,
  userId: string,
  { among, ...filter }: KnownFilter = {},
): Promise<number> {
  if (among?.length === 0) return 0;
  const values = [userId, ...filterValues(filter)];
  const [row] =
    among !== undefined
      ? await db.query<{ count: number }>(countAmong, [...values, uuidArray(among)])
      : isFiltered(filter)
        ? await db.query<{ count: number }>(countFiltered, values)
        : await db.query<{ count: number }>(countAll, [userId]);
  return row?.count ?? 0;
}

// inbox_unread alone: with no filter the rows themselves are not read.
const countAll = sql(
  'count_unread',
  `select count(*)::int as count
  from (select from notifications where user_id = $1 and ${IN_STATUS.unread} limit ${MAX_UNREAD_COUNT}) n`,
);
const countFiltered = sql(
  'count_unread_filtered',
  `select count(*)::int as count
  from (
    select
    from notifications
    where user_id = $1
      and ${IN_STATUS.unread}
      and ${filterCondition(2)}
    limit ${MAX_UNREAD_COUNT}
  ) n`,
);
// Primary key, or inbox_unread, by the ids.
const countAmong = sql(
  'count_unread_among',
  `select count(*)::int as count
  from notifications
  where user_id = $1
    and id = any ($5::uuid[])
    and ${IN_STATUS.unread}
    and ${filterCondition(2)}`,
);

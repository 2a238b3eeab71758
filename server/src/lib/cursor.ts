/**
 * A position in a list ordered by id, and a direction: at most `limit` records beyond `id`. In an inbox,
 * which is ordered by arrival, the position is that of the notification with this id.
 */
export interface Cursor {
  /** `older`: ids smaller than `id`, descending. `newer`: ids greater than `id`, ascending. */
  direction: 'older' | 'newer';
  id: string;
  limit: number;
}

/** The cursor before the newest record. */
export const NEWEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** The cursor after the oldest record. */
export const OLDEST = '00000000-0000-0000-0000-000000000000';

/** The part of a list that one step of a search returned. */
export interface SearchedRows<Row> {
  rows: Row[];
  /** The position where the search stopped, if there may be more beyond it: a cursor, like an id. */
  stoppedAt?: string;
}

/**
 * Returns the records that a cursor selects from a complete list, newest first. For lists that are always
 * short.
 */
export function beyond<Row extends { id: string }>(
  newestFirst: readonly Row[],
  { direction, id, limit }: Cursor,
): Row[] {
  const rows = newestFirst.filter((row) => (direction === 'older' ? row.id < id : row.id > id));
  return (direction === 'older' ? rows : rows.reverse()).slice(0, limit);
}

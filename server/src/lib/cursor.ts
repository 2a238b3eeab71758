/**
 * A place in a list that is ordered by id, and which way to go from it: at most `limit` records beyond `id`.
 * In an inbox, which is ordered by arrival, the place is that of the notification with this id.
 */
export interface Cursor {
  /** `older`: ids smaller than `id`, falling. `newer`: ids greater than `id`, rising. */
  direction: 'older' | 'newer';
  id: string;
  limit: number;
}

/** Older than nothing: the cursor before the newest record. */
export const NEWEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** Newer than nothing: the cursor behind the oldest record. */
export const OLDEST = '00000000-0000-0000-0000-000000000000';

/** What was found of a list that is searched, and not to its end in one go. */
export interface Stretch<Row> {
  rows: Row[];
  /** The last place that was looked at, where there may be more behind it; a cursor, as an id is. */
  stoppedAt?: string;
}

/** What a cursor selects from a list that is at hand whole, newest first, for lists that are always short. */
export function beyond<Row extends { id: string }>(
  newestFirst: readonly Row[],
  { direction, id, limit }: Cursor,
): Row[] {
  const rows = newestFirst.filter((row) => (direction === 'older' ? row.id < id : row.id > id));
  return (direction === 'older' ? rows : rows.reverse()).slice(0, limit);
}

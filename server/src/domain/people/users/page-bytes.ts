import type { SearchedRows } from '../../../lib/cursor.ts';
import { USER_COLUMNS, type UserRow } from './get.ts';

// A user may have 10 MiB of attributes, and a page a hundred users: more than the memory of the server.
const PAGE_BYTES = 16 * 1024 * 1024;

/** The columns of the users of a list that ends early. */
export const LISTED_COLUMNS = `${USER_COLUMNS},
    coalesce(octet_length(u.custom_attributes::text), 0) as bytes`;

/** A user of a list that ends early. */
export type ListedUser = UserRow & {
  /** The length of the list if it had not ended early. */
  found: number;
};

/**
 * SQL: a list up to the user before the one with whom the attributes exceed a page, and at least one. Windows
 * without an order read the rows as they come, and keep the order of the list without sorting it once more.
 */
export function endEarly(list: string): string {
  return `select *
  from (
    select listed.*, (count(*) over ())::int as found, row_number() over so_far as place,
      sum(bytes) over so_far as bytes_so_far
    from (
      ${list}
    ) listed
    window so_far as (rows unbounded preceding)
  ) sized
  where place = 1 or bytes_so_far <= ${PAGE_BYTES}`;
}

/** Returns the users of a list that may have ended early, and where it continues. */
export function listed(users: ListedUser[]): SearchedRows<UserRow> {
  const last = users.at(-1);
  return last !== undefined && users.length < last.found
    ? { rows: users, stoppedAt: last.id }
    : { rows: users };
}

import { type Cursor, NEWEST, OLDEST } from '../lib/cursor.ts';
import { type Statement, sql } from './client.ts';

/** The statements of a list: one for each direction, because each uses its index alone. */
export type ListStatements = Record<Cursor['direction'], Statement>;

/** The rows of a list. */
interface List {
  /** The columns, and the table or join. */
  select: string;
  from: string;
  /** The column that `$1` is compared with. */
  owner: string;
  /** The column that the list is ordered by; `id` if not given. */
  id?: string;
  /**
   * Compares and orders by the pair (owner, id), for an index on the pair of a table whose primary key is the
   * id: otherwise the planner may take the primary key for the order, and read through younger owners' rows.
   */
  pairs?: boolean;
  /** Further conditions, with parameters from `$4` on. */
  where?: string;
}

/** Makes the statements of a list. `$1` is the owner, `$2` the cursor and `$3` the limit. */
export function listStatements(name: string, list: List): ListStatements {
  return bothDirections(name, listText(list));
}

/** Returns the text of such a statement for a direction. */
export function listText({ select, from, owner, id = 'id', pairs, where }: List) {
  return (beyond: '<' | '>', order: 'desc' | 'asc') => {
    const pair = `(${owner}, ${id})`;
    const end = order === 'desc' ? `${pair} >= ($1, '${OLDEST}')` : `${pair} <= ($1, '${NEWEST}')`;
    return `select ${select}
  from ${from}
  where ${pairs ? `${pair} ${beyond} ($1, $2) and ${end}` : `${owner} = $1 and ${id} ${beyond} $2`}
    ${where === undefined ? '' : `and ${where}`}
  order by ${pairs ? `${owner} ${order}, ` : ''}${id} ${order}
  limit $3`;
  };
}

/** Makes the statements of a list that needs a text of its own. */
export function bothDirections(
  name: string,
  text: (beyond: '<' | '>', order: 'desc' | 'asc') => string,
): ListStatements {
  return {
    older: sql(`list_${name}_older`, text('<', 'desc')),
    newer: sql(`list_${name}_newer`, text('>', 'asc')),
  };
}

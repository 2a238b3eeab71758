import { type Cursor, NEWEST, OLDEST, type SearchedRows } from './cursor.ts';
import type { JsonText } from './json-text.ts';

/** A page of a list, newest first. */
export interface ListPage<Item> {
  items: Item[];
  /** The cursor after which the older page begins; undefined if there is none. */
  older: string | undefined;
  /** The cursor before which the newer page ends; undefined if there is none. */
  newer: string | undefined;
}

type List<Row> = (cursor: Cursor) => Promise<Row[] | SearchedRows<Row>>;
/** Whether a list has a record beyond a cursor, or its search would stop there. */
type Any = (cursor: Cursor) => Promise<boolean>;

/**
 * Reads the page beyond a cursor of a list that is ordered by id.
 *
 * `list` reads at most `limit` rows beyond a cursor. It consists of two statements, each of which uses only
 * an index (db/list-statements.ts). It is called for one row more than the page holds, to detect whether
 * another page follows. A page in the middle also reads one row in the other direction, because the record of
 * the cursor may be deleted, with everything on that side; `any` can be given if there is a cheaper way to
 * know. Nothing is read beyond an end of the list.
 *
 * A searched list may return where its search stopped. Its page may then have fewer records than `limit`, or
 * none, and still have neighbours: the search continues where it stopped.
 */
export async function readPage<Row extends { id: string }>(
  cursor: Cursor,
  list: List<Row>,
  any: Any = async (one) => isAny(await list(one)),
): Promise<ListPage<Row>> {
  const { direction, id, limit } = cursor;
  const { rows: found, stoppedAt } = toSearchedRows(await list({ ...cursor, limit: limit + 1 }));
  const items = found.slice(0, limit);
  const over = found.length > limit;
  const more = over || stoppedAt !== undefined;
  if (direction === 'newer') items.reverse();
  const { first, last } = edges(direction, items, over ? undefined : stoppedAt);
  const beyond = (side: Cursor['direction'], from: string) => any({ direction: side, id: from, limit: 1 });
  const newer = direction === 'newer' ? more : id !== NEWEST && (await beyond('newer', first ?? OLDEST));
  const older = direction === 'older' ? more : id !== OLDEST && (await beyond('older', last ?? NEWEST));
  // An empty page beyond an end of the list has no ids; its only neighbour is that end.
  return { items, older: older ? (last ?? NEWEST) : undefined, newer: newer ? (first ?? OLDEST) : undefined };
}

/**
 * Reads a page with each row as JSON text. `texts` returns the texts of at least one row and of as many as
 * fit a response. If the page is truncated, it is read again with the smaller limit to find its neighbours.
 */
export async function readTextPage<Row extends { id: string }>(
  cursor: Cursor,
  list: List<Row>,
  texts: (rows: Row[]) => Promise<JsonText[]>,
  any?: Any,
): Promise<ListPage<JsonText>> {
  let page = await readPage(cursor, list, any);
  let items = await texts(page.items);
  while (items.length < page.items.length) {
    page = await readPage({ ...cursor, limit: items.length }, list, any);
    items = await texts(page.items);
  }
  return { ...page, items };
}

function toSearchedRows<Row>(found: Row[] | SearchedRows<Row>): SearchedRows<Row> {
  return Array.isArray(found) ? { rows: found } : found;
}

/**
 * Returns where the neighbours of a page begin: at its records or, in the search's direction, where it
 * stopped.
 */
function edges(
  direction: Cursor['direction'],
  items: readonly { id: string }[],
  stoppedAt: string | undefined,
): { first: string | undefined; last: string | undefined } {
  const [first, last] = [items[0]?.id, items.at(-1)?.id];
  return direction === 'older'
    ? { first: first ?? stoppedAt, last: stoppedAt ?? last }
    : { first: stoppedAt ?? first, last: last ?? stoppedAt };
}

/** Whether something was found, or the search stopped before the end. */
export function isAny(found: unknown[] | SearchedRows<unknown>): boolean {
  const { rows, stoppedAt } = toSearchedRows(found);
  return rows.length > 0 || stoppedAt !== undefined;
}

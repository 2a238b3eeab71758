import type { FastifyRequest } from 'fastify';
import type { Page, PageQuery } from '../contract/common.ts';
import { ClientError } from '../errors.ts';
import { type Cursor, NEWEST, OLDEST, type Stretch } from '../lib/cursor.ts';
import { type JsonText, joinTexts } from '../lib/json-text.ts';

/**
 * Answers one page of a list that is ordered by id, newest first.
 *
 * `list` reads at most `limit` rows beyond a cursor, and is two statements, each of which the index answers
 * alone:
 *
 *     older:  where project_id = $1 and id < $2 order by id desc limit $3
 *     newer:  where project_id = $1 and id > $2 order by id asc limit $3
 *
 * It is asked for one row more than the page holds: the row that is over says that there is another page. A
 * page in the middle asks once more for a single row in the other direction, because the cursor's own record
 * may be gone by now, and with it everything on that side. Beyond an end of the list there is nothing to ask
 * for.
 *
 * A list that is searched may answer a stretch of it instead. Its page may then hold fewer records than
 * `limit`, or none, and still have neighbours: the search goes on where it stopped.
 */
export async function paginate<Row extends { id: string }, Item>(options: {
  base: string;
  request: Pick<FastifyRequest, 'url'>;
  query: PageQuery;
  list: (cursor: Cursor) => Promise<Row[] | Stretch<Row>>;
  item: (row: Row) => Item;
}): Promise<Page<Item>> {
  const { base, request, query, list, item } = options;
  const cursor = readCursor(query);
  const { rows: found, stoppedAt } = stretchOf(await list({ ...cursor, limit: cursor.limit + 1 }));
  const rows = found.slice(0, cursor.limit);
  const over = found.length > cursor.limit;
  const more = over || stoppedAt !== undefined;
  if (cursor.direction === 'newer') rows.reverse();
  const { first, last } = edges(cursor.direction, rows, over ? undefined : stoppedAt);
  const newer =
    cursor.direction === 'newer' ? more : cursor.id !== NEWEST && (await any(list, 'newer', first ?? OLDEST));
  const older =
    cursor.direction === 'older' ? more : cursor.id !== OLDEST && (await any(list, 'older', last ?? NEWEST));
  const link = linkTo(base, request.url);
  return {
    data: rows.map(item),
    links: {
      first: link({}),
      // Beyond an end of the list a page is empty and has no id of its own; its only neighbour is that end.
      next: older ? link(last === undefined ? {} : { starting_after: last }) : null,
      prev: newer ? link({ ending_before: first ?? OLDEST }) : null,
    },
  };
}

function stretchOf<Row>(found: Row[] | Stretch<Row>): Stretch<Row> {
  return Array.isArray(found) ? { rows: found } : found;
}

/**
 * Where the neighbours of a page begin: at its records, and on the side to which the search went, where that
 * stopped.
 */
function edges(
  direction: Cursor['direction'],
  rows: readonly { id: string }[],
  stoppedAt: string | undefined,
): { first: string | undefined; last: string | undefined } {
  const [first, last] = [rows[0]?.id, rows.at(-1)?.id];
  return direction === 'older'
    ? { first: first ?? stoppedAt, last: stoppedAt ?? last }
    : { first: stoppedAt ?? first, last: last ?? stoppedAt };
}

/**
 * A page as JSON text. `texts` gives the wire form of as many of the rows, and of at least one, as an answer
 * can hold; where that is not all, the page is asked for anew with the limit that fits, so that its links are
 * those of the shorter page.
 */
export async function pageThatFits<Row>(
  query: PageQuery,
  read: (query: PageQuery) => Promise<Page<Row>>,
  texts: (rows: Row[]) => Promise<JsonText[]>,
): Promise<JsonText> {
  let list = await read(query);
  let data = await texts(list.data);
  while (data.length < list.data.length) {
    list = await read({ ...query, limit: data.length });
    data = await texts(list.data);
  }
  const separated = data.flatMap((text, index) => (index === 0 ? [text] : [',', text]));
  return joinTexts(['{"data":[', ...separated, `],"links":${JSON.stringify(list.links)}}`]);
}

/** What is wrong with two cursors; undefined where there is at most one. */
export function cursorsProblem({
  starting_after,
  ending_before,
}: {
  starting_after?: string | null | undefined;
  ending_before?: string | null | undefined;
}): [string] | undefined {
  return starting_after && ending_before
    ? ["Param 'ending_before' cannot be combined with 'starting_after'"]
    : undefined;
}

/** The cursor that the query names: the newest end of the list if none. */
export function readCursor({ limit = 50, starting_after, ending_before }: PageQuery): Cursor {
  const problem = cursorsProblem({ starting_after, ending_before });
  if (problem !== undefined) throw new ClientError('validation_failed', problem);
  if (ending_before) return { direction: 'newer', id: ending_before.toLowerCase(), limit };
  return { direction: 'older', id: starting_after?.toLowerCase() || NEWEST, limit };
}

async function any<Row>(
  list: (cursor: Cursor) => Promise<Row[] | Stretch<Row>>,
  direction: Cursor['direction'],
  id: string,
): Promise<boolean> {
  const { rows, stoppedAt } = stretchOf(await list({ direction, id, limit: 1 }));
  return rows.length > 0 || stoppedAt !== undefined;
}

/** Makes absolute addresses of the list that was asked for, with its query but for the cursor. */
function linkTo(
  base: string,
  requestUrl: string,
): (cursor: { starting_after?: string | undefined; ending_before?: string }) => string {
  const at = requestUrl.indexOf('?');
  const path = at < 0 ? requestUrl : requestUrl.slice(0, at);
  const kept = new URLSearchParams(at < 0 ? '' : requestUrl.slice(at + 1));
  kept.delete('starting_after');
  kept.delete('ending_before');
  return (cursor) => {
    const query = new URLSearchParams(kept);
    for (const [name, id] of Object.entries(cursor)) if (id !== undefined) query.set(name, id);
    return `${base}${path}${query.size > 0 ? `?${query}` : ''}`;
  };
}

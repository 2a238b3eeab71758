import type { FastifyRequest } from 'fastify';
import type { Page, PageQuery } from '../contract/common.ts';
import { ClientError } from '../errors.ts';
import { type Cursor, NEWEST, type SearchedRows } from '../lib/cursor.ts';
import { type JsonText, joinTexts } from '../lib/json-text.ts';
import { type ListPage, readPage } from '../lib/page.ts';

/** Responds with one page of a list. */
export async function paginate<Row extends { id: string }, Item>(options: {
  base: string;
  request: Pick<FastifyRequest, 'url'>;
  query: PageQuery;
  list: (cursor: Cursor) => Promise<Row[] | SearchedRows<Row>>;
  item: (row: Row) => Item;
}): Promise<Page<Item>> {
  const { base, request, query, list, item } = options;
  const page = await readPage(readCursor(query), list);
  return { data: page.items.map(item), links: pageLinks(base, request, page) };
}

/** A page whose records are JSON texts already, as JSON text. */
export function pageJson(page: ListPage<JsonText>, links: Page<unknown>['links']): JsonText {
  const separated = page.items.flatMap((text, index) => (index === 0 ? [text] : [',', text]));
  return joinTexts(['{"data":[', ...separated, `],"links":${JSON.stringify(links)}}`]);
}

/** The absolute addresses of a page's neighbours: the requested one with another cursor. */
export function pageLinks(
  base: string,
  { url }: Pick<FastifyRequest, 'url'>,
  { older, newer }: Pick<ListPage<unknown>, 'older' | 'newer'>,
): Page<unknown>['links'] {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const kept = new URLSearchParams(at < 0 ? '' : url.slice(at + 1));
  kept.delete('starting_after');
  kept.delete('ending_before');
  const link = (cursor: { starting_after?: string; ending_before?: string }) => {
    const query = new URLSearchParams(kept);
    for (const [name, id] of Object.entries(cursor)) query.set(name, id);
    return `${base}${path}${query.size > 0 ? `?${query}` : ''}`;
  };
  return {
    first: link({}),
    next: older === undefined ? null : link(older === NEWEST ? {} : { starting_after: older }),
    prev: newer === undefined ? null : link({ ending_before: newer }),
  };
}

/** The problem of a query with two cursors; undefined if it has at most one. */
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

/** The cursor that the query names: the newest end of the list if none. Ids are in lower case. */
export function readCursor(
  { limit = 50, starting_after, ending_before }: PageQuery,
  idOf = (given: string) => given.toLowerCase(),
): Cursor {
  const problem = cursorsProblem({ starting_after, ending_before });
  if (problem !== undefined) throw new ClientError('validation_failed', problem);
  if (ending_before) return { direction: 'newer', id: idOf(ending_before), limit };
  return { direction: 'older', id: starting_after ? idOf(starting_after) : NEWEST, limit };
}

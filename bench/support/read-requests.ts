import { OLDEST } from '../../server/src/lib/cursor.ts';
import { firstIdAt, timeOf } from '../../server/src/lib/ids.ts';
import { type Operation, type Parameter, pathOf } from '../../server/test/support/operations.ts';

/** A request that reads: an operation with one set of parameters. */
export interface ReadRequest {
  operation: string;
  /** Filters, and the position in the list. */
  variant: string;
  /** Below `/v2`. */
  path: string;
  jwt: string;
}

/** The values that requests need. */
export interface Known {
  /** Values of `{parameters}` in paths; others are read from the list above them. */
  ids: Readonly<Record<string, string>>;
  /** By operation, with names: the ids to use instead, one after the other. */
  own: Readonly<Record<string, readonly { name: string; ids: Readonly<Record<string, string>> }[]>>;
  /** By operation: a cursor in the middle of a list whose cursors are not ids. */
  middles: Readonly<Record<string, string>>;
  /**
   * Queries of filters, with a name each; filters with an `enum` in the description need none.
   */
  filters: Readonly<Record<string, readonly { name: string; query: string }[]>>;
  projectJwt: string;
  /** By name: the callers of the operations for users. */
  userJwts: Readonly<Record<string, string>>;
  /** More callers, only for inboxes. */
  inboxJwts: Readonly<Record<string, string>>;
}

type Get = (path: string, jwt: string) => Promise<{ status: number; body: unknown }>;

const PAGE = 50;
// They stream everything that there is. The part `users` measures them.
const EXPORTS = ['exportUsers', 'exportUser'];
const PAGING = ['limit', 'starting_after', 'ending_before'];

/**
 * Returns the requests for every operation that reads and returns a bounded JSON: each record, and for each
 * list the first page, two in the middle (one each way) and the last, without filters and with each. Throws
 * if the description has a parameter without a known value, so that nothing is left out.
 */
export async function readRequests(
  operations: readonly Operation[],
  known: Known,
  get: Get,
): Promise<ReadRequest[]> {
  const reading = operations.filter(
    ({ id, method, replies, caller }) =>
      method === 'GET' &&
      replies.get(200) !== undefined &&
      (caller === 'project' || caller === 'user') &&
      !EXPORTS.includes(id),
  );
  const requests: ReadRequest[] = [];
  for (const operation of reading) {
    for (const [user, jwt] of callersOf(operation, known)) {
      const prefix = user === '' ? '' : `${user}: `;
      for (const own of known.own[operation.id] ?? [{ name: '', ids: {} }]) {
        const ids = { ...known.ids, ...own.ids };
        const path = await fillPath(operation, reading, { ...known, ids }, jwt, get);
        if (path === undefined) continue; // a user without such a record
        for (const { name, query } of filtersOf(operation, known)) {
          const places = isList(operation)
            ? await placesIn({ path, filter: query, middle: known.middles[operation.id] }, jwt, get)
            : [{ name: '', query }];
          for (const place of places) {
            const names = [own.name, name, place.name].filter((text) => text !== '');
            const variant = `${prefix}${names.join(', ')}`;
            requests.push({ operation: operation.id, variant, path: addressOf(path, place.query), jwt });
          }
        }
      }
    }
  }
  return requests;
}

function callersOf(
  { caller, path }: Operation,
  { projectJwt, userJwts, inboxJwts }: Known,
): [string, string][] {
  if (caller === 'project') return [['', projectJwt]];
  return Object.entries(path.startsWith('/notifications') ? { ...userJwts, ...inboxJwts } : userJwts);
}

function isList({ parameters }: Operation): boolean {
  return parameters.some((one) => one.name === 'limit');
}

/** Without filters, and with each one. */
function filtersOf({ id, parameters }: Operation, known: Known): { name: string; query: string }[] {
  const filters = parameters.filter((one) => one.in === 'query' && !PAGING.includes(one.name));
  return [
    { name: '', query: '' },
    ...filters.flatMap(
      (one) => known.filters[`${id} ${one.name}`] ?? known.filters[one.name] ?? enumOf(id, one),
    ),
  ];
}

function enumOf(id: string, { name, schema }: Parameter): { name: string; query: string }[] {
  if (schema.enum === undefined) throw new Error(`no known value for '${name}' of ${id}`);
  return schema.enum.map((value) => ({ name: `${name}=${value}`, query: `${name}=${value}` }));
}

/** The path of an operation, with ids of records that are there; undefined where the caller has none. */
async function fillPath(
  operation: Operation,
  reading: readonly Operation[],
  known: Known,
  jwt: string,
  get: Get,
): Promise<string | undefined> {
  const values: Record<string, string> = { ...known.ids };
  for (const { name } of operation.parameters.filter((one) => one.in === 'path')) {
    if (values[name] !== undefined) continue;
    const listPath = operation.path.slice(0, operation.path.indexOf(`/{${name}}`));
    const list = reading.find((one) => one.path === listPath);
    if (list === undefined) throw new Error(`no known value for '${name}' of ${operation.id}`);
    // A list may be for users only, and the records below it for the project.
    const reader = list.caller === operation.caller ? jwt : (Object.values(known.userJwts)[0] ?? jwt);
    const listAt = pathOf(list, values);
    const [, place] = isList(list) ? await placesIn({ path: listAt, filter: '' }, reader, get) : [];
    const { body } = await get(addressOf(listAt, place?.query ?? ''), reader);
    const { data, items } = body as Record<'data' | 'items', Record<string, string | number>[] | undefined>;
    const [record] = data ?? items ?? [];
    const id = record?.id ?? record?.[name] ?? record?.key;
    if (id === undefined) return undefined;
    values[name] = String(id);
  }
  return pathOf(operation, values);
}

/** The queries for a list's pages, by the cursors in its links. */
async function placesIn(
  { path, filter, middle: own }: { path: string; filter: string; middle?: string | undefined },
  jwt: string,
  get: Get,
): Promise<{ name: string; query: string }[]> {
  const first = { name: 'first page', query: join(filter, `limit=${PAGE}`) };
  const last = { name: 'last page', query: join(first.query, `ending_before=${OLDEST}`) };
  const newest = await linksOf(path, first.query, jwt, get);
  const oldest = await linksOf(path, last.query, jwt, get);
  const [from, to] = [cursorIn(newest.next, 'starting_after'), cursorIn(oldest.prev, 'ending_before')];
  if (from === undefined || to === undefined) return [first];
  const middle = own ?? firstIdAt(Math.round((timeOf(from) + timeOf(to)) / 2));
  return [
    first,
    { name: 'middle, older', query: join(first.query, `starting_after=${middle}`) },
    { name: 'middle, newer', query: join(first.query, `ending_before=${middle}`) },
    last,
  ];
}

interface Links {
  next: string | null;
  prev: string | null;
}

async function linksOf(path: string, query: string, jwt: string, get: Get): Promise<Links> {
  const address = addressOf(path, query);
  const { status, body } = await get(address, jwt);
  if (status !== 200) throw new Error(`the response to ${address} was ${status}: ${JSON.stringify(body)}`);
  return (body as { links: Links }).links;
}

function cursorIn(link: string | null, name: string): string | undefined {
  return link === null ? undefined : (new URL(link).searchParams.get(name) ?? undefined);
}

function addressOf(path: string, query: string): string {
  return query === '' ? path : `${path}?${query}`;
}

function join(...queries: string[]): string {
  return queries.filter((query) => query !== '').join('&');
}

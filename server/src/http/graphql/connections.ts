import { setImmediate } from 'node:timers/promises';
import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLString,
} from 'graphql';
import { Type } from 'typebox';
import { nullable } from '../../contract/common.ts';
import { ClientError } from '../../errors.ts';
import { type Cursor, NEWEST, OLDEST } from '../../lib/cursor.ts';
import type { ListPage } from '../../lib/page.ts';
import type { Scope } from './scope.ts';

const MAX_TURN_MS = 10;
export const MAX_ON_PAGE = 100;
export const DEFAULT_ON_PAGE = 50;

const size = (description: string) =>
  Type.Optional(nullable(Type.Integer({ minimum: 1, maximum: MAX_ON_PAGE, description })));
const cursor = (description: string) => Type.Optional(nullable(Type.String({ maxLength: 511, description })));

/** The arguments that select a page of a connection. */
export const pageArgs = {
  first: size(`How many to return at most, from 1 to ${MAX_ON_PAGE}. If omitted, ${DEFAULT_ON_PAGE}.`),
  after: cursor('A cursor. Returns what follows it.'),
  last: size('The same as `first` from the other end: the records just before the cursor `before`.'),
  before: cursor('A cursor. Returns what precedes it; use it with `last`.'),
};

export interface PageArgs {
  first?: number | null;
  after?: string | null;
  last?: number | null;
  before?: string | null;
}

/** Reads the arguments of a page. Throws `validation_failed` for a cursor that `isCursor` rejects. */
export function readPageArgs(
  { first, after, last, before }: PageArgs,
  isCursor: (text: string) => boolean,
): Cursor {
  const problems: string[] = [];
  if (first != null && last != null) problems.push("Param 'last' cannot be combined with 'first'");
  if (before && last == null) problems.push("Param 'before' needs 'last'");
  if (after && last != null) problems.push("Param 'after' cannot be combined with 'last'");
  for (const [name, given] of Object.entries({ after, before }))
    if (given && !isCursor(given)) problems.push(`Param '${name}' is not a cursor of this list`);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  if (last != null) return { direction: 'newer', id: before || OLDEST, limit: last };
  return { direction: 'older', id: after || NEWEST, limit: first ?? DEFAULT_ON_PAGE };
}

/** A connection whose page and count are read when a query selects them. */
export interface Connection {
  page(): Promise<ConnectionPage>;
  count?(): Promise<number>;
}

interface ConnectionPage {
  edges: { cursor: string; node: object }[];
  pageInfo: PageInfo;
}

interface PageInfo {
  hasNextPage: boolean;
  hasPreviousPage: boolean;
  startCursor: string | null;
  endCursor: string | null;
}

/** The connection to a list. `count` returns the number of all its records. */
export function connect<Row>(options: {
  page: () => Promise<ListPage<Row>>;
  edge: (row: Row) => { cursor: string; node: object };
  count?: () => Promise<number>;
}): Connection {
  let page: Promise<ConnectionPage> | undefined;
  return {
    page: () => {
      page ??= options.page().then((read) => connectionPage(read, options.edge));
      return page;
    },
    ...(options.count === undefined ? {} : { count: options.count }),
  };
}

async function connectionPage<Row>(
  { items, older, newer }: ListPage<Row>,
  edge: (row: Row) => { cursor: string; node: object },
): Promise<ConnectionPage> {
  const edges: ConnectionPage['edges'] = [];
  let startedAt = performance.now();
  for (const item of items) {
    edges.push(edge(item));
    if (performance.now() - startedAt < MAX_TURN_MS) continue;
    await setImmediate(); // other requests, while long texts are parsed
    startedAt = performance.now();
  }
  return {
    edges,
    pageInfo: {
      hasNextPage: older !== undefined,
      hasPreviousPage: newer !== undefined,
      startCursor: newer ?? edges[0]?.cursor ?? null,
      endCursor: older ?? edges.at(-1)?.cursor ?? null,
    },
  };
}

const PageInfoType = new GraphQLObjectType({
  name: 'PageInfo',
  description: 'The place of a page in its list.',
  fields: {
    hasNextPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    hasPreviousPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    startCursor: { type: GraphQLString, description: 'The cursor `before` of the previous page.' },
    endCursor: { type: GraphQLString, description: 'The cursor `after` of the next page.' },
  },
});

const TOTAL_COUNT = {
  type: new GraphQLNonNull(GraphQLInt),
  description: 'The exact number of records in the whole list.',
};

/** The type of a connection. Some lists cannot always be counted. */
export function connectionType(
  node: GraphQLObjectType,
  totalCount: { type: GraphQLOutputType; description: string } = TOTAL_COUNT,
): GraphQLObjectType {
  const edge = new GraphQLObjectType({
    name: `${node.name}Edge`,
    fields: {
      cursor: { type: new GraphQLNonNull(GraphQLString) },
      node: { type: new GraphQLNonNull(node) },
    },
  });
  const list = <Item extends GraphQLObjectType>(item: Item) =>
    new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(item)));
  const fields: GraphQLFieldConfigMap<Connection, Scope> = {
    edges: { type: list(edge), resolve: async (connection) => (await connection.page()).edges },
    nodes: {
      type: list(node),
      description: 'The nodes of the edges.',
      resolve: async (connection) => (await connection.page()).edges.map((one) => one.node),
    },
    pageInfo: {
      type: new GraphQLNonNull(PageInfoType),
      resolve: async (connection) => (await connection.page()).pageInfo,
    },
    totalCount: { ...totalCount, resolve: (connection) => connection.count?.() },
  };
  return new GraphQLObjectType({ name: `${node.name}Connection`, fields });
}

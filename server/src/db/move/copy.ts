import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { inTransaction } from '../in-transaction.ts';
import { type MovedTable, ofProject, ownedBy, XACT_COLUMNS } from './tables.ts';

/** Both ends of a move, with a connection to each. */
export interface Ends {
  readonly source: pg.Client;
  readonly target: pg.Client;
  readonly tables: readonly MovedTable[];
  readonly projectId: string;
}

/** How far the rows are copied: the part, and the key of its last row. Stored with each page. */
export interface Position {
  part: number;
  after?: readonly string[];
}

/** The first position. */
export const START: Position = { part: 0 };

// Owners in a page. A user may have thousands of notifications.
const OWNERS_PER_PAGE = 500;
const ROWS_PER_PAGE = 20_000;

/**
 * They have a unique index beside the primary key, over rows of different owners. A row that was deleted
 * since its page was copied could have the place of one in a later page, so they are copied at once, as
 * changes (sync.ts). So are jobs, which come and go.
 */
export const AT_ONCE: ReadonlySet<string> = new Set(['suppressions', 'workflow_digests', 'jobs']);

/** One after another: all rows of users, of broadcasts, …, then the tables that belong to the project. */
interface Part {
  /** Rows in pages of this table… */
  readonly table: MovedTable;
  /** …with all rows that belong to them. */
  readonly owned: readonly MovedTable[];
}

function partsOf(tables: readonly MovedTable[]): Part[] {
  const isCopied = ({ name, enters }: MovedTable) => enters === 'ahead' && !AT_ONCE.has(name);
  return tables
    .filter(({ owner }) => owner === 'project')
    .map((table) => ({ table, owned: ownedBy(tables, table).filter(isCopied) }))
    .filter(({ table, owned }) => isCopied(table) || owned.length > 0);
}

/**
 * Copies the rows that enter their tables ahead, page by page from `position` on. A page and its position are
 * one transaction of the target, so a move that was killed continues with the next page. Pages are short,
 * because feeds of events in the target end before its oldest transaction. `onPage` gets the rows so far.
 */
export async function copyAhead(
  ends: Ends,
  position: Position,
  onPage: (table: string, rows: number) => void,
): Promise<void> {
  const { target, tables, projectId } = ends;
  const parts = partsOf(tables);
  let rows = 0;
  let at = position;
  for (let part = parts[at.part]; part !== undefined; part = parts[at.part]) {
    const page = await readPage(ends, part, at.after);
    await inTransaction(target, async () => {
      rows += await copyPage(ends, part, page);
      at = page.last === undefined ? { part: at.part + 1 } : { part: at.part, after: page.last };
      await target.query('update arriving_projects set position = $2 where project_id = $1', [
        projectId,
        JSON.stringify(at),
      ]);
    });
    onPage(part.table.name, rows);
  }
}

/** The rows behind `after`, up to `last`; without it, all that are left. */
interface Page {
  after?: readonly string[] | undefined;
  last?: readonly string[] | undefined;
}

async function readPage(
  { source, projectId }: Ends,
  { table, owned }: Part,
  after?: readonly string[],
): Promise<Page> {
  const limit = owned.length > 0 ? OWNERS_PER_PAGE : ROWS_PER_PAGE;
  const key = table.key.map((column) => `${column}::text`).join(', ');
  const { rows } = await source.query<{ key: string[] }>(
    `select array[${key}] as key
    from ${table.name} r
    where ${within(table, projectId, { after })}
    order by ${table.key.join(', ')}
    offset ${limit - 1} limit 1`,
  );
  return { after, last: rows[0]?.key };
}

async function copyPage(ends: Ends, { table, owned }: Part, page: Page): Promise<number> {
  const { projectId } = ends;
  const wanted = within(table, projectId, page);
  let rows =
    table.enters === 'ahead' ? await copyRows(ends, table, `from ${table.name} r where ${wanted}`) : 0;
  for (const one of owned)
    rows += await copyRows(
      ends,
      one,
      `from ${one.name} r
      where r.${one.key[0]} = any (array(select r.id from ${table.name} r where ${wanted}))`,
    );
  return rows;
}

/** The condition for the rows of a page. `r` is the table. */
function within(table: MovedTable, projectId: string, { after, last }: Page): string {
  const columns = table.key.map((column) => `r.${column}`).join(', ');
  const bound = (sign: string, key: readonly string[] | undefined) =>
    key === undefined ? '' : ` and (${columns}) ${sign} (${key.map(literal).join(', ')})`;
  return ofProject(table, 'r', projectId) + bound('>', after) + bound('<=', last);
}

// Without a cast: PostgreSQL takes the type of the column.
const literal = (value: string) => `'${value.replaceAll("'", "''")}'`;

/**
 * Copies rows of a table. `from` is the rest of a select after its columns, with `r` as the table. All
 * transactions of events are the oldest possible one until `placeEvents` (feeds.ts).
 */
export async function copyRows(
  { source, target }: Pick<Ends, 'source' | 'target'>,
  { name, columns }: MovedTable,
  from: string,
): Promise<number> {
  const values = columns.map((column) =>
    XACT_COLUMNS[name] === column ? `'${OLDEST_XACT}'::xid8` : `r.${column}`,
  );
  return copy({ source, target }, `select ${values.join(', ')} ${from}`, `${name} (${columns.join(', ')})`);
}

/** The first id of a transaction that PostgreSQL gives (FirstNormalTransactionId). */
export const OLDEST_XACT = 3;

/** Copies the result of a query into a table. Returns the number of rows. */
export async function copy(
  { source, target }: Pick<Ends, 'source' | 'target'>,
  query: string,
  into: string,
): Promise<number> {
  const sink = target.query(copyFrom(`copy ${into} from stdin`));
  await pipeline(source.query(copyTo(`copy (${query}) to stdout`)), sink);
  return sink.rowCount;
}

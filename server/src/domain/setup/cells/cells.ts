import { type Queryable, sql } from '../../../db/client.ts';
import type { Sealer } from '../../../lib/seal.ts';

/** The cell that every installation has. It holds the directory of all others. */
export const DEFAULT_CELL = 'public';

/** A cell besides the default one: a schema with all tables, in any database. */
export interface Cell {
  name: string;
  /** The schema of its tables. */
  schema: string;
  /** The URL of its database as `sealedFor` seals it; null for that of the default cell. */
  sealedUrl: Buffer | null;
  /** Without the connection pooler of `sealedUrl`, if there is one. */
  sealedDirectUrl: Buffer | null;
}

/** Whether two rows of the directory are one cell, in the same place. */
export function isSameCell(one: Cell, other: Cell): boolean {
  const isSame = (a: Buffer | null, b: Buffer | null) => (a === null || b === null ? a === b : a.equals(b));
  return (
    one.name === other.name &&
    one.schema === other.schema &&
    isSame(one.sealedUrl, other.sealedUrl) &&
    isSame(one.sealedDirectUrl, other.sealedDirectUrl)
  );
}

/** The URLs of a database of its own. */
export interface CellUrls {
  url: string;
  directUrl: string;
}

/** Why a text cannot be the name of a new cell; undefined if it can. */
export function problemOfCellName(name: string): string | undefined {
  if (name === DEFAULT_CELL) return `the cell ${DEFAULT_CELL} exists: it is the default one`;
  return /^[a-z][a-z0-9_]{0,31}$/.test(name)
    ? undefined
    : 'the name of a cell has 1 to 32 characters: a to z, 0 to 9 and _, with a letter first';
}

/** The schema of a new cell in the database of the default cell. */
export function schemaOfCell(name: string): string {
  return `belfry_${name}`;
}

/** Creates such a schema, unless it exists. */
export async function createSchemaOf(db: Queryable, schema: string): Promise<void> {
  if (!/^[a-z][a-z0-9_]*$/.test(schema)) throw new Error(`${schema} is not the schema of a cell`);
  await db.query(sql('', `create schema if not exists ${schema}`));
}

/** Returns the cells besides the default one, oldest first. `db` is that of the default cell. */
export async function listCells(db: Queryable): Promise<Cell[]> {
  return db.query<Cell>(selectCells);
}

/** The same for a database of any schema. */
export async function listCellsIfAny(db: Queryable): Promise<Cell[]> {
  const [table] = await db.query<{ exists: boolean }>(findTable);
  return table?.exists ? listCells(db) : [];
}

/** Whether the tables of a cell are in this database. */
export async function hasTablesOf(db: Queryable, { schema }: Pick<Cell, 'schema'>): Promise<boolean> {
  const [found] = await db.query<{ exists: boolean }>(findTablesOfCell, [schema]);
  return found?.exists === true;
}

/** Returns the URLs of a cell's database; undefined if that is the database of the default cell. */
export function urlsOf(
  { sealer }: { sealer: Sealer },
  { name, sealedUrl, sealedDirectUrl }: Cell,
): CellUrls | undefined {
  if (sealedUrl === null) return undefined;
  const open = (sealed: Buffer) => sealer.open(sealed, cellPurpose(name)).toString();
  const url = open(sealedUrl);
  return { url, directUrl: sealedDirectUrl === null ? url : open(sealedDirectUrl) };
}

/** A cell that is not in the directory yet. */
export function sealedCell(
  { sealer }: { sealer: Sealer },
  { name, schema, urls }: { name: string; schema: string; urls: CellUrls | undefined },
): Cell {
  const seal = (url: string) => sealer.seal(url, cellPurpose(name));
  const sealedUrl = urls === undefined ? null : seal(urls.url);
  const sealedDirectUrl = urls === undefined || urls.directUrl === urls.url ? null : seal(urls.directUrl);
  return { name, schema, sealedUrl, sealedDirectUrl };
}

/** Writes a new cell into the directory. Returns whether there was none of that name. */
export async function insertCell(db: Queryable, cell: Cell): Promise<boolean> {
  const { name, schema, sealedUrl, sealedDirectUrl } = cell;
  return (await db.query(insert, [name, schema, sealedUrl, sealedDirectUrl])).length > 0;
}

/** Changes where a cell is. */
export async function updateCell(db: Queryable, cell: Cell): Promise<void> {
  const { name, schema, sealedUrl, sealedDirectUrl } = cell;
  await db.query(update, [name, schema, sealedUrl, sealedDirectUrl]);
}

/**
 * Removes a cell that has no projects from the directory, with rows that say otherwise: they remain if the
 * creation of a project was interrupted, or if its cell was restored from an older backup.
 */
export async function deleteCell(db: Queryable, name: string): Promise<void> {
  await db.query(remove, [name]);
}

/** The purpose that the URLs of a cell are sealed for. */
export function cellPurpose(name: string): string {
  return `cell:${name}:url`;
}

// A row per cell.
const selectCells = sql(
  'select_cells',
  `select name, schema_name as schema, sealed_url as "sealedUrl", sealed_direct_url as "sealedDirectUrl"
  from cells
  order by created_at, name`,
);

const findTable = sql('find_cells_table', "select to_regclass('cells') is not null as exists");

// Also without the right to use the schema.
const findTablesOfCell = sql(
  'find_tables_of_cell',
  `select exists (
    select
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1 and c.relname = 'projects'
  ) as exists`,
);

const insert = sql(
  'insert_cell',
  `insert into cells (name, schema_name, sealed_url, sealed_direct_url)
  values ($1, $2, $3, $4)
  on conflict (name) do nothing
  returning 1 as one`,
);

// cells_pkey.
const update = sql(
  'update_cell',
  'update cells set schema_name = $2, sealed_url = $3, sealed_direct_url = $4 where name = $1',
);

// cells_pkey, and all rows of the other table, for a command. A foreign key is checked after the statement.
const remove = sql(
  'delete_cell',
  `with projects as (delete from cell_projects where cell = $1)
  delete from cells where name = $1`,
);

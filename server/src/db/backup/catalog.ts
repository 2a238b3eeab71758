import type pg from 'pg';
import type { TableOf } from './frames.ts';

// A restore creates these itself: by the migrations, and by the first start.
const CREATED = ['migrations', 'sealing_key'];

/** The state of moves of projects. While one has not ended, there is no backup. */
const TABLES_OF_MOVES = [
  'project_moves',
  'leaving_projects',
  'changed_rows',
  'arriving_projects',
  'arriving_rows',
];

/**
 * Every table of the schema with its stored columns, in an order that satisfies the foreign keys. Without
 * transaction ids and snapshots, which mean nothing to another server: restored rows get the id of the
 * restoring transaction, and no snapshot.
 */
export async function listTables(client: pg.Client): Promise<TableOf[]> {
  const { rows } = await client.query<TableOf & { needs: string[] }>(LIST_TABLES, [
    [...CREATED, ...TABLES_OF_MOVES],
  ]);
  return byDependency(rows).map(({ name, columns }) => ({ name, columns }));
}

// Without unlogged tables, whose contents may be lost; without partitions, which are copied through their
// parent; and without the tables of extensions.
const LIST_TABLES = `
  select
    c.relname as name,
    array(
      select a.attname::text
      from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        and a.atttypid <> 'pg_snapshot'::regtype
        and not exists (
          select from pg_attrdef d
          where d.adrelid = a.attrelid and d.adnum = a.attnum
            and pg_get_expr(d.adbin, d.adrelid) = 'pg_current_xact_id()'
        )
      order by a.attnum
    ) as columns,
    array(
      select distinct r.relname::text
      from pg_constraint f
      join pg_class r on r.oid = f.confrelid
      where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid
    ) as needs
  from pg_class c
  where c.relnamespace = quote_ident(current_schema())::regnamespace
    and c.relkind in ('r', 'p')
    and c.relpersistence = 'p'
    and not c.relispartition
    and c.relname <> all ($1)
    and not exists (
      select from pg_depend d
      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
    )
  order by c.relname`;

/** The positions of the sequences. They are not transactional, so read them after the rows. */
export async function readSequences(client: pg.Client): Promise<Record<string, string | null>> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    `select sequencename as name, last_value::text as last
    from pg_sequences
    where schemaname = current_schema()
    order by sequencename`,
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, last]));
}

const PORTABLE_SETTINGS = [
  "client_encoding = 'UTF8'",
  "datestyle = 'ISO, YMD'",
  "intervalstyle = 'postgres'",
  "timezone = 'UTC'",
  "bytea_output = 'hex'",
  'extra_float_digits = 1',
  'statement_timeout = 0',
  'idle_in_transaction_session_timeout = 0',
  'row_security = off',
];

/** Settings for this transaction, with which every server writes and reads values in the same way. */
export const PORTABLE = `${PORTABLE_SETTINGS.map((setting) => `set local ${setting}`).join('; ')};
  ${noTransactionTimeout({ local: true })}`;

/** The same for a connection of one's own. */
export const PORTABLE_SESSION = `${PORTABLE_SETTINGS.map((setting) => `set ${setting}`).join('; ')};
  ${noTransactionTimeout({ local: false })}`;

/** Only PostgreSQL 17 and newer have this setting. */
function noTransactionTimeout({ local }: { local: boolean }): string {
  return `select set_config(name, '0', ${local}) from pg_settings where name = 'transaction_timeout'`;
}

function byDependency<Table extends { name: string; needs: string[] }>(tables: readonly Table[]): Table[] {
  const ordered: Table[] = [];
  let waiting = [...tables];
  while (waiting.length > 0) {
    const names = new Set(waiting.map(({ name }) => name));
    const free = waiting.filter(({ needs }) => needs.every((need) => !names.has(need)));
    if (free.length === 0)
      throw new Error(`tables that need one another cannot be copied: ${[...names].join(', ')}`);
    ordered.push(...free);
    waiting = waiting.filter((table) => !free.includes(table));
  }
  return ordered;
}

import type pg from 'pg';
import { listTables } from '../backup/catalog.ts';

/** A table whose rows move with their project. */
export interface MovedTable {
  readonly name: string;
  /** The columns that are copied. */
  readonly columns: readonly string[];
  readonly key: readonly string[];
  /** The types of these columns. */
  readonly keyTypes: readonly string[];
  /** What its rows belong to. Rows of `project` have the project's id. */
  readonly owner: Owner | 'project';
  /** When its rows enter the table of the new cell: before the project is there, or with it. */
  readonly enters: 'ahead' | 'with the project';
}

/** A table whose rows own rows of others. `column` is how these name it. */
interface Owner {
  readonly name: string;
  readonly column: string;
}

// By the first column of the primary key.
const OWNERS: readonly Owner[] = [
  { name: 'users', column: 'user_id' },
  { name: 'broadcasts', column: 'broadcast_id' },
  { name: 'webhooks', column: 'webhook_id' },
  { name: 'user_imports', column: 'import_id' },
  { name: 'workflow_runs', column: 'run_id' },
];

// They describe a cell or its nodes. Rates of sending start from zero.
const STAY = new Set(['leases', 'cells', 'cell_projects', 'rate_schedules', 'rate_windows']);

// Their rows would have an effect: jobs run, webhooks send, installations renew their tokens, and credentials
// of the project are accepted. Those of `jobs` change all the time; the others are few.
const WITH_THE_PROJECT = new Set([
  'projects',
  'project_tokens',
  'former_project_keys',
  'project_key_uses',
  'integrations',
  'integration_pauses',
  'installations',
  'categories',
  'preference_categories',
  'project_delivery_windows',
  'suppression_keys',
  'tracking',
  'templates',
  'template_versions',
  'webhooks',
  'webhook_replays',
  'workflows',
  'workflow_versions',
  'workflow_schedules',
  'workflow_triggers',
  'workflow_feeds',
  'workflow_throttles',
  'jobs',
]);

/** A transaction id means nothing in another database: these get another one (feeds.ts). */
export const XACT_COLUMNS: Readonly<Record<string, string>> = {
  events: 'xact',
  webhooks: 'feed_xact',
  workflow_feeds: 'feed_xact',
};

/** Returns all tables that have rows of projects, in an order that satisfies the foreign keys. */
export async function listMovedTables(client: pg.Client): Promise<MovedTable[]> {
  const tables = await listTables(client);
  const { rows } = await client.query<{ name: string; key: string[]; types: string[] }>(selectKeys);
  const keys = new Map(rows.map((row) => [row.name, row]));
  return tables
    .filter(({ name }) => !STAY.has(name))
    .map(({ name, columns }) => {
      const { key, types: keyTypes } = keys.get(name) ?? { key: [], types: [] };
      const owner = OWNERS.find(({ column }) => column === key[0]);
      if (owner === undefined && name !== 'projects' && !columns.includes('project_id'))
        throw new Error(`the rows of ${name} belong to no project`);
      const xact = XACT_COLUMNS[name];
      return {
        name,
        columns: xact === undefined ? columns : [...columns, xact],
        key,
        keyTypes,
        owner: owner ?? 'project',
        enters: WITH_THE_PROJECT.has(name) ? 'with the project' : 'ahead',
      };
    });
}

/** The condition for rows of the project. `row` is the table or its alias. */
export function ofProject({ name, columns, owner }: MovedTable, row: string, projectId: string): string {
  if (name === 'projects') return `${row}.id = '${projectId}'`;
  if (columns.includes('project_id') || owner === 'project') return `${row}.project_id = '${projectId}'`;
  return `exists (
    select
    from ${owner.name} owners
    where owners.id = ${row}.${owner.column} and owners.project_id = '${projectId}'
  )`;
}

/** The tables whose rows belong to rows of this one. */
export function ownedBy(tables: readonly MovedTable[], { name }: { name: string }): MovedTable[] {
  return tables.filter(({ owner }) => owner !== 'project' && owner.name === name);
}

const selectKeys = `
  select c.relname as name, array(
    select a.attname::text
    from unnest(i.indkey) with ordinality as k (number, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
    order by place
  ) as key, array(
    select a.atttypid::regtype::text
    from unnest(i.indkey) with ordinality as k (number, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
    order by place
  ) as types
  from pg_index i
  join pg_class c on c.oid = i.indrelid
  where i.indisprimary and c.relnamespace = quote_ident(current_schema())::regnamespace`;

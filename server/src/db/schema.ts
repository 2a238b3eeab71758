import { type Queryable, sql } from './client.ts';
import { migrations } from './migrations.ts';

/** The schema of a database. Programs that know `oldestProgram` or a later schema may use it. */
export interface Schema {
  version: number;
  oldestProgram: number;
}

/** The schema of a database without tables. */
export const NO_SCHEMA: Schema = { version: 0, oldestProgram: 0 };

/** The version of this release's schema. */
export function newestSchema(): number {
  return migrations().at(-1)?.version ?? 0;
}

/** Why a release that knows the schema `known` cannot use the database; undefined if it can. */
export function schemaObstacle({ version, oldestProgram }: Schema, known: number): string | undefined {
  if (known >= oldestProgram) return undefined;
  return (
    `the database has schema ${version}, made by a newer Belfry: ` +
    `it needs a release that knows schema ${oldestProgram}, and this one knows ${known}`
  );
}

/** Selects a `Schema` from `migrations m`. Databases of older releases have no `oldest_program`. */
export const SCHEMA_COLUMNS = `
    coalesce(max(version), 0)::int as version,
    coalesce(max(coalesce((to_jsonb(m) ->> 'oldest_program')::int, version)), 0)::int as "oldestProgram"`;

// A few rows.
export const selectSchema = sql('select_schema', `select ${SCHEMA_COLUMNS} from migrations m`);

/** The end of the connection names of a server. It lets `runningPrograms` find out what the server knows. */
export function programSuffix(): string {
  return ` (schema ${newestSchema()})`;
}

/** The schemas that the connected servers know, without duplicates; 0 for releases that do not say it. */
export async function runningPrograms(db: Queryable): Promise<number[]> {
  return (await db.query<{ known: number }>(selectPrograms)).map(({ known }) => known);
}

// All connections of the database server, which are few.
const selectPrograms = sql(
  'select_running_programs',
  String.raw`select distinct
    coalesce(substring(application_name from '\(schema (\d+)\)')::int, 0) as known
  from pg_stat_activity
  where datname = current_database() and application_name ~ '^belfry (api|worker)( |$)'
  order by known`,
);

import { readdirSync, readFileSync } from 'node:fs';
import type pg from 'pg';

const directory = new URL('./migrations/', import.meta.url);
// 'belfry' in ASCII. Nodes that start together take this lock to migrate one after the other.
const LOCK = 0x62656c667279;
/** The oldest supported PostgreSQL, as `server_version_num`. */
export const OLDEST_SERVER = 150_000;

/** A migration file: `0001_foundation.sql` has the version 1. */
export interface Migration {
  version: number;
  name: string;
  text: string;
}

/** The migrations of this release, oldest first. */
export function migrations(): Migration[] {
  return readdirSync(directory)
    .filter((file) => /^\d{4}_.+\.sql$/.test(file))
    .sort()
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -4),
      text: readFileSync(new URL(file, directory), 'utf8'),
    }));
}

/** This release cannot use the database; the message says what to do. */
export class UnusableDatabase extends Error {}

/** PostgreSQL rejected a migration, with its error as the cause. The migration was rolled back. */
export class MigrationFailed extends Error {}

/**
 * Migrates the database to this release's schema, or to version `to`, each migration in a transaction.
 * Returns the versions that it applied. Nodes that start together wait for one another. Throws
 * `UnusableDatabase` if the server is too old or the schema is newer than this release.
 */
export async function migrate(
  client: pg.Client | pg.PoolClient,
  options: { to?: number } = {},
): Promise<number[]> {
  const server = await client.query<{ version: number; text: string }>(
    "select current_setting('server_version_num')::int as version, current_setting('server_version') as text",
  );
  const row = server.rows[0];
  if (row === undefined || row.version < OLDEST_SERVER) {
    throw new UnusableDatabase(`the database is PostgreSQL ${row?.text}; Belfry needs 15 or newer`);
  }
  await client.query('select pg_advisory_lock($1)', [LOCK]);
  try {
    return await applyMissing(client, options.to ?? Number.POSITIVE_INFINITY);
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK]);
  }
}

/** The version of the schema in the database; 0 without one. */
export async function schemaVersion(client: pg.Client | pg.PoolClient): Promise<number> {
  const table = await client.query<{ exists: boolean }>(
    "select to_regclass('migrations') is not null as exists",
  );
  if (table.rows[0]?.exists !== true) return 0;
  const newest = await client.query<{ version: number }>(
    'select coalesce(max(version), 0)::int as version from migrations',
  );
  return newest.rows[0]?.version ?? 0;
}

async function applyMissing(client: pg.Client | pg.PoolClient, to: number): Promise<number[]> {
  const known = migrations();
  const newest = known.at(-1)?.version ?? 0;
  const present = await schemaVersion(client);
  if (present > newest) {
    throw new UnusableDatabase(
      `the database has schema ${present}, made by a newer Belfry; this release knows ${newest}: ` +
        'start the newer release, or restore a backup',
    );
  }
  // Only then, because `if not exists` needs the right to create tables in any case.
  if (present === 0) await client.query(createMigrations);
  const missing = known.filter(({ version }) => version > present && version <= to);
  for (const migration of missing) await apply(client, migration);
  return missing.map(({ version }) => version);
}

const createMigrations = `
  create table if not exists migrations (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default clock_timestamp()
  )`;

// Servers of the previous release may be running, and lock rows and tables in another order: a migration that
// a deadlock ended is retried.
const MAX_ATTEMPTS = 5;
const DEADLOCK = '40P01';

async function apply(client: pg.Client | pg.PoolClient, migration: Migration): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await applyOnce(client, migration);
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code === DEADLOCK && attempt < MAX_ATTEMPTS) continue;
      throw new MigrationFailed(`migration ${migration.version} (${migration.name}) failed`, {
        cause: error,
      });
    }
  }
}

async function applyOnce(
  client: pg.Client | pg.PoolClient,
  { version, name, text }: Migration,
): Promise<void> {
  await client.query('begin');
  try {
    await client.query(text);
    await client.query('insert into migrations (version, name) values ($1, $2)', [version, name]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from './client.ts';
import { inTransaction } from './in-transaction.ts';
import { watchLocks } from './lock-waits.ts';
import { type Migration, migrations, statementsOf } from './migrations.ts';
import { NO_SCHEMA, type Schema, schemaObstacle, selectSchema } from './schema.ts';

type Client = pg.Client | pg.PoolClient;

export interface MigrateOptions {
  /** The last version to apply. */
  to?: number;
  /** The migrations that this release knows; by default those in its folder. */
  known?: readonly Migration[];
  /** Another connection, which looks what a migration waits for. */
  observer?: Queryable;
  /** Called with a line for each new thing that a migration waits for. */
  onWait?: (line: string) => void;
  /** How long a migration is retried while others hold locks that it needs. */
  patienceMs?: number;
}

// 'belfry' in ASCII. Nodes that start together take this lock to migrate one after the other.
const LOCK = 0x62656c667279;
const LOCK_POLL_MS = 200;
/** The oldest supported PostgreSQL, as `server_version_num`. */
export const OLDEST_SERVER = 150_000;

/** This release cannot use the database; the message says what to do. */
export class UnusableDatabase extends Error {}

/** There is nothing to back up: the database has no tables of Belfry. */
export class EmptyDatabase extends UnusableDatabase {
  constructor() {
    super('there is nothing to back up: the database has no tables of Belfry');
  }
}

/** A migration failed, with the error as the cause. Its unfinished transaction was rolled back. */
export class MigrationFailed extends Error {}

/**
 * Migrates the database to this release's schema, or to version `to`. Returns the versions that it applied:
 * none if a newer release has migrated the database and allows this one. Nodes that start together wait for
 * one another. Throws `UnusableDatabase` if the server is too old or the schema does not allow this release.
 */
export async function migrate(client: Client, options: MigrateOptions = {}): Promise<number[]> {
  const server = await client.query<{ version: number; text: string }>(
    "select current_setting('server_version_num')::int as version, current_setting('server_version') as text",
  );
  const row = server.rows[0];
  if (row === undefined || row.version < OLDEST_SERVER) {
    throw new UnusableDatabase(`the database is PostgreSQL ${row?.text}; Belfry needs 15 or newer`);
  }
  // Without the lock, so that a node with many cells in one database does not open them one after another.
  if ((await missingIn(client, options)).length === 0) return [];
  await takeLock(client, options);
  try {
    return await applyMissing(client, options);
  } finally {
    // A connection that has ended holds no lock.
    await client.query('select pg_advisory_unlock($1)', [LOCK]).catch(() => undefined);
  }
}

/** The version of the schema in the database; 0 without one. */
export async function schemaVersion(client: Client): Promise<number> {
  return (await schemaIn(client)).version;
}

async function schemaIn(client: Client): Promise<Schema> {
  const table = await client.query<{ exists: boolean }>(
    "select to_regclass('migrations') is not null as exists",
  );
  if (table.rows[0]?.exists !== true) return NO_SCHEMA;
  return (await client.query<Schema>(selectSchema.text)).rows[0] ?? NO_SCHEMA;
}

/**
 * Polls for the lock. A statement that waits for it would be an open transaction, and the node that has the
 * lock would wait for its end when it builds an index concurrently.
 */
async function takeLock(client: Client, { onWait }: MigrateOptions): Promise<void> {
  for (let first = true; ; first = false) {
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [
      LOCK,
    ]);
    if (rows[0]?.taken === true) return;
    if (first) onWait?.('Another server migrates the database: waiting for it to finish');
    await delay(LOCK_POLL_MS);
  }
}

async function applyMissing(client: Client, options: MigrateOptions): Promise<number[]> {
  const missing = await missingIn(client, options);
  for (const migration of missing) await apply(client, migration, options);
  return missing.map(({ version }) => version);
}

/** The migrations that the database does not have yet. Throws if it does not allow this release. */
async function missingIn(client: Client, options: MigrateOptions): Promise<Migration[]> {
  const { known = migrations(), to = Number.POSITIVE_INFINITY } = options;
  const present = await schemaIn(client);
  const obstacle = schemaObstacle(present, known.at(-1)?.version ?? 0);
  if (obstacle !== undefined)
    throw new UnusableDatabase(`${obstacle}; start the newer release, or restore a backup`);
  return known.filter(({ version }) => version > present.version && version <= to);
}

/** Creates the table of migrations, or adds the column to that of an older release. */
async function prepareTable(client: Client): Promise<void> {
  const { rowCount } = await client.query(
    "select from pg_attribute where attrelid = to_regclass('migrations') and attname = 'oldest_program'",
  );
  // Only then, because the statements need rights and a lock, even if they change nothing.
  if (rowCount !== 0) return;
  await withBriefLocks(client, async () => {
    for (const statement of prepareMigrations) await client.query(statement);
  });
}

const prepareMigrations = [
  `create table if not exists migrations (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default clock_timestamp()
  )`,
  'alter table migrations add column if not exists oldest_program integer',
];

async function apply(client: Client, migration: Migration, options: MigrateOptions): Promise<void> {
  const label = `${migration.version} (${migration.name})`;
  let waited = '';
  const { observer, onWait } = options;
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const watch =
    observer &&
    watchLocks({
      observer,
      pid: rows[0]?.pid ?? 0,
      onWait(finding) {
        waited = ` because it waited for ${finding}`;
        onWait?.(`Migration ${label} waits for ${finding}`);
      },
    });
  try {
    await retried(options, () => prepareTable(client));
    if (migration.transaction) {
      await retried(options, () => applyAll(client, migration));
    } else {
      for (const statement of statementsOf(migration))
        await retried(options, () => applyStatement(client, statement));
      await record(client, migration);
    }
  } catch (error) {
    throw new MigrationFailed(`migration ${label} failed${isRetried(error) ? waited : ''}`, { cause: error });
  } finally {
    await watch?.stop();
  }
}

// While a statement waits for a lock, the requests of running servers wait behind it. So it waits this long,
// lets them pass, and tries again.
const LOCK_TIMEOUT_MS = 500;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const PATIENCE_MS = 10 * 60_000;
// A deadlock, and a lock that was not free in time. Servers of the previous release may be running, and lock
// rows and tables in another order.
const RETRIED: readonly unknown[] = ['40P01', '55P03'];

function isRetried(error: unknown): boolean {
  return RETRIED.includes((error as { code?: unknown }).code);
}

async function retried(
  { patienceMs = PATIENCE_MS }: MigrateOptions,
  work: () => Promise<void>,
): Promise<void> {
  const startedMs = performance.now();
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      await work();
      return;
    } catch (error) {
      if (!isRetried(error) || performance.now() - startedMs + pauseMs > patienceMs) throw error;
    }
    await delay(pauseMs);
  }
}

async function applyAll(client: Client, migration: Migration): Promise<void> {
  await withBriefLocks(client, async () => {
    // One by one: a distributed PostgreSQL passes the text of the query on to its workers.
    for (const statement of statementsOf(migration)) await client.query(statement);
    await record(client, migration);
  });
}

/** Applies a statement that a killed process may have applied before, completely or in part. */
async function applyStatement(client: Client, statement: string): Promise<void> {
  const text = statement.replaceAll(/^--.*$/gm, '').trim();
  if (!/^(create|drop) .*\bconcurrently\b/i.test(text)) {
    await withBriefLocks(client, () => client.query(text));
    return;
  }
  const index = /^create (?:unique )?index concurrently if not exists (\w+)/i.exec(text)?.[1];
  // Requests do not wait behind it, so it may wait for a lock.
  await client.query('set lock_timeout = 0; set statement_timeout = 0');
  try {
    if (index !== undefined) await dropInvalid(client, index);
    await client.query(text);
  } finally {
    await client.query('reset lock_timeout; reset statement_timeout').catch(() => undefined);
  }
}

/** Drops an index whose build was interrupted: PostgreSQL maintains it and never uses it. */
async function dropInvalid(client: Client, index: string): Promise<void> {
  const { rowCount } = await client.query(
    'select from pg_index where indexrelid = to_regclass($1) and not indisvalid',
    [index],
  );
  if (rowCount === 1) await client.query(`drop index concurrently ${index}`);
}

async function record(client: Client, { version, name, oldestProgram }: Migration): Promise<void> {
  await client.query('insert into migrations (version, name, oldest_program) values ($1, $2, $3)', [
    version,
    name,
    oldestProgram,
  ]);
}

/** Runs work in a transaction that waits only briefly for locks. */
function withBriefLocks(client: Client, work: () => Promise<unknown>): Promise<void> {
  return inTransaction(client, async () => {
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}; set local statement_timeout = 0`);
    await work();
  });
}

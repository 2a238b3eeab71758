import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { listTables, PORTABLE, readSequences } from './backup/catalog.ts';
import {
  createSum,
  encodeFrame,
  type Frame,
  type Header,
  jsonFrame,
  rowFrames,
  type TableOf,
  type Trailer,
} from './backup/frames.ts';
import { type ConnectionSettings, KEEP_ALIVE } from './client.ts';
import { GuardedClient } from './guarded-client.ts';
import { EmptyDatabase, schemaVersion, UnusableDatabase } from './migrate.ts';

/** The result of a backup or a restore. */
export interface Moved {
  readonly schema: number;
  readonly tables: number;
  readonly rows: number;
}

/** The progress of a backup or a restore. */
export interface Progressed {
  readonly table: string;
  /** The number of the table, from 1. */
  readonly at: number;
  readonly of: number;
  /** Bytes of all rows so far, uncompressed. */
  readonly bytes: number;
}

/** The options of backups and restores. */
export interface MoveOptions {
  connection: ConnectionSettings;
  /** Called for every few rows. */
  onProgress?: (progress: Progressed) => void;
}

interface BackupOptions extends MoveOptions {
  /** Aborts it with an error. */
  signal?: AbortSignal;
}

/**
 * Writes a consistent snapshot of the database to the stream, and ends the stream. The server may keep
 * running, and the memory needed does not depend on the size of the database.
 */
export async function backup(
  { connection, onProgress, signal }: BackupOptions,
  output: Writable,
): Promise<Moved> {
  const client = new GuardedClient({
    ...connection,
    ...KEEP_ALIVE,
    application_name: 'belfry backup',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined); // the running statement fails as well, and is reported
  await client.connect();
  const moved = { schema: 0, tables: 0, rows: 0 };
  try {
    // Level 3, because contents are stored compressed. Level 6 takes twice as long to save 3 %.
    await pipeline(
      Readable.from(encoded(client, moved, onProgress), { objectMode: false }),
      createGzip({ level: 3 }),
      output,
      { signal },
    );
    return moved;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A firewall may drop packets. The other cells should not wait for minutes. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** A complete backup whose file does not have its name yet. */
export interface DraftBackup {
  readonly moved: Moved;
  /** Gives the file its name. Without `force`, an existing file is an error (EEXIST), even if it is new. */
  publish(options: { force: boolean }): Promise<void>;
  /** Deletes the file, unless it has got its name. */
  discard(): Promise<void>;
}

/** Writes the snapshot into a file that only its owner may read, beside the one that `publish` makes. */
export async function draftBackup(options: BackupOptions, file: string): Promise<DraftBackup> {
  const partial = `${file}.${randomBytes(4).toString('hex')}.partial`;
  const discard = () => rm(partial, { force: true });
  const handle = await open(partial, 'wx', 0o600);
  try {
    // The stream syncs the file to the disk before it closes it.
    const moved = await backup(options, handle.createWriteStream({ flush: true }));
    const publish = async ({ force }: { force: boolean }) => {
      await (force ? rename(partial, file) : renameToNew(partial, file));
      await syncDirectory(path.dirname(path.resolve(file)));
    };
    return { moved, publish, discard };
  } catch (error) {
    await handle.close().catch(() => undefined); // the stream may have closed it
    await discard();
    throw error;
  }
}

/** A link, unlike a rename, fails if the name exists. File systems without links check first, and rename. */
async function renameToNew(partial: string, file: string): Promise<void> {
  try {
    await link(partial, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST' || existsSync(file)) throw error;
    await rename(partial, file);
    return;
  }
  await rm(partial);
}

async function* encoded(
  client: pg.Client,
  moved: Moved,
  onProgress: MoveOptions['onProgress'],
): AsyncGenerator<Buffer> {
  const sum = createSum();
  for await (const frame of frames(client, moved, sum, onProgress)) {
    sum.add(frame);
    yield encodeFrame(frame);
  }
}

async function* frames(
  client: pg.Client,
  moved: { schema: number; tables: number; rows: number },
  sum: { hex(): string },
  onProgress: MoveOptions['onProgress'],
): AsyncGenerator<Frame> {
  const header = await readHeader(client, await beginSnapshot(client));
  moved.schema = header.schema;
  yield jsonFrame('header', header);
  let bytes = 0;
  for (const table of header.tables) {
    yield jsonFrame('table', table);
    const stream = client.query(copyTo(`copy (${selectOf(client, table)}) to stdout`));
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      onProgress?.({ table: table.name, at: moved.tables + 1, of: header.tables.length, bytes });
      yield* rowFrames(chunk);
    }
    yield jsonFrame('table end', { rows: stream.rowCount });
    moved.tables += 1;
    moved.rows += stream.rowCount;
  }
  const sequences = await readSequences(client);
  await client.query('commit');
  const trailer: Trailer = { sequences, sha256: sum.hex() };
  yield jsonFrame('end', trailer);
}

/**
 * Begins a transaction that reads all tables as of one moment, and returns the tables. They are locked before
 * that moment: migrations and retention replace tables by copies, which an older snapshot does not see. Both
 * wait until the backup is complete.
 */
async function beginSnapshot(client: pg.Client): Promise<TableOf[]> {
  for (;;) {
    await client.query('begin read only');
    await client.query(PORTABLE);
    const expected = await listTables(client);
    const { rows: timeouts } = await client.query<{ name: string }>(SELECT_TIMEOUTS);
    await client.query('commit');
    await client.query('begin transaction isolation level repeatable read read only');
    // Neither `set` nor `lock` takes the snapshot.
    for (const { name } of timeouts) await client.query(`set local ${name} = 0`);
    const names = expected.map(({ name }) => client.escapeIdentifier(name));
    if (names.length > 0) await client.query(`lock table ${names.join(', ')} in access share mode`);
    await client.query(PORTABLE);
    const tables = await listTables(client);
    // A migration may have added tables before the lock.
    if (tables.every(({ name }) => expected.some((one) => one.name === name))) return tables;
    await client.query('rollback');
  }
}

// Only PostgreSQL 17 and newer have the second.
const SELECT_TIMEOUTS = `
  select name from pg_settings where name in ('statement_timeout', 'transaction_timeout')`;

async function readHeader(client: pg.Client, tables: TableOf[]): Promise<Header> {
  const schema = await schemaVersion(client);
  if (schema === 0) throw new EmptyDatabase();
  if (await isMoving(client))
    throw new UnusableDatabase(
      'a project is moving to another cell: finish or cancel the move first (belfry project move)',
    );
  const { rows } = await client.query<{ version: string; now: Date }>(
    "select current_setting('server_version') as version, transaction_timestamp() as now",
  );
  return {
    format: 'belfry-backup',
    version: 1,
    schema,
    postgres: rows[0]?.version ?? '',
    made_at: (rows[0]?.now ?? new Date(0)).toISOString(),
    tables,
  };
}

/** Whether the cell knows of a move that has not ended. Older schemas know none. */
async function isMoving(client: pg.Client): Promise<boolean> {
  const known = await client.query<{ known: boolean }>(
    "select to_regclass('project_moves') is not null as known",
  );
  if (known.rows[0]?.known !== true) return false;
  const { rows } = await client.query(`
    select from project_moves
    union all
    select from leaving_projects
    union all
    select from arriving_projects`);
  return rows.length > 0;
}

// As a query, because `copy <table>` would skip partitions.
function selectOf(client: pg.Client, { name, columns }: TableOf): string {
  const list = columns.map((column) => client.escapeIdentifier(column)).join(', ');
  return `select ${list} from ${client.escapeIdentifier(name)}`;
}

async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return; // directories cannot be opened there
  const handle = await open(directory, 'r');
  await handle.sync();
  await handle.close();
}

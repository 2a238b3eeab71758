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
import type { ConnectionSettings } from './client.ts';
import { GuardedClient } from './guarded-client.ts';
import { schemaVersion, UnusableDatabase } from './migrate.ts';

/** What a backup or a restore has moved. */
export interface Moved {
  readonly schema: number;
  readonly tables: number;
  readonly rows: number;
}

/** How far a backup or a restore has come. */
export interface Progressed {
  readonly table: string;
  /** Which of the tables it is, from 1 on. */
  readonly at: number;
  readonly of: number;
  /** All rows so far, as they are without compression. */
  readonly bytes: number;
}

/** What a backup or a restore works with. */
export interface MoveOptions {
  connection: ConnectionSettings;
  /** Called often: for every few rows. */
  onProgress?: (progress: Progressed) => void;
}

interface BackupOptions extends MoveOptions {
  /** Ends it early, with an error. */
  signal?: AbortSignal;
}

/**
 * Writes everything in the database, as it was at one moment, to the stream and ends it. The server may go on
 * working; memory stays the same however large the database is.
 */
export async function backup(
  { connection, onProgress, signal }: BackupOptions,
  output: Writable,
): Promise<Moved> {
  const client = new GuardedClient({ ...connection, application_name: 'belfry backup' });
  client.on('error', () => undefined); // the statement that runs fails as well, and that is reported
  await client.connect();
  const moved = { schema: 0, tables: 0, rows: 0 };
  try {
    // Level 3: the contents are compressed already, what is left is mostly ids; 6 takes twice the time for 3
    // % less.
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

/**
 * The same into a file, which only its owner may read and which appears under its name only when it is
 * complete. Without `force` a file of that name is not replaced: that is an error (EEXIST), also where it
 * came into being meanwhile.
 */
export async function backupToFile(
  options: BackupOptions,
  file: string,
  { force = false }: { force?: boolean } = {},
): Promise<Moved> {
  const partial = `${file}.${randomBytes(4).toString('hex')}.partial`;
  const handle = await open(partial, 'wx', 0o600);
  try {
    // The stream syncs the file to the disk before it closes it.
    const moved = await backup(options, handle.createWriteStream({ flush: true }));
    await (force ? rename(partial, file) : renameToNew(partial, file));
    await syncDirectory(path.dirname(path.resolve(file)));
    return moved;
  } catch (error) {
    await handle.close().catch(() => undefined); // the stream has closed it, unless it never came to that
    await rm(partial, { force: true });
    throw error;
  }
}

/**
 * A link, unlike a rename, fails where the name exists. Some file systems have none: there a moment is left
 * between look and rename.
 */
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
  // All tables are read as they were at the first statement of this transaction.
  await client.query('begin transaction isolation level repeatable read read only');
  await client.query(PORTABLE);
  const header = await readHeader(client);
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

async function readHeader(client: pg.Client): Promise<Header> {
  const schema = await schemaVersion(client);
  if (schema === 0)
    throw new UnusableDatabase('there is nothing to back up: the database has no tables of Belfry');
  const tables = await listTables(client);
  // A migration that comes in between waits until the backup is done.
  const names = tables.map(({ name }) => client.escapeIdentifier(name));
  await client.query(`lock table ${names.join(', ')} in access share mode`);
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

// As a query: `copy <table>` would leave out what lies in partitions.
function selectOf(client: pg.Client, { name, columns }: TableOf): string {
  return `select ${columns.map((column) => client.escapeIdentifier(column)).join(', ')} from ${client.escapeIdentifier(name)}`;
}

async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return; // directories cannot be opened there
  const handle = await open(directory, 'r');
  await handle.sync();
  await handle.close();
}

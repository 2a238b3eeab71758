import { once } from 'node:events';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { listTables, PORTABLE } from './backup/catalog.ts';
import {
  createSum,
  decodeFrames,
  type Frame,
  type Header,
  type TableOf,
  type Trailer,
} from './backup/frames.ts';
import { CONNECT_TIMEOUT_MS, type Moved, type MoveOptions } from './backup.ts';
import { KEEP_ALIVE } from './client.ts';
import { GuardedClient } from './guarded-client.ts';
import { migrate, schemaVersion, UnusableDatabase } from './migrate.ts';
import { newestSchema } from './schema.ts';

/** The file cannot be restored; the message says why and what to do. Nothing was stored. */
export class UnusableBackup extends Error {}

/** The frames in their order, and the checksum of those that were read. */
interface Frames {
  next(): Promise<Frame | undefined>;
  sum(): string;
}

/**
 * Restores a backup into an empty database and migrates it to this release's schema. All rows appear at once,
 * after the whole file was verified. Throws `UnusableBackup` for the file or `UnusableDatabase` for the
 * database.
 */
export async function restore({ connection, onProgress }: MoveOptions, input: Readable): Promise<Moved> {
  const frames = summed(readFrames(unpacked(input)));
  const client = new GuardedClient({
    ...connection,
    ...KEEP_ALIVE,
    application_name: 'belfry restore',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined); // the running statement fails as well, and is reported
  try {
    await client.connect();
    const header = readHeader(await frames.next());
    await makeSchema(client, header);
    const rows = await load(client, header, frames, onProgress).catch(explain);
    await migrate(client);
    await client.query('analyze');
    return { schema: header.schema, tables: header.tables.length, rows };
  } finally {
    // Also ends an interrupted copy: the server rolls back when the connection ends.
    await client.end().catch(() => undefined);
    input.destroy();
  }
}

function summed(frames: AsyncGenerator<Frame, undefined>): Frames {
  const sum = createSum();
  return {
    async next() {
      const { value } = await frames.next();
      if (value !== undefined) sum.add(value);
      return value;
    },
    sum: () => sum.hex(),
  };
}

/** Starts at once. The stream keeps an error for its reader. */
function unpacked(input: Readable): Readable {
  const bytes = createGunzip();
  bytes.on('error', () => undefined);
  pipeline(input, bytes, () => undefined);
  return bytes;
}

async function* readFrames(bytes: Readable): AsyncGenerator<Frame, undefined> {
  try {
    yield* decodeFrames(bytes, damaged);
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || !String(error.code).startsWith('Z_')) throw error;
    throw error.message === 'incorrect header check' ? notABackup() : damaged();
  }
  return undefined;
}

const damaged = (cause?: unknown): UnusableBackup =>
  new UnusableBackup('the file is incomplete or damaged: nothing was restored; use another backup file', {
    cause,
  });
const tooLong = (): UnusableBackup =>
  new UnusableBackup(
    'the file continues after the end of the backup: ' +
      'nothing was restored; use the file as "belfry backup" wrote it',
  );
const notABackup = (): UnusableBackup =>
  new UnusableBackup('the file is not a backup made by "belfry backup"');

/** Values that the database rejects, and invalid JSON, were not written by a backup. */
function explain(error: unknown): never {
  const code = error instanceof pg.DatabaseError ? (error.code ?? '') : '';
  // 22: invalid value, 23: constraint violation, 42: no such table or column
  if (error instanceof SyntaxError || /^(22|23|42)/.test(code)) throw damaged(error);
  throw error;
}

function readHeader(frame: Frame | undefined): Header {
  if (frame?.kind !== 'header') throw notABackup();
  const header = parse(frame) as Header;
  if (header.format !== 'belfry-backup') throw notABackup();
  const newest = newestSchema();
  if (header.version !== 1 || header.schema > newest) {
    throw new UnusableBackup(
      `the backup was made by a newer Belfry (schema ${header.schema}, this release knows ${newest}): ` +
        'restore it with that release',
    );
  }
  return header;
}

/** Creates the tables in the schema of the backup, which its rows need. */
async function makeSchema(client: pg.Client, { schema }: Header): Promise<void> {
  const present = await schemaVersion(client);
  if (present > schema) {
    throw new UnusableDatabase(
      `the database was set up by a newer Belfry (schema ${present}) than the backup (schema ${schema}): ` +
        'restore into an empty database',
    );
  }
  const tables = await listTables(client);
  await requireEmpty(client, tables);
  await migrate(client, { to: schema });
}

async function requireEmpty(client: pg.Client, tables: readonly TableOf[]): Promise<void> {
  for (const { name } of tables) {
    const { rows } = await client.query(`select from ${client.escapeIdentifier(name)} limit 1`);
    if (rows.length === 0) continue;
    throw new UnusableDatabase(
      `the database is not empty (there are ${name} in it): ` +
        'restore into an empty one, for the embedded database with a new DATA_DIR',
    );
  }
}

/** Copies and verifies everything in one transaction. Returns the number of rows. */
async function load(
  client: pg.Client,
  { tables }: Header,
  frames: Frames,
  onProgress: MoveOptions['onProgress'],
): Promise<number> {
  await client.query('begin');
  await client.query(PORTABLE);
  await client.query(COMMIT_TO_DISK);
  await lockEmpty(client, tables);
  let rows = 0;
  let bytes = 0;
  for (const [index, table] of tables.entries()) {
    rows += await copyIn(client, table, frames, (more) => {
      bytes += more;
      onProgress?.({ table: table.name, at: index + 1, of: tables.length, bytes });
    });
  }
  const end = await frames.next();
  const trailer = end?.kind === 'end' ? (parse(end) as Trailer) : undefined;
  if (trailer === undefined) throw damaged();
  if ((await frames.next()) !== undefined) throw tooLong();
  if (trailer.sha256 !== frames.sum()) throw damaged();
  await setSequences(client, trailer.sequences);
  if (tables.some(({ name }) => name === 'webhooks')) await client.query(rewindFeeds);
  await client.query('commit');
  return rows;
}

// With asynchronous commits a crash could lose everything after the command has reported success.
const COMMIT_TO_DISK = `
  select set_config('synchronous_commit', 'on', true)
  where current_setting('synchronous_commit') = 'off'`;

const parse = ({ payload }: Frame): unknown => JSON.parse(payload.toString('utf8'));

/** Locks the tables against other writers. Throws if one has written since the first check. */
async function lockEmpty(client: pg.Client, tables: readonly TableOf[]): Promise<void> {
  const names = tables.map(({ name }) => client.escapeIdentifier(name));
  if (names.length > 0) await client.query(`lock table ${names.join(', ')} in access exclusive mode`);
  await requireEmpty(client, tables);
}

async function copyIn(
  client: pg.Client,
  table: TableOf,
  frames: Frames,
  onBytes: (more: number) => void,
): Promise<number> {
  const start = await frames.next();
  if (start?.kind !== 'table' || (parse(start) as TableOf).name !== table.name) throw damaged();
  const columns = table.columns.map((column) => client.escapeIdentifier(column));
  const stream = client.query(
    copyFrom(`copy ${client.escapeIdentifier(table.name)} (${columns.join(', ')}) from stdin`),
  );
  let failure: Error | undefined;
  stream.on('error', (error) => {
    failure = error;
    stream.destroy(); // it has released its connection, so its buffer must not be written
  });
  let frame = await frames.next();
  for (; frame?.kind === 'rows'; frame = await frames.next()) {
    if (failure !== undefined) throw failure;
    onBytes(frame.payload.length);
    if (!stream.write(frame.payload)) await once(stream, 'drain');
  }
  if (failure !== undefined) throw failure;
  stream.end();
  await once(stream, 'finish');
  if (frame?.kind !== 'table end' || (parse(frame) as { rows: number }).rows !== stream.rowCount)
    throw damaged();
  return stream.rowCount;
}

async function setSequences(client: pg.Client, sequences: Trailer['sequences']): Promise<void> {
  for (const [name, last] of Object.entries(sequences)) {
    if (last === null) continue;
    await client.query('select setval($1::regclass, $2)', [client.escapeIdentifier(name), last]);
  }
}

// Restored events all belong to the restoring transaction, so webhooks read them in the order of their ids.
// An event of a long transaction may have a lower id than events that a webhook has read. So every webhook
// starts a minute earlier, which is longer than any transaction, and sends a few messages again with their
// old ids. A webhook that had read nothing starts at the time when it was saved.
const rewindFeeds = `
  update webhooks
  set feed_id = (left(place, 8) || '-' || right(place, 4) || '-7000-8000-000000000000')::uuid
  from (
    select id,
      lpad(to_hex(greatest(0, case
        when feed_id = '00000000-0000-0000-0000-000000000000'
          then (extract(epoch from updated_at) * 1000)::bigint
        else ('x' || left(replace(feed_id::text, '-', ''), 12))::bit(48)::bigint
      end - 60000)), 12, '0') as place
    from webhooks
  ) as before
  where before.id = webhooks.id`;

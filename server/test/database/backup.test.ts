import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { createSum, decodeFrames, encodeFrame, type Frame, jsonFrame } from '../../src/db/backup/frames.ts';
import { backup, draftBackup } from '../../src/db/backup.ts';
import { UnusableDatabase } from '../../src/db/migrate.ts';
import { migrations } from '../../src/db/migrations.ts';
import { restore, UnusableBackup } from '../../src/db/restore.ts';
import { createDatabaseOn, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { databaseContents } from '../support/database-contents.ts';
import { fillTables } from '../support/fill-tables.ts';
import { versionOf } from '../support/version-of.ts';
import { withClient } from '../support/with-client.ts';

const schema = migrations().at(-1)?.version;
let directory = '';
let source: TestDatabase;
let file = '';
const databases: TestDatabase[] = [];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'belfry-backup-'));
  source = await createTestDatabase();
  databases.push(source);
  await withClient(source.connection, fillTables);
  file = path.join(directory, 'all.belfry');
  const draft = await draftBackup(source, file);
  await draft.publish({ force: false });
});

afterAll(async () => {
  for (const database of databases) await database.drop();
  await rm(directory, { recursive: true, force: true });
});

describe('a backup', () => {
  it('has every row of every table with unchanged values after a restore', async () => {
    const target = await empty();
    const moved = await restore(target, createReadStream(file));
    const before = await withClient(source.connection, databaseContents);
    const after = await withClient(target.connection, databaseContents);
    expect(after).toEqual(before);
    const counts = Object.values(before).map(({ count }) => count);
    expect(counts.filter((count) => count === 0)).toEqual([]); // every table is tested
    expect(moved).toEqual({
      schema,
      tables: counts.length,
      rows: counts.reduce((sum, count) => sum + count),
    });
  });

  it('can be of a schema whose name has to be quoted', async () => {
    const target = await empty();
    const { database } = target.connection;
    await withClient(target.connection, async (client) => {
      await client.query('create schema "of the Shop"');
      await client.query(`alter database ${database} set search_path = 'of the Shop'`);
    });
    const restored = await restore(target, createReadStream(file));
    expect(await backup(target, new PassThrough().resume())).toEqual(restored);
  });

  it('takes as long as it needs, whatever the database sets', async ({ skip }) => {
    const limited = await createTestDatabase();
    databases.push(limited);
    await withClient(limited.connection, async (client) => {
      skip((await versionOf(client)) < 170_000, 'only PostgreSQL 17 and newer have transaction_timeout');
      await client.query(`alter database ${limited.connection.database} set transaction_timeout = '300ms'`);
      await client.query(
        'begin; set local transaction_timeout = 0; lock table users in access exclusive mode',
      );
      const written = backup(limited, new PassThrough().resume());
      written.catch(() => undefined);
      const age = `select clock_timestamp() - xact_start > '600ms' as old from pg_stat_activity
        where application_name = 'belfry backup' and datname = '${limited.connection.database}'`;
      const seen = await withClient(source.connection, async (other) => {
        for (let started = false; ; ) {
          const { rows } = await other.query<{ old: boolean }>(age);
          if (rows[0]?.old === true) return 'old';
          if (started && rows.length === 0) return 'ended';
          started ||= rows.length > 0;
        }
      });
      expect(seen).toBe('old');
      await client.query('commit');
      await expect(written).resolves.toMatchObject({ schema });
    });
  });

  it('is refused while a project moves', async () => {
    const moving = await createTestDatabase();
    databases.push(moving);
    await withClient(moving.connection, (client) =>
      client.query('insert into leaving_projects (project_id) values (gen_random_uuid())'),
    );
    await expect(backup(moving, new PassThrough())).rejects.toThrow('a project is moving to another cell');
  });

  it('continues the sequence of the queue', async () => {
    const target = await empty();
    await restore(target, createReadStream(file));
    const insert = `insert into jobs (kind, project_id, payload)
      values ('x', gen_random_uuid(), '{}') returning id`;
    const [row] = await withClient(target.connection, async (client) => (await client.query(insert)).rows);
    expect(Number(row.id)).toBe(51);
  });

  it('is a snapshot, despite concurrent writes', async () => {
    const live = await createTestDatabase();
    databases.push(live);
    await withClient(live.connection, fillTables);
    const before = await withClient(live.connection, databaseContents);
    const slow = new PassThrough({ highWaterMark: 1 });
    const done = backup(live, slow);
    await once(slow, 'readable'); // the transaction has begun
    await withClient(live.connection, async (client) => {
      await client.query('delete from jobs');
      await client.query("update users set first_name = 'changed'");
    });
    const target = await empty();
    await Promise.all([done, restore(target, slow)]);
    expect(await withClient(target.connection, databaseContents)).toEqual(before);
  });

  it('is readable only by its owner, and appears only when it is complete', async () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const nothing = await empty();
    const other = path.join(directory, 'never.belfry');
    await expect(draftBackup(nothing, other)).rejects.toThrow(UnusableDatabase);
    expect(existsSync(other)).toBe(false);
    expect(readdirSync(directory)).toEqual(['all.belfry']);
  });

  it('whose output fails throws that error and closes its connection', async () => {
    const full = new Writable({ write: (_chunk, _encoding, done) => done(new Error('no space left')) });
    await expect(backup(source, full)).rejects.toThrow('no space left');
    const left = `select count(*)::int as count
      from pg_stat_activity
      where application_name = 'belfry backup' and datname = current_database()`;
    await expect
      .poll(() => withClient(source.connection, async (client) => (await client.query(left)).rows[0]))
      .toEqual({ count: 0 });
  });
});

describe('a restore rejects, without storing anything,', () => {
  it('a file that was cut off anywhere', async () => {
    const target = await empty();
    const whole = readFileSync(file);
    for (const share of [0.02, 0.3, 0.6, 0.95, 0.9999]) {
      const cut = whole.subarray(0, Math.floor(whole.length * share));
      await expect(restore(target, Readable.from([cut]))).rejects.toThrow(/incomplete or damaged/);
    }
    expect(await rowsIn(target)).toBe(0);
    await restore(target, createReadStream(file)); // their remains do no harm
  });

  it('a file with a changed byte, even if it was compressed again', async () => {
    const target = await empty();
    const bytes = gunzipSync(readFileSync(file));
    for (const share of [0.1, 0.4, 0.7, 0.9]) {
      const altered = Buffer.from(bytes);
      const at = Math.floor(bytes.length * share);
      altered[at] = (altered[at] ?? 0) === 0x61 ? 0x62 : 0x61;
      await expect(restore(target, Readable.from([gzipSync(altered)]))).rejects.toThrow(UnusableBackup);
    }
    expect(await rowsIn(target)).toBe(0);
  });

  it('a file without one row, although its checksum is right', async () => {
    const target = await empty();
    const frames = (await framesOf(file)).map((frame, index, all) => {
      if (frame.kind !== 'table end' || all[index - 1]?.kind !== 'rows') return frame;
      const { rows } = JSON.parse(frame.payload.toString()) as { rows: number };
      return jsonFrame('table end', { rows: rows + 1 });
    });
    await expect(restore(target, packed(frames))).rejects.toThrow(/incomplete or damaged/);
    expect(await rowsIn(target)).toBe(0);
  });

  it('a file with bytes after the end of the backup', async () => {
    const target = await empty();
    const whole = readFileSync(file);
    const end = jsonFrame('end', {});
    for (const excess of [whole, gzipSync(encodeFrame(end))])
      await expect(restore(target, Readable.from([Buffer.concat([whole, excess])]))).rejects.toThrow(
        /continues after the end of the backup/,
      );
    await expect(restore(target, Readable.from([Buffer.concat([whole, gzipSync('x')])]))).rejects.toThrow(
      /incomplete or damaged/,
    );
    expect(await rowsIn(target)).toBe(0);
  });

  it('a file that is not a backup', async () => {
    const target = await empty();
    const others = [
      Buffer.alloc(0),
      Buffer.from('hello'),
      gzipSync('hello, this is something else'),
      randomBytes(5000),
    ];
    for (const other of others) {
      await expect(restore(target, Readable.from([other], { objectMode: false }))).rejects.toThrow(
        UnusableBackup,
      );
    }
    await expect(restore(target, createReadStream(path.join(directory, 'missing')))).rejects.toThrow(
      /ENOENT/,
    );
  });

  it('a backup of a newer release, with that reason', async () => {
    const target = await empty();
    const frames = (await framesOf(file)).map((frame) => {
      if (frame.kind !== 'header') return frame;
      return jsonFrame('header', { ...JSON.parse(frame.payload.toString()), schema: 9999 });
    });
    await expect(restore(target, packed(frames))).rejects.toThrow(/made by a newer Belfry \(schema 9999/);
  });

  it('a database that is not empty, and names what it contains', async () => {
    const target = await empty();
    await restore(target, createReadStream(file));
    const before = await withClient(target.connection, databaseContents);
    await expect(restore(target, createReadStream(file))).rejects.toThrow(
      /is not empty \(there are \w+ in it\)/,
    );
    expect(await withClient(target.connection, databaseContents)).toEqual(before);
  });

  it('a database whose schema is newer than the backup', async () => {
    const target = await createTestDatabase();
    databases.push(target);
    await withClient(target.connection, (client) =>
      client.query("insert into migrations (version, name) values (9999, 'later')"),
    );
    await expect(restore(target, createReadStream(file))).rejects.toThrow(
      /set up by a newer Belfry \(schema 9999\)/,
    );
  });
});

it('a server that does not respond stops neither a backup nor a restore for long', async () => {
  const silent = createServer();
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as AddressInfo;
  const connection = { host: '127.0.0.1', port, user: 'belfry', database: 'none' };
  const [backedUp, restored] = await Promise.allSettled([
    backup({ connection }, new PassThrough()),
    restore({ connection }, createReadStream(file)),
  ]);
  for (const result of [backedUp, restored])
    expect(result).toMatchObject({ status: 'rejected', reason: { message: 'timeout expired' } });
});

/** A database without tables, as before the first start. */
async function empty(): Promise<TestDatabase> {
  const database = await createDatabaseOn(inject('testServer'));
  databases.push(database);
  return database;
}

async function rowsIn({ connection }: Pick<TestDatabase, 'connection'>): Promise<number> {
  return Object.values(await withClient(connection, databaseContents)).reduce(
    (sum, { count }) => sum + count,
    0,
  );
}

async function framesOf(name: string): Promise<Frame[]> {
  const source = Readable.from([gunzipSync(readFileSync(name))]);
  const frames: Frame[] = [];
  for await (const frame of decodeFrames(source, () => new Error('damaged'))) frames.push(frame);
  return frames;
}

/** A file of these frames with a valid checksum. */
function packed(frames: readonly Frame[]): Readable {
  const sum = createSum();
  const parts = frames.map((frame) => {
    sum.add(frame);
    const trailer = JSON.parse(frame.kind === 'end' ? frame.payload.toString() : '{}');
    return encodeFrame(frame.kind === 'end' ? jsonFrame('end', { ...trailer, sha256: sum.hex() }) : frame);
  });
  return Readable.from([gzipSync(Buffer.concat(parts))]);
}

import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSum, decodeFrames, encodeFrame, type Frame, jsonFrame } from '../../src/db/backup/frames.ts';
import { backup, backupToFile } from '../../src/db/backup.ts';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { UnusableDatabase } from '../../src/db/migrate.ts';
import { migrations } from '../../src/db/migrations.ts';
import { restore, UnusableBackup } from '../../src/db/restore.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

const schema = migrations().at(-1)?.version;
let directory = '';
let source: TestDatabase;
let file = '';
const databases: Pick<TestDatabase, 'drop'>[] = [];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'belfry-backup-'));
  source = await createTestDatabase();
  databases.push(source);
  await withClient(source.connection, fill);
  file = path.join(directory, 'all.belfry');
  await backupToFile(source, file);
});

afterAll(async () => {
  for (const database of databases) await database.drop();
  await rm(directory, { recursive: true, force: true });
});

describe('a backup', () => {
  it('has every row of every table with unchanged values after a restore', async () => {
    const target = await empty();
    const moved = await restore(target, createReadStream(file));
    const before = await withClient(source.connection, contents);
    const after = await withClient(target.connection, contents);
    expect(after).toEqual(before);
    const counts = Object.values(before).map(({ count }) => count);
    expect(counts.filter((count) => count === 0)).toEqual([]); // every table is tested
    expect(moved).toEqual({
      schema,
      tables: counts.length,
      rows: counts.reduce((sum, count) => sum + count),
    });
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
    await withClient(live.connection, fill);
    const before = await withClient(live.connection, contents);
    const slow = new PassThrough({ highWaterMark: 1 });
    const done = backup(live, slow);
    await once(slow, 'readable'); // the transaction has begun
    await withClient(live.connection, async (client) => {
      await client.query('delete from jobs');
      await client.query("update users set first_name = 'changed'");
    });
    const target = await empty();
    await Promise.all([done, restore(target, slow)]);
    expect(await withClient(target.connection, contents)).toEqual(before);
  });

  it('is readable only by its owner, and appears only when it is complete', async () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const nothing = await empty();
    const other = path.join(directory, 'never.belfry');
    await expect(backupToFile(nothing, other)).rejects.toThrow(UnusableDatabase);
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
    const before = await withClient(target.connection, contents);
    await expect(restore(target, createReadStream(file))).rejects.toThrow(
      /is not empty \(there are \w+ in it\)/,
    );
    expect(await withClient(target.connection, contents)).toEqual(before);
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

describe('large', () => {
  it('databases are copied in constant memory', async () => {
    const large = await createTestDatabase();
    databases.push(large);
    // 80 MB of text, half of it one value that is larger than any buffer
    await withClient(large.connection, async (client) => {
      const row = 'insert into broadcasts (id, project_id, message) values ($1, $1, $2)';
      for (let index = 0; index < 6; index += 1)
        await client.query(row, [randomUUID(), randomBytes(8_000_000)]);
      await client.query(row, [randomUUID(), randomBytes(20_000_000)]);
    });
    const target = await empty();
    const through = new PassThrough();
    let peak = 0;
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss);
    }, 5);
    const before = process.memoryUsage().rss;
    await Promise.all([backup(large, through), restore(target, through)]);
    clearInterval(watch);
    expect(peak - before).toBeLessThan(50_000_000);
    expect(await withClient(target.connection, contents)).toEqual(
      await withClient(large.connection, contents),
    );
  }, 60_000);
});

/** A database without tables, as before the first start. */
async function empty(): Promise<Pick<TestDatabase, 'connection' | 'drop'>> {
  const name = `empty_${randomUUID().replaceAll('-', '')}`;
  const run = (text: string) => withClient(source.connection, (client) => client.query(text));
  await run(`create database ${name}`);
  const made = {
    connection: { ...source.connection, database: name },
    drop: async () => void (await run(`drop database ${name} with (force)`)),
  };
  databases.unshift(made); // dropped before the source, whose connection drops it
  return made;
}

async function withClient<Result>(
  connection: ConnectionSettings,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Writes rows to every table, with values that text formats often break. */
async function fill(client: pg.Client): Promise<void> {
  const nasty = [
    'plain',
    '',
    '\\N',
    '\\.',
    'a\tb\nc\r\\d',
    '"quoted" \'too\'',
    'مرحبا 👋🏽 \u{10ffff}',
    ' ',
    '{a,b}',
  ];
  const id = '01990000-0000-7000-8000-000000000001';
  const at = '2026-02-03T04:05:06.789012Z';
  await client.query('begin');
  await client.query(
    `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key, rate_limits)
    values ($1, 'default', 'key', $2, '', '{"reads":  1}')`,
    [id, randomBytes(64)],
  );
  await client.query(`insert into project_tokens values ($1, $1, 'token', $2, 'infinity', null)`, [id, at]);
  await client.query(`insert into former_project_keys values ($1, 'f00', 'api_secret', $2, $3, 'infinity')`, [
    id,
    randomBytes(64),
    at,
  ]);
  await client.query(`insert into cells values ('eu', 'belfry_eu', '\\x01', null, $1)`, [at]);
  await client.query(`insert into cell_projects values ($1, 'pk_of_eu', 'eu')`, [id]);
  await client.query(`insert into project_key_uses values ($1, 'f00', $2)`, [id, at]);
  await client.query(
    `insert into users
      (id, project_id, external_id, first_name, locale, custom_attributes, phone_numbers, created_at,
        updated_at)
    select gen_random_uuid(), $1, t, t, t, to_json(t), array[t, 'x,y', null], $3, '-infinity'
    from unnest($2::text[]) t`,
    [id, nasty, at],
  );
  await client.query(`insert into user_keys select $1, 'external_id', t, $1 from unnest($2::text[]) t`, [
    id,
    nasty,
  ]);
  await client.query(
    `insert into former_user_keys select gen_random_uuid(), 'external_id', t from unnest($1::text[]) t`,
    [nasty],
  );
  await client.query(`insert into refused_recipients values ($1, $1)`, [id]);
  await client.query(`insert into project_delivery_windows values ($1, '{"channels":[]}', true)`, [id]);
  await client.query('insert into tracking values ($1, true, false)', [id]);
  await client.query(`insert into rate_windows values ('window', 1770091446, '{1,2}', '{"node": [5, 1]}')`);
  await client.query(`insert into rate_schedules values ('limit', 1, '\\x00', $1)`, [at]);
  await client.query(`insert into user_delivery_windows values ($1, '{"channels":[]}', '{}')`, [id]);
  await client.query(`insert into subscriptions values ($1, $2, $1, $1, '{"*": {"status": "subscribed"}}')`, [
    id,
    nasty[0],
  ]);
  await client.query(`insert into preferences values ($1, 'c', 'email', false, $2)`, [id, at]);
  await client.query(`insert into tokens values ($1, $1, $1, 'inbox', 'a-b', $2, $3, $4)`, [
    id,
    randomBytes(32),
    randomBytes(300),
    at,
  ]);
  await client.query(`insert into token_owners values ($1, 'inbox', $2, $1, $1)`, [id, randomBytes(32)]);
  await client.query(`insert into integrations values ($1, $1, 'smtp', $2, $3, $3)`, [
    id,
    randomBytes(300),
    at,
  ]);
  await client.query(`insert into integration_pauses values ($1, $1, '', $2, $2, $2, '535', $3)`, [
    id,
    at,
    nasty.join(' '),
  ]);
  await client.query(
    `insert into installations
    select $1, 'slack', t, gen_random_uuid(), $1, $3, $3, $4, null, 'infinity', t, $4, $4
    from unnest($2::text[]) t`,
    [id, nasty, randomBytes(300), at],
  );
  await client.query(`insert into broadcasts (id, project_id, message) values ($1, $1, $2)`, [
    id,
    randomBytes(3_000_000),
  ]);
  await client.query(`insert into broadcast_users values ($1, 0, array[$1, $1]::uuid[])`, [id]);
  await client.query(
    `insert into notifications (user_id, id, broadcast_id, sent_at, topic)
    select $1, gen_random_uuid(), $1, $2, n::text from generate_series(1, 5000) n`,
    [id, at],
  );
  await client.query(
    `insert into deliveries values ($1, $1, 'email', $1, 'sent', 1, null, null, null, null, null, $2, $2)`,
    [id, at],
  );
  await client.query(`insert into events values ($1, $1, 'broadcast.created', null, '{}', 'null')`, [id]);
  await client.query(`insert into idempotency_keys values ($1, 's', 'k', '', 201, $2, $3)`, [
    id,
    nasty.join('|'),
    at,
  ]);
  await client.query(
    `insert into jobs (kind, project_id, payload) select 'k', $1, '{}' from generate_series(1, 50)`,
    [id],
  );
  await client.query('delete from jobs where id > 40'); // their numbers remain used
  await client.query(`insert into leases values ($1, 'node', $2)`, [id, at]);
  await client.query(`insert into categories values ($1, 'c', $1, '{"key":  "c"}', $2)`, [id, at]);
  await client.query(`insert into preference_categories values ($1, 'c', 'email')`, [id]);
  await client.query(
    `insert into webhooks (id, project_id, url, sealed_secret, feed_id, created_at, updated_at)
    values ($1, $1, '', '', $1, $2, $2)`,
    [id, at],
  );
  await client.query(`insert into webhook_messages values ($1, $1, 'user.created', 'sent', 1)`, [id]);
  await client.query('insert into webhook_replays values ($1, $1, true, $1, $1)', [id]);
  await client.query(
    `insert into suppressions
    select $1, gen_random_uuid(), 'email', sha256(t::bytea), t, 'bounced', 'smtp', t, t,
      array[$1, $1]::uuid[], $3, $3
    from unnest($2::text[]) t`,
    [id, nasty.filter((text) => !text.includes('\\')), at],
  );
  await client.query('insert into suppression_keys values ($1, $2, $3)', [id, randomBytes(90), at]);
  await client.query(`insert into user_imports values ($1, $1, 'processing', 2, 1, 1, 0, 0, $2, null)`, [
    id,
    at,
  ]);
  await client.query('insert into user_import_pages values ($1, 0, $2, null, 1)', [id, randomBytes(90)]);
  await client.query("insert into workflows values ($1, 'flow', 1, false, 9, $2, $2)", [id, at]);
  await client.query("insert into workflow_versions values ($1, 'flow', 1, $2, $3)", [
    id,
    randomBytes(90),
    at,
  ]);
  await client.query(
    `insert into workflow_runs (
      id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
      data, created_at, waits_for, depth
    )
    values ($1, $1, 'flow', 1, $1, 2, '0', 2, 3, $2, 9, $3, '{"a": 1}', $2, 'paid', 1)`,
    [id, at, randomBytes(90)],
  );
  await client.query(
    `insert into workflow_run_steps (run_id, place, command, state, started_at, output)
    values ($1, '0', 'wait', 'waiting', $2, '{}')`,
    [id, at],
  );
  await client.query(
    "insert into workflow_schedules values ($1, 'flow', 0, '@daily', 'UTC', false, $2, $3)",
    [id, randomBytes(90), at],
  );
  await client.query('insert into workflow_digests values ($1, $2, true, $3, $3, 1, 9)', [
    id,
    randomBytes(32),
    at,
  ]);
  await client.query('insert into workflow_digest_items values ($1, $1, $2)', [id, randomBytes(90)]);
  await client.query("insert into workflow_throttles values ($1, '[1, 2]', $2)", [randomBytes(32), at]);
  await client.query(
    "insert into templates values ($1, 'welcome', $1, 'message', 1, '{footer,main}', 9, $2, $2)",
    [id, at],
  );
  await client.query("insert into template_versions values ($1, 'welcome', 1, $2, $3)", [
    id,
    randomBytes(90),
    at,
  ]);
  await client.query("insert into broadcast_texts values ($1, 'en', $2)", [id, randomBytes(90)]);
  await client.query("insert into workflow_triggers values ($1, 'flow', 1, 'paid', 'event.data.a', $1)", [
    id,
  ]);
  await client.query('insert into workflow_feeds (project_id, feed_id) values ($1, $1)', [id]);
  await client.query('insert into workflow_broadcasts values ($1, 1)', [id]);
  await client.query('commit');
}

/** The number of rows of each table, and a checksum of their text. */
async function contents(client: pg.Client): Promise<Record<string, { count: number; sum: string }>> {
  // The transaction ids of rows differ between servers, and webhooks restart at a slightly older event.
  const tables = await client.query<{ name: string; columns: string }>(
    `select table_name as name,
      string_agg(quote_ident(column_name), ', ' order by ordinal_position) as columns
    from information_schema.columns
    where table_schema = 'public' and table_name not in ('migrations', 'sealing_key')
      and column_default is distinct from 'pg_current_xact_id()' and column_name <> 'feed_id'
      -- unlogged tables are not in a backup, and partitions are read with their table
      and (select relpersistence = 'p' and not relispartition from pg_class where oid = table_name::regclass)
    group by table_name
    order by table_name`,
  );
  const found: Record<string, { count: number; sum: string }> = {};
  for (const { name, columns } of tables.rows) {
    const { rows } = await client.query<{ count: number; sum: string }>(
      `select count(*)::int as count,
        md5(coalesce(string_agg(md5(t::text), '' order by md5(t::text)), '')) as sum
      from (select ${columns} from ${name}) t`,
    );
    found[name] = rows[0] ?? { count: -1, sum: '' };
  }
  return found;
}

async function rowsIn({ connection }: Pick<TestDatabase, 'connection'>): Promise<number> {
  return Object.values(await withClient(connection, contents)).reduce((sum, { count }) => sum + count, 0);
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

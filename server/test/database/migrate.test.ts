import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { type MigrateOptions, MigrationFailed, migrate, UnusableDatabase } from '../../src/db/migrate.ts';
import { type Migration, migrations, parseMigration } from '../../src/db/migrations.ts';
import { newestSchema, schemaObstacle } from '../../src/db/schema.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rowsOf } from '../support/rows.ts';
import { until } from '../support/service.ts';

// Migrations of a later release, made up for these tests, while others use the database.

const newest = newestSchema();
const next = (number: number, ...lines: string[]): Migration =>
  parseMigration(`${String(newest + number).padStart(4, '0')}_next.sql`, `${lines.join('\n')}\n`);

const EXPAND = next(1, `-- oldest program: ${newest}`, 'alter table users add column nickname text;');
const BUILD = next(
  2,
  `-- oldest program: ${newest}`,
  '-- no transaction',
  '-- A comment; with a semicolon.',
  'create index concurrently if not exists users_by_nickname on users (nickname);',
  "alter table users alter nickname set default '';",
  'drop index concurrently if exists users_by_name;',
);
const CONTRACT = next(3, `-- oldest program: ${newest + 1}`, 'alter table users drop column locale;');

let database: TestDatabase;
let db: Database;
let clients: pg.Client[];
beforeEach(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'observer' });
  clients = [];
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  await db.close();
  await database.drop();
});

async function connect(name = 'test'): Promise<pg.Client> {
  const client = new pg.Client({ ...database.connection, application_name: name });
  client.on('error', () => undefined); // some tests end connections
  await client.connect();
  clients.push(client);
  return client;
}

/** Applies these migrations after those of this release, and keeps the lines about waits. */
function apply(client: pg.Client, added: readonly Migration[], options: MigrateOptions = {}) {
  const lines: string[] = [];
  const applied = migrate(client, {
    known: [...migrations(), ...added],
    observer: db,
    onWait: (line) => lines.push(line),
    ...options,
  });
  applied.catch(() => undefined); // awaited later
  return { applied, lines };
}

const isValid = async (index: string) =>
  (
    await rowsOf<{ valid: boolean }>(
      db,
      'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
      [index],
    )
  )[0]?.valid;

/** Waits until a statement that matches the pattern waits for another connection. */
const blocked = (pattern: string) =>
  until(
    () =>
      rowsOf<{ pid: number }>(
        db,
        `select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like $1`,
        [pattern],
      ),
    (found) => found.length > 0,
  );

test('an older release uses a newer schema that allows it, and no other', async () => {
  const client = await connect();
  expect(await apply(client, [EXPAND, BUILD]).applied).toEqual([newest + 1, newest + 2]);
  expect(await apply(client, []).applied).toEqual([]);
  expect(await apply(client, [EXPAND]).applied).toEqual([]);
  expect(await apply(client, [EXPAND, BUILD, CONTRACT]).applied).toEqual([newest + 3]);
  await expect(apply(client, []).applied).rejects.toThrow(
    new UnusableDatabase(
      `the database has schema ${newest + 3}, made by a newer Belfry: it needs a release that knows schema ` +
        `${newest + 1}, and this one knows ${newest}; start the newer release, or restore a backup`,
    ),
  );
  expect(await apply(client, [EXPAND]).applied).toEqual([]);
});

test('a migration that declares nothing allows no older release', () => {
  const { version, oldestProgram } = next(1, 'select 1;');
  expect(schemaObstacle({ version, oldestProgram }, newest)).toContain(`knows schema ${newest + 1}`);
  expect(schemaObstacle({ version, oldestProgram }, newest + 1)).toBeUndefined();
});

test('a migration lets requests pass while a long transaction holds its lock', async () => {
  const [holder, client, request] = [await connect('report'), await connect(), await connect()];
  await holder.query('begin; select from users limit 1');
  const { applied, lines } = apply(client, [EXPAND]);
  await blocked('%add column nickname%');
  // The request waits behind the migration, and passes when that stops waiting.
  await request.query('select from users limit 1');
  await until(
    () => lines,
    (found) => found.length > 0,
  );
  expect(lines).toEqual([
    expect.stringMatching(
      new RegExp(
        `^Migration ${newest + 1} \\(next\\) waits for a lock on users ` +
          'that process \\d+ \\(report, in a transaction for \\d+ s\\) holds$',
      ),
    ),
  ]);
  await holder.query('commit');
  expect(await applied).toEqual([newest + 1]);
});

test('the list of migrations can be read while a migration waits to change it', async () => {
  const [holder, client] = [await connect('report'), await connect()];
  await rowsOf(db, 'alter table migrations drop column oldest_program');
  await holder.query('begin; select from migrations limit 1');
  const { applied, lines } = apply(client, [EXPAND]);
  await until(
    () => lines,
    (found) => found.length > 0,
  );
  expect(lines[0]).toContain('waits for a lock on migrations that process ');
  await rowsOf(db, 'select from migrations limit 1');
  await holder.query('rollback');
  expect(await applied).toEqual([newest + 1]);
  // The next one does not change it.
  await holder.query('begin; select from migrations limit 1');
  expect(await apply(client, [EXPAND, CONTRACT], { patienceMs: 0 }).applied).toEqual([newest + 3]);
});

test('a migration that gets no lock fails with what holds it, and leaves nothing', async () => {
  const [holder, client] = [await connect('report'), await connect()];
  await holder.query('begin; select from users limit 1');
  const { applied } = apply(client, [EXPAND], { patienceMs: 0 });
  await expect(applied).rejects.toThrow(MigrationFailed);
  await expect(applied).rejects.toThrow(
    /^migration \d+ \(next\) failed because it waited for a lock on users that process \d+ \(report/,
  );
  await holder.query('commit');
  expect(await apply(client, [EXPAND]).applied).toEqual([newest + 1]);
});

/** Opens a transaction whose snapshot `create index concurrently` waits for, and that locks nothing. */
async function holdSnapshot(): Promise<pg.Client> {
  const holder = await connect('report');
  await holder.query('begin isolation level repeatable read');
  await holder.query('select 1');
  return holder;
}

test('one of two nodes builds an index concurrently while the other waits for it', async () => {
  const [first, second, holder] = [await connect(), await connect(), await holdSnapshot()];
  const building = apply(first, [EXPAND, BUILD]);
  await blocked('%create index concurrently%');
  const waiting = apply(second, [EXPAND, BUILD]);
  await until(
    () => waiting.lines,
    (lines) => lines.length > 0,
  );
  expect(waiting.lines).toEqual(['Another server migrates the database: waiting for it to finish']);
  // An index also waits for the statements of the test's own connections; they end by themselves.
  const report = /^Migration \d+ \(next\) waits for process \d+ \(report, in a .* s\) to end it$/;
  await until(
    () => building.lines,
    (lines) => lines.some((line) => report.test(line)),
  );
  await holder.query('rollback');
  expect(await building.applied).toEqual([newest + 1, newest + 2]);
  expect(await waiting.applied).toEqual([]);
  expect(await isValid('users_by_nickname')).toBe(true);
});

test('an index whose build was interrupted is built again', async () => {
  const [client, holder] = [await connect(), await holdSnapshot()];
  const { applied } = apply(client, [EXPAND, BUILD]);
  const [builder] = await blocked('%create index concurrently%');
  await rowsOf(db, 'select pg_terminate_backend($1)', [builder?.pid]);
  await expect(applied).rejects.toThrow(MigrationFailed);
  expect(await isValid('users_by_nickname')).toBe(false);
  await holder.query('rollback');
  expect(await apply(await connect(), [EXPAND, BUILD]).applied).toEqual([newest + 2]);
  expect(await isValid('users_by_nickname')).toBe(true);
});

const MIGRATE = fileURLToPath(new URL('../support/migrate-process.ts', import.meta.url));
const KILLS = 5;
const KILLED_WITHIN_MS = 80;
const seed = newSeed();

test(`a migration that is killed at any point is completed by the next (FAULT_SEED=${seed})`, async () => {
  const random = randomFrom(seed);
  const added = [EXPAND, BUILD].map(({ version, name, text }) => ({
    file: `${String(version).padStart(4, '0')}_${name}.sql`,
    text,
  }));
  await rowsOf(
    db,
    `insert into users (id, project_id, external_id, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), n::text, now(), now() from generate_series(1, 20000) n`,
  );
  for (let round = 0; round < KILLS; round += 1) {
    const child = spawn(process.execPath, [MIGRATE, database.url, JSON.stringify(added)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'close');
    await once(child.stdout, 'data');
    await delay(random() * KILLED_WITHIN_MS);
    child.kill('SIGKILL');
    await ended;
    // The next one waits until the server has noticed the end of the connection.
    await apply(await connect(), [EXPAND, BUILD]).applied;
    expect(await isValid('users_by_nickname')).toBe(true);
    expect(await isValid('users_by_name')).toBeUndefined();
    expect(
      await rowsOf(db, 'select version, oldest_program from migrations where version > $1 order by 1', [
        newest,
      ]),
    ).toEqual([
      { version: newest + 1, oldest_program: newest },
      { version: newest + 2, oldest_program: newest },
    ]);
    await rowsOf(db, 'alter table users drop column nickname');
    await rowsOf(db, 'create index users_by_name on users (first_name)');
    await rowsOf(db, 'delete from migrations where version > $1', [newest]);
  }
});

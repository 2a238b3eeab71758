import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { belfry, ended, runCommand } from '../support/cli.ts';
import { createDatabaseOn, onServer, type TestDatabase } from '../support/database.ts';
import { createInstallation, type Installation } from '../support/installation.ts';
import { until } from '../support/service.ts';
import { withClient } from '../support/with-client.ts';

/** For tests that change none of its cells: `near` is in a schema beside the default cell. */
let installation: Installation<'far'>;
let inNear: string;

beforeAll(async () => {
  installation = await createInstallation('far');
  await installation.command('cell', 'add', 'near');
  inNear = (await installation.create('of near', 'near')).project_id;
});
afterAll(() => installation?.delete());

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'belfry-cells-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** An empty database, to restore into. */
async function newTarget(): Promise<TestDatabase> {
  const target = await createDatabaseOn(inject('testServer'));
  onTestFinished(() => target.drop());
  return target;
}

/** An installation that a test may change. */
async function installed<Cell extends string>(...cells: readonly Cell[]) {
  const made = await createInstallation(...cells);
  onTestFinished(() => made.delete());
  return made;
}

async function recreate({ connection: { database } }: TestDatabase): Promise<void> {
  await onServer(`drop database ${database} with (force)`);
  await onServer(`create database ${database}`);
}

test('a backup has a file for each cell, and restores all of them', async () => {
  const { command, settings } = installation;
  const file = join(await newFolder(), 'all.backup');
  await command('cell', 'add', 'broken');
  const written = await command('backup', file);
  expect(written.cells.map(({ cell }: { cell: string }) => cell)).toEqual(
    expect.arrayContaining(['near', 'far']),
  );
  expect(existsSync(`${file}.near`)).toBe(true);
  // Without the cells in other databases, which still have their rows.
  const own = { ...settings, DATABASE_URL: (await newTarget()).url };
  for (const { cell, file: ofCell } of written.cells) if (cell !== 'near') await rm(ofCell);
  const broken = `${file}.broken`;
  await writeFile(broken, 'no backup');
  const { code, out, err } = await runCommand(['restore', file, '--json'], own);
  expect(code).toBe(1);
  expect(err).toContain(`${file}.far is missing, so its cell was not restored`);
  expect(err).toContain(`cell broken, from ${broken}: `);
  expect(JSON.parse(out).cells).toMatchObject([{ cell: 'near' }]);
  const restored = await runCommand(['project', 'list', '--json'], own);
  expect(JSON.parse(restored.out)).toContainEqual(
    expect.objectContaining({ project_id: inNear, cell: 'near' }),
  );
});

test('a backup names the cell whose database cannot be reached, and has the others', async () => {
  const { folder, run, settings, lose } = await installed('away', 'there');
  await lose('away');
  const file = join(folder, 'all.backup');
  const { code, out, err } = await run('backup', file);
  expect(code).toBe(1);
  expect(err).toMatch(
    /^belfry: cell away: the database cannot be reached \(.* does not exist\).* It was not backed up/,
  );
  expect(out).toContain(`${file} contains the first cell and the directory`);
  expect((await readdir(folder)).sort()).toEqual(['all.backup', 'all.backup.there']);

  await writeFile(`${file}.away`, 'the last one of this cell');
  const forced = await run('backup', file, '--force', '--json');
  expect(forced.code).toBe(1);
  expect(forced.err).toContain(`${file}.away is from an earlier backup`);
  expect(JSON.parse(forced.out).cells).toMatchObject([{ cell: 'there' }]);
  expect(await readFile(`${file}.away`, 'utf8')).toBe('the last one of this cell');

  const target = await newTarget();
  await run('cell', 'remove', 'there');
  await rm(`${file}.away`);
  const restored = await runCommand(['restore', file], { ...settings, DATABASE_URL: target.url });
  expect(restored.code).toBe(1);
  expect(restored.err).toContain(`${file}.away is missing, so its cell was not restored`);
  expect(restored.out).toContain('Restored');
});

test('projects that have moved out of a cell are not restored there from its older backup', async () => {
  const { folder, run, settings, create, databases } = await installed('lost', 'there');
  const file = join(folder, 'all.backup');
  const [stays, toLost, toFirst] = [
    await create('stays', 'there'),
    await create('to another', 'there'),
    await create('to the first', 'there'),
  ];
  expect(await run('backup', file)).toMatchObject({ code: 0 });
  for (const [project, cell] of [
    [toLost, 'lost'],
    [toFirst, 'public'],
  ] as const)
    expect(await run('project', 'move', project.project_id, '--to', cell)).toMatchObject({ code: 0 });
  const { database } = databases.there.connection;
  await onServer(`alter database ${database} allow_connections false`);
  const forced = await run('backup', file, '--force');
  expect([forced.code, forced.err]).toEqual([1, expect.stringContaining('.there is from an earlier backup')]);
  for (const cell of ['there', 'lost'] as const) await recreate(databases[cell]);
  // Where the file of its home is missing, it is not clear whether a project lives in the older file.
  const partial = await newTarget();
  await rename(`${file}.lost`, `${file}.away`);
  const uncertain = await runCommand(['restore', file], { ...settings, DATABASE_URL: partial.url });
  expect(uncertain.err).toContain(
    `the project ${toLost.project_id} is in the cell there, but the directory has it in the cell lost, which`,
  );
  await rename(`${file}.away`, `${file}.lost`);
  for (const cell of ['there', 'lost'] as const) await recreate(databases[cell]);

  const own = { ...settings, DATABASE_URL: (await newTarget()).url };
  const restored = await runCommand(['restore', file, '--json'], own);
  expect(restored).toMatchObject({ code: 0, err: '' });
  const left = [toLost.project_id, toFirst.project_id].sort();
  expect(JSON.parse(restored.out).cells).toContainEqual(
    expect.objectContaining({ cell: 'there', moved_projects: left }),
  );
  const homes = async () => {
    const { out } = await runCommand(['project', 'list', '--json'], own);
    const list = JSON.parse(out) as { project_id: string; cell: string }[];
    return list.map(({ project_id, cell }) => `${project_id} ${cell}`).sort();
  };
  const wanted = [`${stays.project_id} there`, `${toLost.project_id} lost`, `${toFirst.project_id} public`];
  expect(await homes()).toEqual(wanted.sort());
  const there = new pg.Client(databases.there.connection);
  await there.connect();
  onTestFinished(() => there.end());
  expect((await there.query('select id from projects')).rows).toEqual([{ id: stays.project_id }]);

  // An older copy that came there by another way does not change the directory either.
  await there.query(
    `insert into projects (id, name, api_key, sealed_api_secret, sealed_signing_key)
    values ($1, 'copy', 'pk_12345678', '', '')`,
    [toLost.project_id],
  );
  const index = await runCommand(['cell', 'index'], own);
  expect([index.code, index.err]).toEqual([
    1,
    expect.stringContaining(
      `the project ${toLost.project_id} is in the cell lost and in the cell there, too`,
    ),
  ]);
  await there.query("delete from projects where name = 'copy'");
  expect(await runCommand(['cell', 'index'], own)).toMatchObject({ code: 0, err: '' });
  expect(await homes()).toEqual(wanted.sort());
});

test('a restore reports what it restored although the directory cannot be completed', async () => {
  const { folder, run, settings, create, databases } = await installed('lost', 'there');
  const file = join(folder, 'all.backup');
  await create('shop', 'there');
  expect(await run('backup', file)).toMatchObject({ code: 0 });
  for (const cell of ['there', 'lost'] as const) await recreate(databases[cell]);
  const target = await newTarget();
  // The backup is copied into the directory, and nothing else can be written there.
  const rejectAllButCopies = `
    create schema faults;
    create function faults.reject() returns trigger language plpgsql as $$
    begin
      if current_query() !~* '^copy' then raise exception 'nothing else is entered'; end if;
      return null;
    end $$;
    create function faults.watch() returns event_trigger language plpgsql as $$
    begin
      if exists (select from pg_event_trigger_ddl_commands() where object_identity ~ '\\.cell_projects$') then
        create trigger reject before insert on cell_projects execute function faults.reject();
      end if;
    end $$;
    create event trigger watch on ddl_command_end when tag in ('CREATE TABLE')
      execute function faults.watch()`;
  await withClient(target.connection, (client) => client.query(rejectAllButCopies));
  const restored = await runCommand(['restore', file], { ...settings, DATABASE_URL: target.url });
  expect(restored.out).toContain('rows of the cell there');
  const progress = /^\w+ \(table \d+ of \d+\), [\d.]+ MB\n/gm; // of a slow restore
  expect([restored.code, restored.err.replace(progress, '')]).toEqual([
    1,
    expect.stringMatching(/^belfry: the directory lacks .*: nothing else is entered\. Run belfry cell index/),
  ]);
});

test('a restore without the key of a cell says that this cell is missing', async () => {
  const { command, settings } = installation;
  const file = join(await newFolder(), 'all.backup');
  await command('backup', file);
  const { code, out, err } = await runCommand(['restore', file, '--json'], {
    ...settings,
    DATABASE_URL: (await newTarget()).url,
    SECRET_KEY: 'ab'.repeat(32),
  });
  expect(code).toBe(1);
  expect(JSON.parse(out).rows).toBeGreaterThan(0);
  expect(err).toMatch(/belfry: only the first cell is restored\. cell \w+: .*encrypted with the key/);
  expect(err).toMatch(/everything into an empty database/);
});

const waiting = `
  select
  from pg_locks l
  join pg_database d on d.oid = l.database
  where d.datname = current_database() and l.relation = 'belfry_near.users'::regclass and not l.granted`;

/** Starts a backup, and sends it a signal when it waits for `near`: it has copied `far`, but not `public`. */
async function signalDuringBackup(args: readonly string[], signal: NodeJS.Signals) {
  return withClient(installation.databases.main.connection, async (client) => {
    await client.query('begin; lock table belfry_near.users in access exclusive mode');
    const child = belfry(['backup', ...args], installation.settings);
    onTestFinished(() => void child.kill('SIGKILL'));
    const backup = ended(child);
    await until(
      () => client.query(waiting),
      ({ rowCount }) => rowCount === 1,
    );
    child.kill(signal);
    return { child, backup };
  });
}

test('no project moves during a backup, whose files would lack it', async () => {
  const { create, run, settings, databases } = installation;
  const folder = await newFolder();
  const file = join(folder, 'all.backup');
  const { project_id: id } = await create(`backed up ${randomUUID()}`, 'public');
  const { child, backup } = await signalDuringBackup([file], 'SIGSTOP');
  expect((await readdir(folder)).some((name) => name.includes('.far'))).toBe(true);
  expect(await run('project', 'move', id, '--to', 'near')).toEqual({
    code: 1,
    out: '',
    err: 'belfry: another move or a backup is running: wait until it has ended\n',
  });
  child.kill('SIGCONT');
  expect(await backup).toMatchObject({ code: 0, err: '' });
  const move = belfry(['project', 'move', id, '--to', 'near'], settings);
  onTestFinished(() => void move.kill('SIGKILL'));
  const moving = ended(move);
  await withClient(databases.main.connection, (client) =>
    until(
      () => client.query('select from project_moves'),
      ({ rowCount }) => rowCount === 1,
    ),
  );
  move.kill('SIGSTOP');
  expect(await run('backup', `${file}.2`)).toEqual({
    code: 1,
    out: '',
    err: 'belfry: a project is moving to another cell: wait until the move has ended\n',
  });
  move.kill('SIGCONT');
  expect((await moving).code).toBe(0);
});

test('a stopped backup keeps the files that it would have replaced', async () => {
  const folder = await newFolder();
  const file = join(folder, 'all.backup');
  await writeFile(`${file}.far`, 'precious');
  const { backup } = await signalDuringBackup([file, '--force'], 'SIGINT');
  expect(await backup).toEqual({
    code: 1,
    out: '',
    err: 'belfry: the backup was stopped: no file was written\n',
  });
  expect(await readdir(folder)).toEqual(['all.backup.far']);
  expect(await readFile(`${file}.far`, 'utf8')).toBe('precious');
});

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { newestSchema } from '../../src/db/schema.ts';
import { belfry, ended, runCommand } from '../support/cli.ts';
import { createDatabaseOn, createTestDatabase, onServer } from '../support/database.ts';
import { createInstallation } from '../support/installation.ts';
import { until } from '../support/service.ts';
import { withClient } from '../support/with-client.ts';

/** `lost` is a cell in a database of its own, and `there` another. */
async function installation() {
  const made = await createInstallation('lost', 'there');
  onTestFinished(() => made.delete());
  return made;
}

test('a lost cell is removed with its projects, and everything else works again', async () => {
  const { folder, run, create, lose } = await installation();
  const shop = await create('shop', 'lost');
  await create('kept', 'there');
  const refused = await run('cell', 'remove', 'lost', '--lost', '--yes');
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('the cell lost is not lost')]);
  await lose('lost');

  const plain = await run('cell', 'remove', 'lost');
  expect(plain.err).toMatch(
    /^belfry: cell lost: .* If its data is lost for ever: belfry cell remove lost --lost/,
  );
  const unasked = await run('cell', 'remove', 'lost', '--lost');
  expect([unasked.code, unasked.err]).toEqual([2, expect.stringContaining('use --yes')]);
  expect(unasked.out).toContain(`${shop.project_id}  ${shop.api_key}`);
  expect((await run('cell', 'remove', 'lost', '--lost', '--json')).code).toBe(2);
  expect((await run('cell', 'remove', 'there', '--lost', '--yes')).err).toContain('is not lost');
  expect((await run('cell', 'remove', 'there', '--yes')).code).toBe(2);
  expect((await run('cell', 'remove', 'none', '--lost', '--yes')).err).toContain('there is no cell none');

  const removed = await run('cell', 'remove', 'lost', '--lost', '--yes', '--json');
  expect(removed).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(removed.out)).toEqual({
    name: 'lost',
    removed: true,
    lost_projects: [{ project_id: shop.project_id, api_key: shop.api_key }],
  });
  expect((await run('cell', 'list')).out).not.toContain('lost');
  expect((await run('doctor', '--json')).out).not.toContain('cell lost');
  expect(await run('project', 'list')).toMatchObject({ code: 0, err: '' });
  expect(await run('backup', join(folder, 'all.backup'))).toMatchObject({ code: 0, err: '' });
  await create('shop', 'there');
});

test('a cell that cannot be reached does not keep the others from being migrated', async () => {
  const { run, lose, databases } = await installation();
  // The next one has an older schema, as after an update of the program: none.
  await withClient(databases.there.connection, (client) =>
    client.query('drop schema public cascade; create schema public'),
  );
  await lose('lost');
  const plan = await run('migrate', '--dry-run', '--json');
  expect([plan.code, plan.err]).toEqual([
    1,
    expect.stringMatching(/^belfry: the cell lost cannot be reached/),
  ]);
  expect(JSON.parse(plan.out).cells).toMatchObject({ there: { schema: 0 } });
  const { code, out, err } = await run('migrate', '--json');
  expect([code, err]).toEqual([1, expect.stringMatching(/^belfry: cell lost: .* cannot be reached/)]);
  const migrated = JSON.parse(out);
  expect(migrated).toMatchObject({ schema: newestSchema(), applied: [] });
  expect(migrated.cells).toEqual({ there: expect.arrayContaining([newestSchema()]) });
});

test('a lost cell comes back from a backup that lacks its newest project', async () => {
  const { folder, run, settings, create, lose } = await installation();
  const file = join(folder, 'all.backup');
  const shop = await create('shop', 'lost');
  expect(await run('backup', file)).toMatchObject({ code: 0 });
  const newer = await create('newer', 'lost');
  await lose('lost');
  const [restored, empty] = [await createDatabaseOn(inject('testServer')), await createTestDatabase()];
  onTestFinished(() => Promise.all([restored.drop(), empty.drop()]).then(() => {}));
  const target = { ...settings, DATABASE_URL: restored.url };
  expect(await runCommand(['restore', `${file}.lost`], target)).toMatchObject({ code: 0, err: '' });
  const set = () => run('cell', 'set', 'lost', '--database-url', restored.url);
  expect((await set()).err).toContain(`does not have the project ${newer.project_id} of lost`);
  expect(await run('cell', 'remove', 'lost', '--lost', '--yes')).toMatchObject({ code: 0 });
  expect(await run('cell', 'add', 'lost', '--database-url', empty.url)).toMatchObject({ code: 0 });
  expect(await set()).toMatchObject({ code: 0 });
  expect(await run('cell', 'index')).toMatchObject({ code: 0 });
  expect(JSON.parse((await run('project', 'list', '--json')).out)).toContainEqual(
    expect.objectContaining({ project_id: shop.project_id, cell: 'lost' }),
  );
  expect((await run('doctor')).out).toContain('its database can be used, with 1 project');
});

test('a server that responds for a cell keeps it from being removed as lost', async () => {
  const { run, databases } = await installation();
  const { database } = databases.lost.connection;
  await onServer(`alter database ${database} allow_connections false`);
  const { code, err } = await run('cell', 'remove', 'lost', '--lost', '--yes');
  await onServer(`alter database ${database} allow_connections true`);
  expect([code, err]).toEqual([1, expect.stringContaining('the server of the cell lost responds')]);
});

test('a cell whose schema was dropped is reported by name, and can be removed', async () => {
  const { folder, run, databases } = await installation();
  expect(await run('cell', 'add', 'dropped')).toMatchObject({ code: 0 });
  expect((await run('cell', 'remove', 'dropped', '--lost', '--yes')).err).toContain('is not lost');
  await withClient(databases.main.connection, (client) => client.query('drop schema belfry_dropped cascade'));
  const { out } = await run('doctor');
  expect(out).toContain('its connections find no schema, and its tables are in belfry_dropped');
  const file = join(folder, 'all.backup');
  const backup = await run('backup', file);
  expect([backup.code, backup.err]).toEqual([
    1,
    expect.stringMatching(/^belfry: cell dropped: there is nothing/),
  ]);
  expect((await readdir(folder)).sort()).toEqual([
    'all.backup',
    'all.backup.lost',
    'all.backup.there',
    'data',
  ]);
  expect(await run('cell', 'remove', 'dropped', '--lost', '--yes')).toMatchObject({ code: 0, err: '' });
});

describe('a lost cell is removed in the middle of a move', () => {
  /** Moves a project of `from` to the other cell, and kills the command when it has come so far. */
  async function interrupted(from: 'lost' | 'there', step: 'held' | 'switched') {
    const made = await installation();
    const { run, settings, create, databases } = made;
    const project = await create('shop', from);
    const id = project.project_id;
    const connect = async (database: 'main' | 'lost' | 'there') => {
      const client = new pg.Client(databases[database].connection);
      client.on('error', () => {});
      await client.connect();
      onTestFinished(() => client.end());
      return client;
    };
    const [main, source, there] = [await connect('main'), await connect(from), await connect('there')];
    const child = belfry(['project', 'move', id, '--to', from === 'lost' ? 'there' : 'lost'], settings);
    const moving = ended(child);
    const [client, reached] =
      step === 'held'
        ? [source, 'select from leaving_projects where lease_id is not null']
        : [main, 'select from project_moves where switched_at is not null'];
    await until(
      () => client.query(reached),
      ({ rows }) => rows.length > 0,
    );
    child.kill('SIGKILL');
    await moving;
    const remove = async () => {
      await made.lose('lost');
      const { code, out, err } = await run('cell', 'remove', 'lost', '--lost', '--yes', '--json');
      expect(code, err).toBe(0);
      expect((await main.query('select from project_moves')).rows).toEqual([]);
      const left = await there.query(
        `select tgname from pg_trigger where tgname like 'moving_%'
        union all select project_id::text from leaving_projects
        union all select project_id::text from arriving_projects
        union all select project_id::text from arriving_rows`,
      );
      expect(left.rows).toEqual([]);
      const listed = await run('project', 'list', '--json');
      expect(listed).toMatchObject({ code: 0, err: '' });
      const lost = JSON.parse(out).lost_projects.map(({ project_id }: { project_id: string }) => project_id);
      const cell = JSON.parse(listed.out).find((one: { project_id: string }) => one.project_id === id)?.cell;
      return { cell, isLost: lost.includes(id) };
    };
    return { id, main, there, remove };
  }

  test('to it: the project stays in its cell', async () => {
    const { remove } = await interrupted('there', 'held');
    expect(await remove()).toEqual({ cell: 'there', isLost: false });
  });

  test('to it, which the project had not reached: it returns to its cell, and its jobs run', async () => {
    const { id, there, remove } = await interrupted('there', 'held');
    // As at the moment between the two commits in which a project leaves and arrives.
    await there.query('update leaving_projects set left_at = now()');
    const job = "insert into jobs (kind, project_id, attempt, payload) values ('fan_out', $1, 1, '{}')";
    await there.query(`select set_config('belfry.mover', 'on', false)`);
    await there.query(job, [id]);
    expect((await there.query("select from jobs where due_at = 'infinity'")).rows).toHaveLength(1);
    expect(await remove()).toEqual({ cell: 'there', isLost: false });
    expect((await there.query('select from jobs where due_at is null')).rows).toHaveLength(1);
  });

  test('to it, when the project lives there: it is lost, and its former rows are deleted', async () => {
    const { id, there, remove } = await interrupted('there', 'switched');
    expect(await remove()).toEqual({ cell: undefined, isLost: true });
    expect((await there.query('select from projects where id = $1', [id])).rows).toEqual([]);
  });

  test('from it: the project is lost, and what was copied is deleted', async () => {
    const { id, there, remove } = await interrupted('lost', 'held');
    expect(await remove()).toEqual({ cell: undefined, isLost: true });
    expect((await there.query('select from events where project_id = $1', [id])).rows).toEqual([]);
  });

  test('from it, when the project lives in the other cell: it stays there', async () => {
    const { remove } = await interrupted('lost', 'switched');
    expect(await remove()).toEqual({ cell: 'there', isLost: false });
  });

  test('from it, when the project has arrived and the directory does not know that: it stays', async () => {
    const { id, main, remove } = await interrupted('lost', 'switched');
    await main.query('update project_moves set switched_at = null');
    await main.query("update cell_projects set cell = 'lost' where project_id = $1", [id]);
    expect(await remove()).toEqual({ cell: 'there', isLost: false });
  });
});

import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { openDatabase } from '../../src/db/client.ts';
import { copyChanges } from '../../src/db/move/sync.ts';
import { listMovedTables, type MovedTable } from '../../src/db/move/tables.ts';
import { createPartitions, dropPartitions } from '../../src/db/partitions.ts';
import { firstIdAt } from '../../src/lib/ids.ts';
import { runCommand } from '../support/cli.ts';
import { newDataDir } from '../support/data-dir.ts';
import { createDatabaseOn, type TestDatabase } from '../support/database.ts';
import { fillTables, FILLED_PROJECT as PROJECT } from '../support/fill-tables.ts';

// Two cells without a server.

let [main, other] = [] as unknown as [TestDatabase, TestDatabase];
let settings: Record<string, string>;
let tables: MovedTable[];

beforeAll(async () => {
  main = await createDatabaseOn(inject('testServer'));
  other = await createDatabaseOn(inject('testServer'));
  const DATA_DIR = await newDataDir('move');
  settings = { DATA_DIR, DATABASE_URL: main.url, SECRET_KEY: randomBytes(32).toString('hex') };
  expect(await run('cell', 'add', 'other', '--database-url', other.url)).toMatchObject({ code: 0, err: '' });
  await withClient(main, async (client) => {
    await fillTables(client);
    await client.query("delete from cell_projects; delete from cells where name = 'eu'");
    await client.query("update projects set name = 'all', api_key = 'pk_of_everything'");
    // The rows of users are of the one with this id.
    await client.query("update users set id = $1 where external_id = 'plain'", [PROJECT]);
    await client.query('update former_user_keys set user_id = $1', [PROJECT]);
    await client.query('update workflow_throttles set project_id = $1', [PROJECT]);
    tables = await listMovedTables(client);
  });
});
afterAll(async () => {
  await main?.drop();
  await other?.drop();
});

async function move(cell: string): Promise<void> {
  const { code, err } = await run('project', 'move', 'all', '--to', cell);
  expect(code, err).toBe(0);
}

const run = (...args: string[]) => runCommand(args, settings);

async function withClient<Result>(
  { connection }: TestDatabase,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const db = openDatabase(connection, { size: 1, name: 'move' });
  const client = await db.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
    await db.close();
  }
}

/** The rows of each table as texts, without what differs between databases. All are of the project. */
function rowsIn(database: TestDatabase): Promise<Record<string, string[]>> {
  return withClient(database, async (client) => {
    const found: Record<string, string[]> = {};
    for (const table of tables) {
      const own = ['xact', 'feed_xact', ...(table.name === 'jobs' ? ['id', 'lease_id'] : [])];
      const columns = table.columns.filter((column) => !own.includes(column));
      const { rows } = await client.query<{ row: string }>(
        `select row(${columns.join(', ')})::text as row
        from ${table.name}`,
      );
      found[table.name] = rows.map(({ row }) => row).sort();
    }
    return found;
  });
}

const empty = () => Object.fromEntries(tables.map(({ name }) => [name, []]));

test('every row of every table moves there and back with unchanged values', async () => {
  const before = await rowsIn(main);
  expect(Object.keys(before).filter((name) => before[name]?.length === 0)).toEqual([]); // each is tested
  await move('other');
  expect(await rowsIn(other)).toEqual(before);
  expect(await rowsIn(main)).toEqual(empty());
  await move('public');
  expect(await rowsIn(main)).toEqual(before);
  expect(await rowsIn(other)).toEqual(empty());
});

test('a delivery moves although retention replaces its month meanwhile', async () => {
  const [source, target, blocker] = [await connected(main), await connected(other), await connected(other)];
  const db = openDatabase(main.connection, { size: 1, name: 'retention' });
  try {
    const nextYear = Date.now() + 366 * 86_400_000;
    await createPartitions(db, 'deliveries', nextYear);
    await source.query(`
      insert into changed_rows (table_name, key) select 'broadcasts', array[id::text] from broadcasts;
      insert into changed_rows (table_name, key)
      select 'deliveries', array[user_id::text, notification_id::text, channel] from deliveries`);
    await blocker.query('begin; lock table broadcasts in access exclusive mode');
    // In a transaction, pg_stat_activity does not change.
    const waiting = `select from pg_locks l join pg_database d on d.oid = l.database
      where d.datname = current_database() and not l.granted`;
    const copied = copyChanges({ source, target, tables, projectId: PROJECT });
    await expect.poll(async () => (await blocker.query(waiting)).rowCount).toBe(1);
    const all = async () => ({ rows: (partition: string) => `select * from ${partition}`, values: [] });
    const replaced = dropPartitions(db, 'deliveries', firstIdAt(nextYear), all);
    await replaced.catch((error: { code?: string }) => expect(error.code).toBe('55P03'));
    await blocker.query('rollback');
    await copied;
    expect((await rowsIn(other)).deliveries).toEqual((await rowsIn(main)).deliveries);
  } finally {
    await Promise.all([source, target, blocker].map((client) => client.end()));
    await db.close();
  }
});

async function connected({ connection }: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client(connection);
  await client.connect();
  return client;
}

import { distributeSchema } from '../../src/db/citus.ts';
import { type ConnectionSettings, inSchema, openDatabase } from '../../src/db/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { settingsOfUrl } from './settings-of-url.ts';
import { withClient } from './with-client.ts';

// With TEST_CITUS=postgres://…, test databases are on this coordinator of Citus, with all of its workers, and
// the cells of TEST_CELLS are distributed: `npm run proof:citus -- <url>`. The user needs the rights to
// create databases and extensions on all servers, and its password, if it has one, is the same everywhere.

/** The coordinator of TEST_CITUS. */
export const CITUS: ConnectionSettings | undefined =
  process.env.TEST_CITUS === undefined ? undefined : settingsOfUrl(process.env.TEST_CITUS);

/** A server of Citus. */
export interface CitusServer {
  host: string;
  port: number;
}

/** The workers of the coordinator. */
export async function workersOf(coordinator: ConnectionSettings): Promise<CitusServer[]> {
  return withClient(coordinator, async (client) => {
    const { rows } = await client.query<CitusServer>(
      'select node_name as host, node_port::int as port from citus_get_active_worker_nodes() order by 1, 2',
    );
    return rows;
  });
}

/** Creates a database with the schema of this release on the coordinator, and an empty one on each worker. */
export async function createCitusDatabase(coordinator: ConnectionSettings, database: string): Promise<void> {
  const workers = await workersOf(coordinator);
  for (const server of [coordinator, ...workers.map((worker) => ({ ...coordinator, ...worker }))]) {
    await withClient(server, (client) => client.query(`create database ${database}`));
    await withClient({ ...server, database }, (client) => client.query('create extension citus'));
  }
  await withClient({ ...coordinator, database }, async (client) => {
    await client.query('select citus_set_coordinator_host($1, $2)', [coordinator.host, coordinator.port]);
    for (const { host, port } of workers) await client.query('select citus_add_node($1, $2)', [host, port]);
    await migrate(client);
  });
}

/** Drops it everywhere. */
export async function dropCitusDatabase(coordinator: ConnectionSettings, database: string): Promise<void> {
  const workers = (await workersOf(coordinator)).map((worker) => ({ ...coordinator, ...worker }));
  for (const server of [coordinator, ...workers])
    await withClient(server, (client) => client.query(`drop database if exists ${database} with (force)`));
}

/** Creates the tables of a cell and distributes them. */
export async function createDistributedCell(connection: ConnectionSettings, schema: string): Promise<void> {
  await withClient(inSchema(connection, schema), (client) => migrate(client));
  const db = openDatabase(connection, { size: 1, name: 'test' });
  await distributeSchema(db, schema).finally(() => db.close());
}

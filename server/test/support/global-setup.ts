import { appendFile, chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { DATABASE_NAME } from '../../src/db/embedded/cluster.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { bundleProgram } from './bundle-program.ts';
import { copyDataDir } from './copy-data-dir.ts';
import { type Pgbouncer, startPgbouncer } from './pgbouncer.ts';
import { settingsOfUrl } from './settings-of-url.ts';
import { TEMPLATE } from './template.ts';
import { keepTemporaryFilesInMemory } from './temporary-files.ts';
import { withClient } from './with-client.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The server of this run, without a database for tests: see `createTestDatabase`. */
    testServer: ConnectionSettings;
    /** A data directory with an empty database that is migrated and stopped: see `newDataDir`. */
    preparedDataDir: string;
    /** With TEST_POOLER=1, services are connected to it through this pgbouncer. */
    testPooler: ConnectionSettings | undefined;
  }
}

/**
 * Starts one PostgreSQL for the whole run and makes the template. Returns the teardown. With
 * TEST_SERVER=postgres://…, the databases of the tests are on that server, such as one of an older version.
 * Its user needs the rights of a superuser, and `max_connections` has to be 300.
 */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const keepsDatabases = process.env.KEEP_TEST_DATABASES === '1';
  const deleteTemporaryFiles = keepsDatabases ? async () => {} : await keepTemporaryFilesInMemory();
  const folder = await mkdtemp(join(tmpdir(), 'belfry-test-'));
  await chmod(folder, 0o755); // when this is root, PostgreSQL runs as another user
  const program = join(folder, 'program');
  process.env.TEST_PROGRAM = program; // support/program.ts
  const dataDir = join(folder, 'server');
  const preparedDataDir = join(folder, 'prepared');
  await Promise.all([bundleProgram(program), prepare(preparedDataDir)]);
  const server = await serverOfTests(preparedDataDir, dataDir);
  let pooler: Pgbouncer | undefined;
  try {
    if (process.env.TEST_POOLER === '1') pooler = await startPgbouncer(server.connection);
  } catch (error) {
    await server.stop();
    throw error;
  }
  project.provide('testServer', server.connection);
  project.provide('preparedDataDir', preparedDataDir);
  project.provide('testPooler', pooler?.connection);
  return async () => {
    await pooler?.stop();
    await server.stop();
    if (keepsDatabases) console.log(`The test databases were kept: DATA_DIR=${dataDir}`);
    else await rm(folder, { recursive: true, force: true });
    await deleteTemporaryFiles();
  };
}

/** Makes a data directory with a migrated database that is stopped. */
async function prepare(dataDir: string): Promise<void> {
  await mkdir(dataDir);
  const server = await startEmbedded({ dataDir, role: 'server', log: () => {} });
  try {
    await withClient(server.connection, (client) => migrate(client));
  } finally {
    await server.stop();
  }
}

const SETTINGS = [
  'max_connections = 300', // a service takes up to 20, and a file may run five of them beside other files
  // Without it, a database is dropped in 50 ms instead of a second, because PostgreSQL then flushes all of
  // them. Tests of durability start a server of their own.
  'fsync = off',
];

type Server = Pick<EmbeddedPostgres, 'stop'> & { connection: ConnectionSettings };

/** The server with the template. */
async function serverOfTests(prepared: string, dataDir: string): Promise<Server> {
  const { TEST_SERVER } = process.env;
  if (TEST_SERVER !== undefined) return prepareServer(settingsOfUrl(TEST_SERVER));
  await copyDataDir(prepared, dataDir);
  return startServer(dataDir);
}

/** Makes the template on a server that runs already. */
async function prepareServer(connection: ConnectionSettings): Promise<Server> {
  const run = (statement: string) => withClient(connection, (client) => client.query(statement));
  const drop = () => run(`drop database if exists ${TEMPLATE}`);
  await drop();
  await run(`create database ${TEMPLATE}`);
  await withClient({ ...connection, database: TEMPLATE }, (client) => migrate(client));
  return { connection, stop: () => drop().then(() => {}) };
}

async function startServer(dataDir: string): Promise<EmbeddedPostgres> {
  await appendFile(join(dataDir, 'postgres/data/postgresql.auto.conf'), `${SETTINGS.join('\n')}\n`);
  const server = await startEmbedded({ dataDir, role: 'server', log: () => {} });
  await withClient(server.connection, (client) =>
    client.query(`create database ${TEMPLATE} template ${DATABASE_NAME}`),
  );
  return server;
}

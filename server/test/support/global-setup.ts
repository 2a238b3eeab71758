import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';
import { TEMPLATE } from './template.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The server of this run, without a database for tests: see `createTestDatabase`. */
    testServer: ConnectionSettings;
  }
}

/** Starts one PostgreSQL for the whole run and migrates the template. Returns the teardown. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-test-'));
  const server = await startServer(dataDir);
  try {
    await makeTemplate(server.connection);
  } catch (error) {
    await server.stop();
    throw error;
  }
  project.provide('testServer', server.connection);
  return async () => {
    await server.stop();
    if (process.env.KEEP_TEST_DATABASES === '1')
      console.log(`The test databases were kept: DATA_DIR=${dataDir}`);
    else await rm(dataDir, { recursive: true, force: true });
  };
}

const SETTINGS = [
  'max_connections = 300', // a service takes up to 20, and a file may run five of them beside other files
  // Without it, a database is dropped in 50 ms instead of a second, because PostgreSQL then flushes all of
  // them. Tests of durability start a server of their own.
  'fsync = off',
];

async function startServer(dataDir: string): Promise<EmbeddedPostgres> {
  const start = () => startEmbedded({ dataDir, role: 'server', log: () => {} });
  const first = await start();
  try {
    await withClient(first.connection, async (client) => {
      for (const setting of SETTINGS) await client.query(`alter system set ${setting}`);
    });
  } finally {
    await first.stop();
  }
  return start(); // max_connections takes effect at a start
}

async function makeTemplate(server: ConnectionSettings): Promise<void> {
  await withClient(server, (client) => client.query(`create database ${TEMPLATE}`));
  // PostgreSQL clones a database only while it has no connections.
  await withClient({ ...server, database: TEMPLATE }, (client) => migrate(client));
}

async function withClient(
  settings: ConnectionSettings,
  work: (client: pg.Client) => Promise<unknown>,
): Promise<void> {
  const client = new pg.Client(settings);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

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
    /** The server of this run: a database of its own has to be made in it first. */
    testServer: ConnectionSettings;
  }
}

/** Starts one PostgreSQL for the whole run and migrates the template; answers what takes both away again. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-test-'));
  const server = await startRoomy(dataDir);
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

// A service takes up to 20, and a file may run five of them beside those of another. The usual 60 are refused
// on a busy machine alone.
const MAX_CONNECTIONS = 300;

async function startRoomy(dataDir: string): Promise<EmbeddedPostgres> {
  const start = () => startEmbedded({ dataDir, role: 'server', log: () => {} });
  const first = await start();
  try {
    await withClient(first.connection, (client) =>
      client.query(`alter system set max_connections = ${MAX_CONNECTIONS}`),
    );
  } finally {
    await first.stop();
  }
  return start(); // it counts from a start on
}

async function makeTemplate(server: ConnectionSettings): Promise<void> {
  await withClient(server, (client) => client.query(`create database ${TEMPLATE}`));
  // No connection may be left on it: PostgreSQL clones a database only while nobody uses it.
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

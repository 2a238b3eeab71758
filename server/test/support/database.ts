import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { CITUS, createCitusDatabase, dropCitusDatabase } from './citus.ts';
import { TEMPLATE } from './template.ts';

export interface TestDatabase {
  /** For `openDatabase` and `pg.Client`. */
  readonly connection: ConnectionSettings;
  /** The same as a URL. */
  readonly url: string;
  /** `DATABASE_URL` of a service and, if that is a connection pooler's, `DATABASE_DIRECT_URL`. */
  readonly settings: Record<string, string>;
  /** Drops the database and its connections. With KEEP_TEST_DATABASES=1 it stays. */
  drop(): Promise<void>;
}

/** Creates an empty database with the schema of this release, for one test file: a copy of `template`. */
export async function createTestDatabase(template: string = TEMPLATE): Promise<TestDatabase> {
  if (CITUS !== undefined) return createTestDatabaseOnCitus(CITUS);
  // Copying the files takes half as long as writing the pages to the log, the default.
  const options = `template ${template} strategy file_copy`;
  return createDatabaseOn(inject('testServer'), options, inject('testPooler'));
}

/** Creates a database on another server. */
export async function createDatabaseOn(
  server: ConnectionSettings,
  options = '',
  pooler?: ConnectionSettings,
): Promise<TestDatabase> {
  const database = newDatabaseName();
  await run(server, `create database ${database} ${options}`);
  const connection = { ...server, database };
  return {
    connection,
    url: urlOf(connection),
    settings:
      pooler === undefined
        ? { DATABASE_URL: urlOf(connection) }
        : { DATABASE_URL: urlOf({ ...pooler, database }), DATABASE_DIRECT_URL: urlOf(connection) },
    async drop() {
      if (process.env.KEEP_TEST_DATABASES !== '1')
        await run(server, `drop database ${database} with (force)`);
    },
  };
}

async function createTestDatabaseOnCitus(coordinator: ConnectionSettings): Promise<TestDatabase> {
  const database = newDatabaseName();
  await createCitusDatabase(coordinator, database);
  const connection = { ...coordinator, database };
  const url = urlOf(connection);
  return {
    ...{ connection, url, settings: { DATABASE_URL: url } },
    async drop() {
      if (process.env.KEEP_TEST_DATABASES !== '1') await dropCitusDatabase(coordinator, database);
    },
  };
}

/** Executes a statement on the server of this run, such as one about a database. */
export async function onServer(statement: string): Promise<void> {
  await run(inject('testServer'), statement);
}

const newDatabaseName = () => `test_${randomUUID().replaceAll('-', '')}`;

let shared: Promise<pg.Client> | undefined;

async function run(server: ConnectionSettings, statement: string): Promise<void> {
  if (urlOf(server) === urlOf(inject('testServer'))) {
    // One for all test files of this process: a new connection costs as much as a quarter of a database.
    shared ??= connect(server);
    await (await shared).query(statement);
    return;
  }
  const client = await connect(server);
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

async function connect(server: ConnectionSettings): Promise<pg.Client> {
  const client = new pg.Client(server);
  client.on('error', () => {}); // the server stops before the processes of the tests
  await client.connect();
  return client;
}

/** The URL of a connection. The socket's folder is in its query, because a path is not a host name. */
export function urlOf({ host = '', port, user = '', password, database }: ConnectionSettings): string {
  const secret = typeof password === 'string' ? `:${encodeURIComponent(password)}` : '';
  const login = `${encodeURIComponent(user)}${secret}`;
  if (!host.startsWith('/')) return `postgres://${login}@${host}:${port}/${database}`;
  return `postgres://${login}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
}

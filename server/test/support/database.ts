import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import type { ConnectionSettings } from '../../src/db/client.ts';
import { TEMPLATE } from './template.ts';

export interface TestDatabase {
  /** What `openDatabase` and `pg.Client` take. */
  readonly connection: ConnectionSettings;
  /** The same as a URL, for `DATABASE_URL` of a service in a process of its own. */
  readonly url: string;
  /** Removes the database, whoever is still connected. With KEEP_TEST_DATABASES=1 it stays. */
  drop(): Promise<void>;
}

/** A database of this release's schema, empty, for one test file; it takes about 50 ms. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = inject('testServer');
  const database = `test_${randomUUID().replaceAll('-', '')}`;
  await run(server, `create database ${database} template ${TEMPLATE}`);
  const connection = { ...server, database };
  return {
    connection,
    url: urlOf(connection),
    async drop() {
      if (process.env.KEEP_TEST_DATABASES !== '1')
        await run(server, `drop database ${database} with (force)`);
    },
  };
}

async function run(server: ConnectionSettings, statement: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** The socket's folder goes into the query: a path is no host name. */
function urlOf({ host = '', port, user = '', password, database }: ConnectionSettings): string {
  const secret = typeof password === 'string' ? `:${encodeURIComponent(password)}` : '';
  const login = `${encodeURIComponent(user)}${secret}`;
  if (!host.startsWith('/')) return `postgres://${login}@${host}:${port}/${database}`;
  return `postgres://${login}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
}

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkDatabase } from '../../src/cli/doctor/database.ts';
import { readConfig } from '../../src/config.ts';
import { StartError } from '../../src/db/embedded/start-error.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { belfry, ended } from '../support/cli.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';

let dataDir: string;
let database: TestDatabase;
let admin: pg.Client;
let guest: string;
// It accepts connections.
const silent = createServer();
const empty = `empty_${randomUUID().replaceAll('-', '')}`;
const latin = `latin_${randomUUID().replaceAll('-', '')}`;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'belfry-start-database-'));
  database = await createTestDatabase();
  admin = new pg.Client(database.connection);
  await admin.connect();
  await admin.query(`create database ${empty}`);
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
});
afterAll(async () => {
  silent.close();
  await admin.query(`drop database ${empty} with (force)`);
  await admin.query(`drop database if exists ${latin}`);
  await admin.end();
  await database.drop();
  await rm(dataDir, { recursive: true, force: true });
});
beforeEach(async () => {
  guest = `guest_${randomUUID().replaceAll('-', '')}`;
  await admin.query(`create role ${guest} login`);
});
afterEach(async () => {
  await admin.query(`drop owned by ${guest}; drop role ${guest}`);
  await admin.query(`alter database ${database.connection.database} reset all`);
});

const asUser = (url: string, user: string) => url.replace(/\/\/[^@:]+/, `//${user}`);
const inDatabase = (name: string) => database.url.replace(String(database.connection.database), name);
const configOf = (url: string) => readConfig({ DATA_DIR: dataDir, DATABASE_URL: url, PORT: '0' });

/** The output of a start and of doctor with a database. */
async function printed(url: string): Promise<{ start: string; doctor: string }> {
  const config = configOf(url);
  const error: unknown = await open(config, { role: 'server', log: createLogger({ level: 'silent' }) }).then(
    async (opened) => {
      await opened.close();
      return new Error('it started');
    },
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(StartError);
  const { db, findings } = await checkDatabase(config);
  await db?.close();
  const problems = findings.filter(({ status }) => status === 'problem');
  expect(problems).toHaveLength(1);
  return {
    start: (error as Error).message,
    doctor: problems.map(({ message, advice }) => `${message}: ${advice}`).join('\n'),
  };
}

describe('a start with an unusable database prints the finding of doctor, in one line', () => {
  const cases: Record<string, { url: () => string; before?: () => Promise<unknown>; expected: RegExp }> = {
    'a user that may not create tables': {
      url: () => asUser(inDatabase(empty), guest),
      expected: /user guest_\w+ may not create tables: run, as the owner .* to "guest_\w+"$/,
    },
    'a user that may not read the tables': {
      url: () => asUser(database.url, guest),
      expected: /user guest_\w+ may not read Belfry's tables: .* grant "guest_\w+" all on all tables/,
    },
    'a user that may not change the tables': {
      url: () => asUser(database.url, guest),
      before: () => admin.query(`grant select on all tables in schema public to ${guest}`),
      expected: /user guest_\w+ may not change Belfry's tables: .* grant "guest_\w+" all on all tables/,
    },
    'a read-only database': {
      url: () => database.url,
      before: () =>
        admin.query(`alter database ${database.connection.database} set default_transaction_read_only = on`),
      expected: /it is read-only \(a replica, or configured so\): set DATABASE_URL to the primary server$/,
    },
    'a database that cannot store all texts': {
      url: () => inDatabase(latin),
      before: () => admin.query(`create database ${latin} encoding 'LATIN1' locale 'C' template template0`),
      expected:
        /its encoding is LATIN1, which cannot store all texts; Belfry needs UTF8: create the database/,
    },
    'a user that does not exist': {
      url: () => asUser(database.url, 'unknown_user'),
      expected: /cannot be reached \(role "unknown_user" does not exist\): check that the user exists/,
    },
    'a database that does not exist': {
      url: () => inDatabase('not_there'),
      expected: /cannot be reached \(database "not_there" does not exist\): create the database/,
    },
    'a user whose connections are all in use': {
      url: () => asUser(database.url, guest),
      before: () => admin.query(`alter role ${guest} connection limit 0`),
      expected:
        /accepts no more connections \(too many connections for role "guest_\w+"\): .* that of the user/,
    },
    'a server that does not respond': {
      url: () => `postgres://x@127.0.0.1:${(silent.address() as AddressInfo).port}/x`,
      expected:
        /cannot be reached \(.*(timeout|does not respond)\): there is no response: check the host, the port/,
    },
    'a host that does not exist': {
      url: () => 'postgres://x@nowhere.invalid/x',
      expected: /cannot be reached \(.*(ENOTFOUND|EAI_AGAIN).*\): (the host|the name server) does not/,
    },
    'a socket that does not exist': {
      url: () => 'postgres://x@localhost/x?host=/nowhere',
      expected: /cannot be reached \(.*ENOENT.*\): there is no such unix socket/,
    },
  };

  test.each(Object.entries(cases))('%s', async (_name, { url, before, expected }) => {
    await before?.();
    const { start, doctor } = await printed(url());
    expect(start).toMatch(expected);
    expect(start).not.toContain('\n');
    expect(doctor).toMatch(expected);
  });

  test('as the command line prints it', async () => {
    const settings = { DATA_DIR: dataDir, PORT: '0', LOG_LEVEL: 'silent' };
    const DATABASE_URL = asUser(inDatabase(empty), guest);
    const { code, err } = await ended(belfry(['start'], { ...settings, DATABASE_URL }));
    expect({ code, err }).toEqual({
      code: 1,
      err: expect.stringMatching(
        /^belfry: the database of DATABASE_URL: user \w+ may not create tables: .*\n$/,
      ),
    });
    // A file that cannot be written, after everything else has started.
    mkdirSync(join(dataDir, 'credentials.json'), { recursive: true });
    const blocked = await ended(belfry(['start'], { ...settings, DATABASE_URL: database.url }));
    expect(blocked).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^belfry: \S*credentials\.json\S* cannot be used \(EISDIR\): .*\n$/),
    });
  });
});

test('a user that may not create tables can start on a current schema, and doctor warns', async () => {
  await admin.query(`grant all on all tables in schema public to ${guest}`);
  const config = configOf(asUser(database.url, guest));
  const opened = await open(config, { role: 'server', log: createLogger({ level: 'silent' }) });
  await opened.close();
  const { db, findings } = await checkDatabase(config);
  await db?.close();
  // The server of the tests has fsync off, and doctor warns of that, too.
  const found = findings.filter(({ check, status }) => check !== 'durability' && status !== 'ok');
  expect(found).toEqual([
    expect.objectContaining({ status: 'warning', message: `user ${guest} may not create tables` }),
    expect.objectContaining({ status: 'warning', message: expect.stringContaining('does not own') }),
  ]);
});

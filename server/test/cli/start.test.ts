import { once } from 'node:events';
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { postmasterOf, startBelfry } from '../support/belfry-process.ts';
import { belfry, ended, Output } from '../support/cli.ts';
import { newDataDir } from '../support/data-dir.ts';
import { createTestDatabase } from '../support/database.ts';
import { LAUNCHER } from '../support/program.ts';
import { until } from '../support/service.ts';
import { belfryOnTerminal, hasTerminals } from '../support/terminal.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'belfry-start-'));
  chmodSync(dir, 0o755);
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** A message of PostgreSQL that asks for the next step of a login. */
function authentication(step: number, data: string): Buffer {
  const message = Buffer.alloc(9 + data.length, 'R');
  message.writeInt32BE(message.length - 1, 1);
  message.writeInt32BE(step, 5);
  message.write(data, 9, 'latin1');
  return message;
}

const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

test.skipIf(!hasTerminals)('a start on a terminal explains the use, with a command that works', async () => {
  const dataDir = await newDataDir('terminal');
  const child = belfryOnTerminal(['start'], { DATA_DIR: dataDir, PORT: '0' });
  const output = new Output(child, 'stdout');
  try {
    const printed = (await output.until(/-d '\{.*\}'/)).replaceAll('\r', '');
    const [, address] = /^Belfry is ready at (\S+)$/m.exec(printed) ?? [];
    expect(printed).toContain(`${address}/demo`);
    expect(printed).toContain('npx belfry listen ada');
    expect(printed).not.toContain('{"level"');
    // The printed command must work unchanged.
    const curl = printed.slice(printed.indexOf('curl -X POST'));
    expect(curl).toContain(`${dataDir}/credentials.json`);
    const { project_jwt: jwt } = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8'));
    const sent = await fetch(`${address}/v2/broadcasts`, {
      method: 'POST',
      headers: { authorization: `Bearer ${jwt}`, 'content-type': 'application/json' },
      body: /-d '(\{.*\})'/.exec(curl)?.[1] ?? '',
    });
    expect(sent.status).toBe(201);
    child.stdin?.write('\x03'); // Ctrl-C
    await output.until(/Stopping…/);
  } finally {
    if (child.exitCode === null) await once(child, 'close');
    await rm(dataDir, { recursive: true, force: true });
  }
});

test('the log of a start without a terminal consists of JSON lines', async () => {
  const dataDir = await newDataDir('lines');
  try {
    const { address, output, signal, ended } = await startBelfry(dataDir, { LOG_LEVEL: 'info' });
    signal('SIGTERM');
    expect(await ended).toBe(0);
    const lines = output.map((line) => JSON.parse(line));
    for (const line of lines)
      expect(line).toEqual(expect.objectContaining({ level: expect.any(String), time: expect.any(String) }));
    expect(lines).toContainEqual(
      expect.objectContaining({
        msg: `Belfry is ready at ${address}`,
        address,
        roles: ['api', 'worker', 'realtime'],
      }),
    );
    expect(lines).toContainEqual(expect.objectContaining({ msg: 'Belfry is stopping' }));
    // A script that waits for the address finds it, however little is logged.
    const quiet = await startBelfry(dataDir, { LOG_LEVEL: 'silent' });
    quiet.signal('SIGTERM');
    expect(await quiet.ended).toBe(0);
    expect(quiet.output.map((line) => JSON.parse(line).address)).toEqual([quiet.address]);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test('the first start creates a project; the second has the same data', async () => {
  const dataDir = join(dir, 'first');
  const first = await startBelfry(dataDir, {}, LAUNCHER);
  const file = join(dataDir, 'credentials.json');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o777).toBe(0o600);
  expect(Object.keys(first.credentials).sort()).toEqual(
    ['api_key', 'api_secret', 'base_url', 'legacy_base_url', 'project_id', 'project_jwt'].sort(),
  );
  expect(first.credentials.base_url).toBe(`${first.address}/v2`);
  const sent = await fetch(`${first.address}/v2/broadcasts`, {
    method: 'POST',
    headers: { authorization: `Bearer ${first.credentials.project_jwt}`, 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'Hello', recipients: [{ external_id: 'ada' }] }),
  });
  expect(sent.status).toBe(201);
  const { id } = (await sent.json()) as { id: string };

  const postmaster = postmasterOf(dataDir);
  first.signal('SIGTERM');
  expect(await first.ended).toBe(0);
  await until(
    () => alive(postmaster),
    (runs) => !runs,
  );

  const second = await startBelfry(dataDir, {}, LAUNCHER);
  expect({ ...second.credentials, base_url: '', legacy_base_url: '' }).toEqual({
    ...first.credentials,
    base_url: '',
    legacy_base_url: '',
  });
  const again = await until(
    async () =>
      (
        await fetch(`${second.address}/v2/broadcasts/${id}`, {
          headers: { authorization: `Bearer ${second.credentials.project_jwt}` },
        })
      ).json() as Promise<{
        status: { status: string };
      }>,
    (broadcast) => broadcast.status.status === 'processed',
  );
  expect(again).toMatchObject({ id });

  const twin = await ended(belfry(['start'], { DATA_DIR: dataDir, PORT: '0' }));
  expect(twin.code).toBe(1);
  expect(twin.err).toMatch(/^belfry: Another Belfry .*\n$/);
  second.signal('SIGTERM');
  expect(await second.ended).toBe(0);
});

describe('a start that fails prints one line with the remedy, and exit code 1', () => {
  async function refusal(settings: Record<string, string>): Promise<string> {
    const { code, err } = await ended(
      belfry(['start'], { DATA_DIR: join(dir, 'refused'), PORT: '0', LOG_LEVEL: 'silent', ...settings }),
    );
    expect({ code, err }).toMatchObject({ code: 1 });
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    return err;
  }

  test('a port that is in use', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    expect(await refusal({ PORT: `${port}` })).toMatch(
      new RegExp(`^belfry: port ${port} .* is in use: .*PORT=`),
    );
    other.close();
  });

  test('an address of another machine', async () => {
    expect(await refusal({ HOST: '192.0.2.1' })).toContain('HOST 192.0.2.1');
  });

  test('a data directory that is a file', async () => {
    const file = join(dir, 'file');
    writeFileSync(file, '');
    expect(await refusal({ DATA_DIR: file })).toContain(file);
  });

  test('a database that cannot be reached', async () => {
    const printed = await refusal({ DATABASE_URL: 'postgres://someone:hunter2@127.0.0.1:1/x' });
    expect(printed).toMatch(/DATABASE_URL cannot be reached/);
    expect(printed).not.toContain('hunter2');
  });

  test('a database that asks for a password, which DATABASE_URL does not have', async () => {
    // As PostgreSQL does, it waits for the password after its two messages. It never closes the connection.
    const database = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write(authentication(10, 'SCRAM-SHA-256\0\0'));
        socket.once('data', () => socket.write(authentication(11, 'r=nonce,s=c2FsdA==,i=4096')));
      });
    });
    await new Promise<void>((resolve) => database.listen(0, '127.0.0.1', resolve));
    const { port } = database.address() as { port: number };
    const DATABASE_URL = `postgres://someone@127.0.0.1:${port}/x`;
    try {
      const remedy = 'add the password to the address: postgres://user:password@host:5432/database';
      expect(await refusal({ DATABASE_URL })).toContain(remedy);
      const settings = { DATA_DIR: join(dir, 'refused'), DATABASE_URL };
      const backup = await ended(belfry(['backup', join(dir, 'none.backup')], settings));
      expect(backup).toMatchObject({ code: 1, out: '' });
      expect(backup.err).toMatch(/^belfry: the database cannot be reached \(.*\): .*\n$/);
      expect(backup.err).toContain(remedy);
    } finally {
      database.close();
    }
  });

  test.each(['require', 'verify-ca', 'verify-full'])(
    'a database without TLS, with sslmode=%s',
    async (mode) => {
      const database = createServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.write('N'));
      });
      await new Promise<void>((resolve) => database.listen(0, '127.0.0.1', resolve));
      const { port } = database.address() as { port: number };
      try {
        const DATABASE_URL = `postgres://someone@127.0.0.1:${port}/x?sslmode=${mode}`;
        expect(await refusal({ DATABASE_URL })).toContain(
          'remove sslmode from the address, or switch TLS on',
        );
      } finally {
        database.close();
      }
    },
  );

  test('a database that is too old', async () => {
    const database = await createTestDatabase();
    const client = new pg.Client(database.connection);
    await client.connect();
    // A function that hides PostgreSQL's own reports an old version.
    await client.query(`
      create schema old;
      create function old.current_setting(text) returns text language sql
        as $$ select case $1 when 'server_version_num' then '140011' else '14.11' end $$;
      do $$ begin
        execute format('alter database %I set search_path = old, pg_catalog, public', current_database());
      end $$;
    `);
    await client.end();
    expect(await refusal({ DATABASE_URL: database.url })).toMatch(
      /PostgreSQL 14\.11; Belfry needs 15 or newer/,
    );
    await database.drop();
  });

  test('a database of a newer release', async () => {
    const database = await createTestDatabase();
    const client = new pg.Client(database.connection);
    await client.connect();
    await client.query("insert into migrations (version, name) values (9999, 'from_the_future')");
    await client.end();
    expect(await refusal({ DATABASE_URL: database.url })).toMatch(/schema 9999, made by a newer Belfry/);
    await database.drop();
  });

  test('malformed or unknown settings, all of them named', async () => {
    const { code, err } = await ended(
      belfry(['start'], {
        DATA_DIR: join(dir, 'refused'),
        PORT: 'http',
        LOG_LEVEL: 'loud',
        RATE_LIMIT_READ: '1',
        DATABSE_URL: 'x',
        SECRET_KEY: 'short',
        EGRESS_ALLOW: 'nonsense',
      }),
    );
    expect(code).toBe(1);
    for (const name of ['PORT', 'LOG_LEVEL', 'RATE_LIMIT_READ ', 'DATABSE_URL', 'SECRET_KEY', 'EGRESS_ALLOW'])
      expect(err).toContain(`belfry: ${name}`);
    expect(err).toContain('did you mean DATABASE_URL?');
    expect(err).not.toContain('short');
  });
});

import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { checkDatabase } from '../../src/cli/doctor/database.ts';
import { readConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/db/client.ts';
import { arrivesAt } from '../../src/db/pooler.ts';
import { createLogger } from '../../src/lib/log.ts';
import { open } from '../../src/open.ts';
import { createDatabaseOn, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { expectExactlyOnce, load } from '../support/faults.ts';
import { hasPgbouncer, type Pgbouncer, startPgbouncer } from '../support/pgbouncer.ts';
import { openStream, titles } from '../support/realtime.ts';
import { processed, startTestService, type TestService } from '../support/service.ts';
import { TEMPLATE } from '../support/template.ts';
import { ended, STATE, startRun } from '../support/workflows.ts';

const log = createLogger({ level: 'silent' });

test('a proof of the bus ends with its connection, so that it does not keep a command running', async () => {
  const elsewhere = await createTestDatabase();
  onTestFinished(() => elsewhere.drop());
  const db = openDatabase(elsewhere.connection, { size: 1, name: 'test' });
  onTestFinished(() => db.close());
  const client = new pg.Client(inject('testServer'));
  await client.connect();
  const notified = Promise.withResolvers<void>();
  const proof = arrivesAt(client, {
    async query(statement, values) {
      const rows = await db.query(statement, values);
      notified.resolve();
      return rows as never;
    },
  });
  await notified.promise;
  await Promise.all([client.end(), expect(proof).rejects.toThrow('the connection ended')]);
});

describe.runIf(hasPgbouncer)('behind pgbouncer in transaction mode', () => {
  let pooler: Pgbouncer;
  let database: TestDatabase;
  let dataDir: string;
  beforeAll(async () => {
    pooler = await startPgbouncer(inject('testServer'));
    database = await databaseBehind(pooler);
    dataDir = await mkdtemp(join(tmpdir(), 'belfry-pooler-'));
  });
  afterAll(async () => {
    await database?.drop();
    await pooler?.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  const databaseBehind = ({ connection }: Pgbouncer) =>
    createDatabaseOn(inject('testServer'), `template ${TEMPLATE}`, connection);

  /** Runs statements on the database itself. */
  async function direct<Row extends object>(text: string): Promise<Row[]> {
    const client = new pg.Client(database.connection);
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  }

  describe('two nodes', () => {
    let one: TestService;
    let two: Service;
    beforeAll(async () => {
      const SECRET_KEY = randomBytes(32).toString('hex');
      one = await startTestService({ settings: { ...database.settings, SECRET_KEY } });
      two = await startService(one.context.config, { log });
    });
    afterAll(async () => {
      await two?.stop();
      await one?.stop();
    });

    test('send broadcasts, to topics too, run workflows, and notify users of each other', async () => {
      const { project } = one;
      const jwt = project.userJwt({ user_external_id: 'ada' });
      const stream = await openStream(`${two.address}/v2/notifications/stream`, { jwt });
      onTestFinished(() => stream.source.close());
      const recipients = [{ external_id: 'ada' }];
      const sent = await project.call('POST', '/broadcasts', { title: 'One', recipients });
      expect(sent.status).toBe(201);
      await expect.poll(() => titles(stream.frames)).toEqual(['One']);
      await project.call('POST', '/topics/news/subscribers', { users: recipients });
      const subscribers = [{ topic: { subscribers: true } }];
      const topic = { title: 'Two', topic: 'news', recipients: subscribers };
      expect((await project.call('POST', '/broadcasts', topic)).status).toBe(201);
      await expect.poll(() => titles(stream.frames)).toEqual(['One', 'Two']);
      const id = await startRun(project, [{ command: 'broadcast', input: { title: 'Three', recipients } }]);
      expect((await ended(project, id)).status.state).toBe(STATE.completed);
      await expect.poll(() => titles(stream.frames)).toEqual(['One', 'Two', 'Three']);
      expect((await processed(project.call, sent.body.id)).status.summary.failures).toBe(0);
    });

    test('leave no settings and no listeners on connections that other programs share', async () => {
      const clients = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const client = new pg.Client({ ...pooler.connection, database: database.connection.database });
          await client.connect();
          await client.query('begin'); // so that each has another connection
          return client;
        }),
      );
      const settings = await Promise.all(
        clients.map(async (client) => {
          const { rows } = await client.query(
            `select current_setting('synchronous_commit') as commit,
              current_setting('enable_seqscan') as scan, current_setting('statement_timeout') as timeout,
              (select count(*)::int from pg_listening_channels()) as channels,
              (
                select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
              ) as locks`,
          );
          await client.query('commit');
          await client.end();
          return rows[0];
        }),
      );
      const expected = { commit: 'on', scan: 'off', timeout: '30s', channels: 0, locks: 0 };
      expect(settings).toEqual(settings.map(() => expected));
    });

    test('lose nothing when pgbouncer restarts, and when the database ends every connection', async () => {
      const running = load(one.project, { clients: 4 });
      await running.accepted(20);
      await pooler.restart();
      await running.accepted(40);
      await direct(
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
      );
      await running.accepted(60);
      await running.stop();
      await expectExactlyOnce(one, running);
      await two.context.bus.listening();
    });
  });

  const problemsOf = async (settings: Record<string, string>) => {
    const { db, findings } = await checkDatabase(configOf(settings));
    await db?.close();
    return findings
      .filter(({ status }) => status === 'problem')
      .map(({ message, advice }) => `${message}: ${advice}`);
  };
  const configOf = (settings: Record<string, string>) =>
    readConfig({ DATA_DIR: dataDir, PORT: '0', ...settings });
  /** The message with which a start and doctor refuse these settings. */
  async function expectRefusal(settings: Record<string, string>, expected: RegExp): Promise<void> {
    const started = open(configOf(settings), { role: 'server', log });
    await expect(started).rejects.toThrow(expected);
    expect((await problemsOf(settings)).join('\n')).toMatch(expected);
  }

  test('doctor finds no problem', async () => {
    expect(await problemsOf(database.settings)).toEqual([]);
  });

  test('a start without the direct address is refused', async () => {
    const { DATABASE_URL = '' } = database.settings;
    await expectRefusal(
      { DATABASE_URL },
      /unsupported startup parameter.*set DATABASE_DIRECT_URL to the address of the same database without it/,
    );
  });

  test('a start without it is also refused if pgbouncer ignores the options of connections', async () => {
    const lax = await startPgbouncer(inject('testServer'), {
      ignore_startup_parameters:
        'options, enable_seqscan, synchronous_commit, statement_timeout, idle_in_transaction_session_timeout',
    });
    onTestFinished(() => lax.stop());
    const other = await databaseBehind(lax);
    onTestFinished(() => other.drop());
    const { DATABASE_URL = '' } = other.settings;
    await expectRefusal({ DATABASE_URL }, /a NOTIFY .* does not arrive .*: set DATABASE_DIRECT_URL/s);
  });

  test('a direct address of another database is refused', async () => {
    const other = await databaseBehind(pooler);
    onTestFinished(() => other.drop());
    const config = configOf({ ...database.settings, DATABASE_DIRECT_URL: other.url });
    await expect(open(config, { role: 'server', log })).rejects.toThrow(
      /a NOTIFY .* does not arrive .*: set DATABASE_DIRECT_URL to the address of the same database/s,
    );
  });

  test('a pgbouncer that loses prepared statements is refused', async () => {
    const strict = await startPgbouncer(inject('testServer'), { max_prepared_statements: '0' });
    onTestFinished(() => strict.stop());
    const other = await databaseBehind(strict);
    onTestFinished(() => other.drop());
    await expectRefusal(other.settings, /prepared statement .*: .*set max_prepared_statements/);
  });

  test('an asynchronous database is refused, because nothing can override it', async () => {
    const other = await databaseBehind(pooler);
    onTestFinished(() => other.drop());
    await direct(`alter database ${other.connection.database} set synchronous_commit = off`);
    const started = open(configOf(other.settings), { role: 'server', log });
    await expect(started).rejects.toThrow(/^synchronous_commit is off: .* alter role .*= on$/);
  });
});

test('DATABASE_DIRECT_URL without DATABASE_URL is refused', async () => {
  const config = readConfig({ DATA_DIR: tmpdir(), DATABASE_DIRECT_URL: 'postgres://x@127.0.0.1:1/x' });
  await expect(open(config, { role: 'server', log })).rejects.toThrow('set DATABASE_URL as well');
});

import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ConnectionSettings, inSchema, sql } from '../../src/db/client.ts';
import { createPartitions, dropPartitions } from '../../src/db/partitions.ts';
import { firstIdAt } from '../../src/lib/ids.ts';
import { allStatements } from '../support/all-statements.ts';
import { contextIn } from '../support/cells.ts';
import { CITUS, type CitusServer, workersOf } from '../support/citus.ts';
import { runCommand } from '../support/cli.ts';
import { expectExactlyOnce, load } from '../support/faults.ts';
import { openStream, titles } from '../support/realtime.ts';
import { rounds } from '../support/rounds.ts';
import {
  projectWith,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';
import { withClient } from '../support/with-client.ts';

// Cells on the workers of a real Citus: `npm run proof:citus -- <url of the coordinator>`.

const MONTH_MS = 31 * 24 * 60 * 60 * 1000;
const WATCH_EVERY_MS = 100;
const CRASHES = rounds(3, 30);

describe.skipIf(CITUS === undefined)('a cell on Citus', () => {
  let service: TestService;
  let project: TestProject;
  let receiver: WebhookReceiver;
  let database: ConnectionSettings;
  let settings: Record<string, string>;

  beforeAll(async () => {
    service = await startTestService();
    receiver = await startWebhookReceiver();
    const { DATA_DIR, DATABASE_URL = '', SECRET_KEY = '' } = service.context.config;
    settings = { DATA_DIR, DATABASE_URL, ...(SECRET_KEY && { SECRET_KEY: `${SECRET_KEY}` }) };
    database = { ...CITUS, database: new URL(DATABASE_URL).pathname.slice(1) };
    await command('cell', 'add', 'eu', '--distribute');
    await until(
      () => service.contexts().length,
      (cells) => cells === 2,
    );
    project = await createIn('eu');
    await project.call('PUT', '/webhooks', { url: receiver.url, event_types: ['broadcast.created'] });
  });
  afterAll(async () => {
    await service?.stop();
    await receiver?.stop();
  });

  /** Runs a command on the database of the service. Returns what it prints as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
  async function command(...args: string[]): Promise<any> {
    const { code, out, err } = await runCommand([...args, '--json'], settings);
    const faults = err.replaceAll(/^.*( so far|copies \d+ changes| moves from .*)$\n?/gm, '');
    expect({ code, err: faults }).toEqual({ code: 0, err: '' });
    return JSON.parse(out);
  }

  async function createIn(cell: string): Promise<TestProject> {
    const made = await command('project', 'create', `p ${randomUUID()}`, '--cell', cell);
    return projectWith(() => service.address, {
      id: made.project_id,
      apiKey: made.api_key,
      apiSecret: made.api_secret,
      jwt: made.project_jwt,
    });
  }

  const eu = () => contextIn(service, 'eu');
  const workerOf = async (cell: string): Promise<string> =>
    (await command('cell', 'list')).find((one: { cell: string }) => one.cell === cell).worker;
  const named = ({ host, port }: CitusServer) => `${host}:${port}`;

  /** Moves the cell to another worker, as a rebalancing does. Resolves with its name. */
  async function moveToAnotherWorker(): Promise<string> {
    const now = await workerOf('eu');
    const other = (await workersOf(database)).find((one) => named(one) !== now);
    if (other === undefined) throw new Error('Citus has only one worker');
    await moveTo(other, eu().place.schema);
    return named(other);
  }

  async function moveTo({ host, port }: CitusServer, schema: string | undefined): Promise<void> {
    await withClient(database, (client) =>
      client.query('select citus_schema_move($1::text::regnamespace, $2::text, $3::int)', [
        schema,
        host,
        port,
      ]),
    );
  }

  /** Kills a process of the worker of the cell: then PostgreSQL ends all of them, and recovers. */
  async function crashWorker(): Promise<void> {
    const name = await workerOf('eu');
    const worker = (await workersOf(database)).find((one) => named(one) === name);
    const client = new pg.Client({ ...database, ...worker });
    client.on('error', () => {});
    await client.connect();
    await client.query("copy (select 1) to program 'kill -9 $PPID'").catch(() => {});
    await client.end().catch(() => {});
  }

  /** Sends notifications to a user whose stream is open, until it is stopped; then expects all of them. */
  async function watch(): Promise<{ stop(): Promise<void> }> {
    const user = `watcher ${randomUUID()}`;
    const jwt = project.userJwt({ user_external_id: user });
    const stream = await openStream(`${service.address}/v2/notifications/stream`, { jwt });
    const accepted: string[] = [];
    const sending: Promise<void>[] = [];
    const send = async (title: string) => {
      const { status } = await project.call('POST', '/broadcasts', {
        title,
        recipients: [{ external_id: user }],
      });
      if (status === 201) accepted.push(title);
    };
    const timer = setInterval(() => sending.push(send(`${sending.length}`)), WATCH_EVERY_MS);
    return {
      async stop() {
        clearInterval(timer);
        await Promise.all(sending);
        await until(
          () => titles(stream.frames).length,
          (count) => count >= accepted.length,
        );
        expect(titles(stream.frames).sort()).toEqual(accepted.sort());
        stream.source.close();
      },
    };
  }

  /** Expects that the webhook of the project has got each event of its type. */
  async function expectAllRelayed(): Promise<void> {
    const [created] = await eu().db.query<{ count: number }>(
      sql('', "select coalesce(sum(size), 0)::int as count from events where type = 'broadcast.created'"),
    );
    await until(
      () => new Set(receiver.received.map(({ id }) => id)).size,
      (count) => count === created?.count,
      { everyMs: 100 },
    );
  }

  test('is on one worker, which the list shows', async () => {
    expect((await workersOf(database)).map(named)).toContain(await workerOf('eu'));
    expect(await workerOf('public')).toBeNull();
  });

  test('runs every statement', async () => {
    await withClient(inSchema(database, eu().place.schema ?? ''), async (client) => {
      const found: string[] = [];
      for (const [name, text] of await allStatements()) {
        if (/^\s*(savepoint|release|rollback)/.test(text)) continue; // of transactions
        await client.query('begin').then(async () => {
          const problem = await problemOf(client, text).finally(() => client.query('rollback'));
          if (problem !== undefined) found.push(`${name}: ${problem}`);
        });
      }
      expect(found).toEqual([]);
    });
  });

  test('moves to another worker under load: nothing fails, is lost or repeated', async () => {
    const watching = await watch();
    const running = load(project, { clients: 2 });
    await running.accepted(100);
    const worker = await moveToAnotherWorker();
    expect(await workerOf('eu')).toBe(worker);
    await running.accepted(running.responses.length + 100);
    await running.stop();
    await watching.stop();
    expect(running.responses.filter(({ status }) => status !== 201)).toEqual([]);
    await expectExactlyOnce({ context: eu() }, running);
    await expectAllRelayed();
  });

  test('survives crashes of its worker under load: nothing accepted is lost or repeated', {
    timeout: 300_000 + CRASHES * 20_000,
  }, async () => {
    const running = load(project, { clients: 2 });
    for (let crash = 1; crash <= CRASHES; crash += 1) {
      await running.accepted(crash * 60);
      await crashWorker();
    }
    await running.accepted(running.responses.length + 60);
    await running.stop();
    const last = await workerOf('eu');
    const statuses = new Set(running.responses.map(({ status }) => status));
    expect([...statuses].filter((status) => status !== 201 && status !== 503)).toEqual([]);
    // Citus commits what was prepared before a crash, or rolls it back, once a minute. Until then, a
    // broadcast that was accepted is not visible.
    const worker = (await workersOf(database)).find((one) => named(one) === last);
    await withClient({ ...database, ...worker }, (client) =>
      until(
        async () =>
          (await client.query('select from pg_prepared_xacts where database = current_database()')).rowCount,
        (prepared) => prepared === 0,
        { withinMs: 150_000, everyMs: 500 },
      ),
    );
    await until(
      () => eu().db.query(sql('', 'select from jobs limit 1')),
      (jobs) => jobs.length === 0,
      { everyMs: 100 },
    );
    await expectExactlyOnce({ context: eu() }, running);
    await expectAllRelayed();
  });

  test('receives a project of another cell, and lets none out', async () => {
    const moving = await createIn('public');
    const running = load(moving, { clients: 2 });
    await running.accepted(50);
    await command('project', 'move', moving.id, '--to', 'eu');
    await running.accepted(running.responses.length + 50);
    await running.stop();
    expect(running.responses.filter(({ status }) => status !== 201)).toEqual([]);
    await expectExactlyOnce({ context: eu() }, running);
    const { code, err } = await runCommand(['project', 'move', moving.id, '--to', 'public'], settings);
    expect([code, err]).toEqual([1, expect.stringContaining('is on a worker of Citus')]);
  });

  test('is moved by a rebalancing if its worker has too many cells', async () => {
    const names = ['one', 'two', 'three', 'four'];
    for (const name of names) await command('cell', 'add', name, '--distribute');
    const target = await workerOf('eu');
    const worker = (await workersOf(database)).find((one) => named(one) === target);
    for (const name of names)
      if (worker !== undefined && (await workerOf(name)) !== target) await moveTo(worker, `belfry_${name}`);
    const { moved } = await command('cell', 'rebalance');
    expect(moved.length).toBeGreaterThan(0);
    for (const { cell, from, to } of moved) {
      expect(from).toBe(target);
      expect(await workerOf(cell)).toBe(to);
    }
    expect((await command('cell', 'rebalance')).moved).toEqual([]);
  });

  test('creates and drops its partitions', async () => {
    const names = async () =>
      (
        await eu().db.query<{ name: string }>(
          sql(
            '',
            "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass",
          ),
        )
      ).map(({ name }) => name);
    const before = await names();
    const later = Date.now() + 4 * MONTH_MS;
    await createPartitions(eu().db, 'events', later);
    const made = (await names()).filter((name) => !before.includes(name));
    expect(made.length).toBeGreaterThanOrEqual(4);
    await dropPartitions(eu().db, 'events', firstIdAt(later + MONTH_MS));
    expect(await names()).not.toContain(made[0]);
  });
});

const ID = '01a21d2e-eb18-7000-8a4e-050dea229275';
// For each type a value that any statement can be planned and executed with; some then reject it.
const VALUES: Readonly<Record<string, string>> = {
  uuid: ID,
  boolean: 't',
  bytea: '\\x00',
  json: '{}',
  jsonb: '{}',
  'timestamp with time zone': '2026-01-01T00:00:00Z',
  inet: '127.0.0.1',
  interval: '1 s',
  text: 'x',
  '"char"': 'x',
};
// What Citus says about a statement that it does not support. Other errors are about the values.
const UNSUPPORTED = ['0A000', '42601', '42725', '42883', '42P18', 'XX000', 'XX001'];

/** Runs a statement. Returns what the server does not support in it. */
async function problemOf(client: pg.Client, text: string): Promise<string | undefined> {
  try {
    await client.query(`prepare one as ${text}`);
    const { rows } = await client.query<{ types: string[] }>(
      "select parameter_types::text[] as types from pg_prepared_statements where name = 'one'",
    );
    await client.query('deallocate one');
    const values = rows[0]?.types.map((type) => {
      const one = VALUES[type.replace('[]', '')] ?? '1';
      return type.endsWith('[]') ? `{${JSON.stringify(one)}}` : one;
    });
    await client.query(text, values);
    return undefined;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return UNSUPPORTED.includes(code ?? '') && !/constraint/.test(message) ? message : undefined;
  }
}

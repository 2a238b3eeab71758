import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { type BelfryProcess, signalTree, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type HttpStandIn, startHttpStandIn, type VendorReply } from '../support/http-stand-in.ts';
import { rowsOf } from '../support/rows.ts';
import { processed, projectWith, until } from '../support/service.ts';

// One of two nodes is stopped for longer than its lease, and the other takes over. Then the first continues.

const KINDS = ['call_workflow', 'deliver', 'send_webhook'];
const SECRET_KEY = randomBytes(32).toString('hex');

/** A request that waits for its response. */
interface Held {
  path: string;
  resolve(reply: VendorReply): void;
}

let folder: string;
let database: TestDatabase;
let db: Database;
let host: HttpStandIn;
const held: Held[] = [];
const nodes: BelfryProcess[] = [];

// Each test has a database and nodes of its own.
beforeEach(async () => {
  held.length = 0;
  folder = await mkdtemp(join(tmpdir(), 'belfry-stopped-node-'));
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'test' });
  host = await startHttpStandIn(
    ({ url = '' }) => new Promise((resolve) => void held.push({ path: url, resolve })),
  );
});
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.killTree();
  await host?.stop();
  await db?.close();
  await database?.drop();
  await rm(folder, { recursive: true, force: true });
});

async function start(name: string): Promise<BelfryProcess> {
  const settings = { DATABASE_URL: database.url, SECRET_KEY, PROVIDER_TWILIO_BASE_URL: host.address };
  const node = await startBelfry(join(folder, name), settings);
  nodes.push(node);
  return node;
}

interface LeasedJob {
  id: number;
  kind: string;
  lease_id: string;
}

const leased = () =>
  rowsOf<LeasedJob>(db, 'select id, kind, lease_id from jobs where lease_id is not null order by kind');

/** Waits until so many requests are at the host, and jobs of all kinds are held, none under these leases. */
async function atWork(requests: number, before: readonly LeasedJob[] = []): Promise<LeasedJob[]> {
  const leases = new Set(before.map((job) => job.lease_id));
  return until(
    leased,
    (jobs) =>
      held.length === requests &&
      jobs.every(({ lease_id }) => !leases.has(lease_id)) &&
      String(jobs.map(({ kind }) => kind)) === String(KINDS),
  );
}

/** Stops the node between its transactions: the locks of one would stop the other node as well. */
async function stopIdle(node: BelfryProcess): Promise<void> {
  for (;;) {
    signalTree(node, 'SIGSTOP');
    const open = await until(
      () =>
        rowsOf<{ state: string }>(
          db,
          `select state from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`,
        ),
      (all) => all.every(({ state }) => state !== 'active'),
    );
    if (open.length === 0) return;
    signalTree(node, 'SIGCONT');
  }
}

/** Accepts requests, text messages under this id. */
function accept(requests: readonly Held[], sid: string): void {
  for (const { path, resolve } of requests)
    resolve(
      path.endsWith('/Messages.json') ? { status: 201, body: { sid, status: 'queued' } } : { status: 200 },
    );
}

function callerOf(node: BelfryProcess) {
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = node.credentials;
  return projectWith(() => node.address, { id, apiKey, apiSecret, jwt }).call;
}

// The first node waits for the responses of other hosts. It gets them, and continues while the second waits.
test.runIf(process.platform === 'linux')(
  'a node that was stopped overwrites nothing when it continues',
  async () => {
    const first = await start('first');
    const call = callerOf(first);
    const twilio = { account_sid: 'AC1', api_key: 'SK1', api_secret: 'secret', from: '+14155550100' };
    const webhook = { url: `${host.address}/hook`, event_types: ['broadcast.created'] };
    const steps = [
      { command: 'http', input: { url: `${host.address}/run` } },
      { command: 'broadcast', input: { title: 'after' } },
    ];
    const setUp = [
      await call('PUT', '/integrations/twilio', twilio),
      await call('PUT', '/workflows', { key: 'flow', steps }),
      await call('PUT', '/webhooks', webhook),
    ];
    expect(setUp.map(({ messages }) => messages)).toEqual([[], [], []]);
    const recipients = [{ external_id: 'ada', phone_numbers: ['+14155551000'] }];
    expect((await call('POST', '/broadcasts', { title: 'text', recipients })).status).toBe(201);
    const run = { key: 'flow', input: { user: { external_id: 'bob' } } };
    expect((await call('POST', '/workflows/runs', run)).messages).toEqual([]);

    const ofFirst = await atWork(3);
    await stopIdle(first);
    accept(held.slice(0, 3), `SM${'1'.repeat(32)}`);
    await start('second');
    const ofSecond = await atWork(6, ofFirst);
    expect(ofSecond.map((job) => job.id)).toEqual(ofFirst.map((job) => job.id));

    signalTree(first, 'SIGCONT');
    first.signal('SIGTERM');
    expect(await first.ended).toBe(0);
    expect(held).toHaveLength(6);
    expect(await leased()).toEqual(ofSecond);
    // The response that the first received is a fact, and recorded.
    const deliveries = () =>
      rowsOf(db, "select state, attempts, provider_id from deliveries where channel = 'sms'");
    const outcomes = await deliveries();
    expect(outcomes).toMatchObject([{ state: 'sent', provider_id: `SM${'1'.repeat(32)}` }]);

    accept(held.slice(3), `SM${'2'.repeat(32)}`);
    // The message about the broadcast of the workflow. The queue may be empty before its job exists.
    await until(
      () => held.length,
      (requests) => requests > 6,
    );
    accept(held.slice(6), '');
    await until(
      () => rowsOf(db, "select kind, due_at from jobs where kind <> 'poll_receipts'"),
      ({ length }) => length === 0,
    );
    expect(await deliveries()).toEqual(outcomes);
    expect(held.slice(6).map(({ path }) => path)).toEqual(['/hook']);
    expect(await rowsOf(db, 'select state from workflow_runs')).toEqual([{ state: 3 }]);
    expect(await rowsOf(db, 'select status, pending from broadcasts order by id')).toMatchObject([
      { status: 'processed', pending: 0 },
      { status: 'processed', pending: 0 },
    ]);
    expect(await rowsOf(db, 'select state from webhook_messages')).toHaveLength(2);
  },
);

/** Waits until a connection waits for a lock of this one. */
async function someoneWaitsFor(holder: pg.Client): Promise<void> {
  const { rows: own } = await holder.query('select pg_backend_pid() as pid');
  await until(
    () => rowsOf(db, 'select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))', [own[0].pid]),
    (waiting) => waiting.length > 0,
  );
}

test.runIf(process.platform === 'linux')(
  'a node that was stopped in the middle of a transaction holds the other up for seconds only',
  async ({ onTestFinished: undo }) => {
    const first = await start('first');
    const [beforeInsert, beforeEnd] = [await db.connect(), await db.connect()];
    undo(() => Promise.all([beforeInsert.end(), beforeEnd.end()]).then(() => {}));
    const users = (name: string) =>
      Array.from({ length: 100 }, (_, index) => ({ external_id: `${name}-${index}` }));

    // Its fan-out has deleted the job when it is stopped, and has not committed.
    await beforeInsert.query('begin; lock table notifications in exclusive mode');
    const { body: cut } = await callerOf(first)('POST', '/broadcasts', {
      title: 'cut',
      recipients: users('a'),
    });
    await someoneWaitsFor(beforeInsert);
    await beforeEnd.query("begin; select from jobs where kind = 'fan_out' for update");
    await beforeInsert.query('rollback');
    await someoneWaitsFor(beforeEnd);
    signalTree(first, 'SIGSTOP');
    await beforeEnd.query('rollback');
    await until(
      () =>
        rowsOf(
          db,
          `select from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`,
        ),
      (open) => open.length > 0,
    );

    const second = await start('second');
    const call = callerOf(second);
    const { body: other } = await call('POST', '/broadcasts', { title: 'other', recipients: users('b') });
    await processed(call, other.id);
    await processed(call, cut.id);
    signalTree(first, 'SIGCONT');
    first.signal('SIGTERM');
    expect(await first.ended).toBe(0);
    expect(
      await rowsOf(db, 'select broadcast_id as id, count(*) from notifications group by 1 order by 1'),
    ).toEqual([
      { id: cut.id, count: 100 },
      { id: other.id, count: 100 },
    ]);
  },
);

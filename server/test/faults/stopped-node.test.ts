import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { type BelfryProcess, descendants, kill, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { type HttpStandIn, startHttpStandIn, type VendorReply } from '../support/http-stand-in.ts';
import { projectWith, until } from '../support/service.ts';

// One of two nodes is stopped while other hosts have its requests, for longer than its lease. The other node
// takes over. The first continues, with the responses to its own requests, while the other still waits.

const KINDS = ['call_workflow', 'deliver', 'send_webhook'];
const WITHIN_MS = 30_000;
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

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-stopped-node-'));
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'test' });
  host = await startHttpStandIn(
    ({ url = '' }) => new Promise((resolve) => void held.push({ path: url, resolve })),
  );
});
afterAll(async () => {
  for (const node of nodes) await node.killTree();
  await host?.stop();
  await db?.close();
  await database?.drop();
  await rm(folder, { recursive: true, force: true });
});

const rows = <Row>(text: string, values: unknown[] = []) => db.query<Row>(sql('', text), values);

async function start(name: string): Promise<BelfryProcess> {
  const settings = { DATABASE_URL: database.url, SECRET_KEY, PROVIDER_TWILIO_BASE_URL: host.address };
  const node = await startBelfry(join(folder, name), settings);
  nodes.push(node);
  return node;
}

function signalTo(node: BelfryProcess, signal: 'SIGSTOP' | 'SIGCONT'): void {
  for (const pid of node.tree().flatMap(descendants)) kill(pid, signal);
}

interface LeasedJob {
  id: number;
  kind: string;
  lease_id: string;
}

const leased = () =>
  rows<LeasedJob>('select id, kind, lease_id from jobs where lease_id is not null order by kind');

/** Waits until so many requests are at the host, and jobs of all kinds are held, none under these leases. */
async function atWork(requests: number, before: readonly LeasedJob[] = []): Promise<LeasedJob[]> {
  const leases = new Set(before.map((job) => job.lease_id));
  return until(
    leased,
    (jobs) =>
      held.length === requests &&
      jobs.every(({ lease_id }) => !leases.has(lease_id)) &&
      String(jobs.map(({ kind }) => kind)) === String(KINDS),
    { withinMs: WITHIN_MS },
  );
}

/** Stops the node between its transactions: the locks of one would stop the other node as well. */
async function stopIdle(node: BelfryProcess): Promise<void> {
  for (;;) {
    signalTo(node, 'SIGSTOP');
    const open = await until(
      () =>
        rows<{ state: string }>(
          `select state from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`,
        ),
      (all) => all.every(({ state }) => state !== 'active'),
    );
    if (open.length === 0) return;
    signalTo(node, 'SIGCONT');
  }
}

/** Accepts requests, text messages under this id. */
function accept(requests: readonly Held[], sid: string): void {
  for (const { path, resolve } of requests)
    resolve(
      path.endsWith('/Messages.json') ? { status: 201, body: { sid, status: 'queued' } } : { status: 200 },
    );
}

test.runIf(process.platform === 'linux')(
  'a node that was stopped overwrites nothing when it continues',
  { timeout: 240_000 },
  async () => {
    const first = await start('first');
    const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = first.credentials;
    const { call } = projectWith(() => first.address, { id, apiKey, apiSecret, jwt });
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

    signalTo(first, 'SIGCONT');
    first.signal('SIGTERM');
    expect(await first.ended).toBe(0);
    expect(held).toHaveLength(6);
    expect(await leased()).toEqual(ofSecond);
    // The response that the first received is a fact, and recorded.
    const deliveries = () =>
      rows("select state, attempts, provider_id from deliveries where channel = 'sms'");
    const outcomes = await deliveries();
    expect(outcomes).toMatchObject([{ state: 'sent', provider_id: `SM${'1'.repeat(32)}` }]);

    accept(held.slice(3), `SM${'2'.repeat(32)}`);
    // The message about the broadcast of the workflow. The queue may be empty before its job exists.
    await until(
      () => held.length,
      (requests) => requests > 6,
      { withinMs: WITHIN_MS },
    );
    accept(held.slice(6), '');
    await until(
      () => rows("select kind, due_at from jobs where kind <> 'poll_receipts'"),
      ({ length }) => length === 0,
      { withinMs: WITHIN_MS },
    );
    expect(await deliveries()).toEqual(outcomes);
    expect(held.slice(6).map(({ path }) => path)).toEqual(['/hook']);
    expect(await rows('select state from workflow_runs')).toEqual([{ state: 3 }]);
    expect(await rows('select status, pending from broadcasts order by id')).toMatchObject([
      { status: 'processed', pending: 0 },
      { status: 'processed', pending: 0 },
    ]);
    expect(await rows('select state from webhook_messages')).toHaveLength(2);
  },
);

import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { parseMigration } from '../../src/db/migrations.ts';
import { newestSchema } from '../../src/db/schema.ts';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { expectExactlyOnce, load } from '../support/faults.ts';
import { type LoadBalancer, startLoadBalancer } from '../support/load-balancer.ts';
import { copyWithMigrations } from '../support/next-release.ts';
import { openStream, type StreamClient, titles } from '../support/realtime.ts';
import { type Caller, projectWith, until } from '../support/service.ts';

// This release and the next one, which has two more migrations, take turns on one database. Clients use them
// through a load balancer, and repeat a request whose connection broke.

const newest = newestSchema();
const fileOf = (version: number, name: string) => `${String(version).padStart(4, '0')}_${name}.sql`;
const NEXT = [
  parseMigration(
    fileOf(newest + 1, 'expand'),
    [
      `-- oldest program: ${newest}`,
      'alter table broadcasts add column flavour text;',
      "alter table users add column flavour text not null default 'plain';",
      'alter table jobs add column flavour text;',
      'alter table notifications add column flavour text;',
      '',
    ].join('\n'),
  ),
  parseMigration(
    fileOf(newest + 2, 'index'),
    [
      `-- oldest program: ${newest}`,
      '-- no transaction',
      'create index concurrently if not exists notifications_by_flavour on notifications (flavour);',
      '',
    ].join('\n'),
  ),
];
// Between two steps of the update.
const ACCEPTED = 20;
// The pause of a client after a request.
const PAUSE_MS = 30;
// A stream resumes without a resync after at most 128 notifications in 45 s.
const ANNOUNCE_EVERY_MS = 500;

let folder: string;
let database: TestDatabase;
let db: Database;
let balancer: LoadBalancer;
let stream: StreamClient | undefined;
const nodes: BelfryProcess[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-rolling-update-'));
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 2, name: 'test' });
  balancer = await startLoadBalancer();
});
afterAll(async () => {
  stream?.source.close();
  for (const node of nodes) await node.killTree();
  await balancer.close();
  await db.close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

const SECRET_KEY = randomBytes(32).toString('hex');

async function start(name: string, launcher?: string): Promise<BelfryProcess> {
  const settings = { DATABASE_URL: database.url, SECRET_KEY };
  const node = await startBelfry(join(folder, name), settings, launcher);
  nodes.push(node);
  return node;
}

const portOf = ({ address }: BelfryProcess) => Number(new URL(address).port);

async function stop(node: BelfryProcess): Promise<void> {
  node.signal('SIGTERM');
  expect(await node.ended).toBe(0);
}

const isReady = async ({ address }: BelfryProcess) => (await fetch(`${address}/readyz`)).status;

/** Repeats a request whose connection broke, with the same idempotency key. */
function persistent(call: Caller): Caller {
  return async (method, path, body) => {
    const headers = { 'idempotency-key': randomUUID() };
    for (let attempt = 1; ; attempt += 1) {
      await delay(PAUSE_MS);
      try {
        return await call(method, path, body, headers);
      } catch (error) {
        if (attempt === 10) throw error;
      }
    }
  };
}

const waitingFor = sql(
  '',
  `select from pg_stat_activity
  where query like '%add column flavour%' and $1 = any (pg_blocking_pids(pid))`,
);

/** Repeats some work until it is stopped. */
function repeatedly(pauseMs: number, work: () => Promise<unknown>): { stop(): Promise<void> } {
  let stopped = false;
  const running = (async () => {
    for (; !stopped; await delay(pauseMs)) await work();
  })();
  return {
    async stop() {
      stopped = true;
      await running;
    },
  };
}

test('the next release takes over and hands back, without a failed request', async () => {
  const nextRoot = copyWithMigrations(join(folder, 'next'), NEXT);
  const current = await start('current');
  balancer.targets = [portOf(current)];
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = current.credentials;
  const project = projectWith(() => balancer.address, { id, apiKey, apiSecret, jwt });
  const call = persistent(project.call);
  const userJwt = project.userJwt({ user_external_id: 'listener' });
  stream = await openStream(`${balancer.address}/v2/notifications/stream`, { jwt: userJwt });
  const running = load({ call }, { clients: 2 });
  const listed: number[] = [];
  const list = persistent(project.as('known-0'));
  const reads = repeatedly(PAUSE_MS, async () => {
    listed.push((await list('GET', '/notifications?limit=20')).status);
  });
  const announced: string[] = [];
  const announcements = repeatedly(ANNOUNCE_EVERY_MS, async () => {
    const title = `announcement ${announced.length}`;
    announced.push(title);
    const recipients = [{ external_id: 'listener' }];
    expect((await call('POST', '/broadcasts', { title, recipients })).status).toBe(201);
  });
  const progress = () => running.accepted(running.responses.length + ACCEPTED);
  await progress();

  const holder = new pg.Client({ ...database.connection, application_name: 'report' });
  await holder.connect();
  await holder.query('begin; select from notifications limit 1');
  const starting = start('next', join(nextRoot, 'bin/belfry.mjs'));
  const { rows } = await holder.query<{ pid: number }>('select pg_backend_pid() as pid');
  await until(
    () => db.query(waitingFor, [rows[0]?.pid]),
    (waiting) => waiting.length > 0,
  );
  await progress();
  await holder.end();
  const next = await starting;
  expect([await isReady(current), await isReady(next)]).toEqual([200, 200]);
  await progress();
  balancer.targets = [portOf(next), portOf(current)];
  await progress();
  await stop(current);
  await progress();

  const former = await start('current');
  expect(await isReady(former)).toBe(200);
  balancer.targets = [portOf(former), portOf(next)];
  await stop(next);
  await progress();

  await Promise.all([running.stop(), reads.stop(), announcements.stop()]);
  expect(running.responses.filter(({ status }) => status !== 201)).toEqual([]);
  expect(listed.filter((status) => status !== 200)).toEqual([]);
  await expectExactlyOnce({ context: { db } }, running);
  await expect.poll(() => titles(stream?.frames ?? []).sort()).toEqual(announced.toSorted());
  expect(stream.resyncs).toBe(0);
});

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { mkdtemp, open, rm, symlink, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import { checkDataDir } from '../../src/cli/doctor/data-dir.ts';
import { type Database, sql } from '../../src/db/client.ts';
import { diskProblemOfStopped } from '../../src/db/embedded/disk.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { descendants, kill, postmasterOf } from '../support/belfry-process.ts';
import { createDatabaseOn, urlOf } from '../support/database.ts';
import { expectExactlyOnce, type Load, load, saveSmtp } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

// A database that does not respond is noticed within 5 s. The rest is for a busy machine.
const RESPONSE_WITHIN_MS = 15_000;
const NOTICED_WITHIN_MS = 5_000;

const undo: (() => Promise<unknown>)[] = [];
afterEach(() => undone(undo));

async function undone(steps: typeof undo): Promise<void> {
  for (const step of steps.splice(0).reverse()) await step();
}

/** A service with its own PostgreSQL, which tests may break, and a mail server. */
async function startEmbeddedService(
  dataDir?: string,
  clock: Clock = systemClock,
): Promise<TestService & { dataDir: string }> {
  const dir = dataDir ?? (await mkdtemp(join(tmpdir(), 'belfry-fault-')));
  if (dataDir === undefined) undo.push(() => rm(dir, { recursive: true, force: true }));
  const service = await startTestService({ settings: { DATA_DIR: dir, DATABASE_URL: '' }, clock });
  undo.push(() => service.stop());
  const smtp = await startSmtpStandIn();
  undo.push(() => smtp.stop());
  await saveSmtp(service.project, smtp);
  return Object.assign(service, { dataDir: dir });
}

/** Every accepted broadcast is stored, rejections are 503 with Retry-After, and no response takes long. */
function expectCleanResponses({ responses }: Load): void {
  const others = responses.filter(({ status }) => status !== 201 && status !== 503);
  expect(others).toEqual([]);
  for (const response of responses.filter(({ status }) => status === 503)) {
    expect(Number(response.retryAfter)).toBeGreaterThanOrEqual(1);
    expect(response.code).toBe('service_unavailable');
  }
  expect(Math.max(...responses.map(({ ms }) => ms))).toBeLessThan(RESPONSE_WITHIN_MS);
}

function report(what: string, { responses }: Load): void {
  const refused = responses.filter(({ status }) => status === 503);
  const slowest = Math.max(...responses.map(({ ms }) => ms));
  console.log(
    `${what}: ${responses.length - refused.length} accepted, ` +
      `${refused.length} refused, slowest response ${Math.round(slowest)} ms`,
  );
}

const hurts = {
  'is killed': async (postmaster: number) => kill(postmaster, 'SIGKILL'),
  'is killed with all its processes': async (postmaster: number) => {
    for (const pid of descendants(postmaster)) kill(pid, 'SIGKILL');
  },
  'is shut down': async (postmaster: number) => kill(postmaster, 'SIGINT'),
  'is shut down at once': async (postmaster: number) => kill(postmaster, 'SIGQUIT'),
  'crashes in one of its processes': async (postmaster: number) => {
    const [, ...children] = descendants(postmaster);
    kill(children.at(-1) ?? postmaster, 'SIGKILL');
  },
  'hangs for a while': async (postmaster: number) => {
    const all = descendants(postmaster);
    for (const pid of all) kill(pid, 'SIGSTOP');
    await delay(NOTICED_WITHIN_MS + 1_500); // longer than any client waits
    for (const pid of all) kill(pid, 'SIGCONT');
  },
};

describe.runIf(process.platform === 'linux')('a broken PostgreSQL', () => {
  let service: TestService & { dataDir: string };
  const undoAll: typeof undo = [];
  const clock = { offMs: 0, now: () => Date.now() + clock.offMs };
  beforeAll(async () => {
    service = await startEmbeddedService(undefined, clock);
    undoAll.push(...undo.splice(0));
  });
  afterAll(() => undone(undoAll));

  test.each(Object.entries(hurts))(
    'when it %s under load, requests are rejected with 503 and the service recovers',
    async (what, hurt) => {
      const running = load(service.project, { clients: 8 });
      await running.accepted(20);
      await hurt(postmasterOf(service.dataDir));
      // Until the database is back, and a little longer.
      await until(
        () => service.project.call('GET', '/broadcasts?limit=1').catch(() => ({ status: 0 })),
        ({ status }) => status === 200,
      );
      const before = running.responses.filter(({ status }) => status === 201).length;
      await running.accepted(before + 20);
      await running.stop();
      report(what, running);
      expectCleanResponses(running);
      await expectExactlyOnce(service, running);
      await service.context.bus.listening();
    },
  );

  test('requests to a hanging database are rejected soon, reads too', async () => {
    const { call } = service.project;
    await processed(call, (await call('POST', '/broadcasts', { title: 'x', recipients: null })).body.id);
    const all = descendants(postmasterOf(service.dataDir));
    for (const pid of all) kill(pid, 'SIGSTOP');
    undo.push(async () => {
      for (const pid of all) kill(pid, 'SIGCONT');
    });
    const first = performance.now();
    expect((await call('GET', '/broadcasts')).status).toBe(503);
    expect(performance.now() - first).toBeLessThan(RESPONSE_WITHIN_MS);
    const second = performance.now();
    const responses = await Promise.all([
      call('GET', '/broadcasts'),
      call('POST', '/broadcasts', { title: 'y', recipients: null }),
      service.project.as('someone new')('GET', '/notifications'),
    ]);
    expect(responses.map(({ status }) => status)).toEqual([503, 503, 503]);
    // None of them waits until it is noticed.
    expect(performance.now() - second).toBeLessThan(NOTICED_WITHIN_MS);
    // Long enough for the cached caller to expire. A rejection that no code awaited once ended the process
    // here.
    clock.offMs = 60_000;
    expect((await call('GET', '/broadcasts')).status).toBe(503);
    clock.offMs = 0;
    for (const pid of all) kill(pid, 'SIGCONT');
    await until(
      () => call('GET', '/broadcasts'),
      ({ status }) => status === 200,
    );
  });
});

const seed = newSeed();
test(`connections that break at random moments lose and double nothing (FAULT_SEED=${seed})`, async () => {
  const service = await startTestService();
  undo.push(() => service.stop());
  const smtp = await startSmtpStandIn();
  undo.push(() => smtp.stop());
  await saveSmtp(service.project, smtp);
  const random = randomFrom(seed);
  const running = load(service.project, { clients: 4 });
  const surgeon = await service.context.db.connect();
  undo.push(() => surgeon.end());
  let cut = 0;
  for (let round = 0; round < 60; round += 1) {
    await delay(random() * 60);
    const name = random() < 0.7 ? 'belfry worker (%)' : 'belfry api (%)';
    const { rows } = await surgeon.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name like $1 and pid <> pg_backend_pid()
          and (state <> 'idle' or random() < 0.3)`,
      [name],
    );
    cut += rows.length;
  }
  await running.stop();
  report(`${cut} connections cut`, running);
  expect(cut).toBeGreaterThan(20);
  expectCleanResponses(running);
  await expectExactlyOnce(service, running);
});

// The next five tests mostly wait. They run concurrently, each with its own service.

test.concurrent('a slow statement is awaited, because the database responds to others', async ({
  onTestFinished,
}) => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  // Longer than the limit for silence.
  const statement = sql('', `select 1 as done from pg_sleep(${NOTICED_WITHIN_MS / 1_000 + 1})`);
  expect(await service.context.db.query<{ done: number }>(statement)).toEqual([{ done: 1 }]);
});

test.concurrent('jobs whose claim got no response are released by a worker that does not know them', async ({
  onTestFinished,
}) => {
  const service = await startTestService({ pollMs: 100 });
  onTestFinished(() => service.stop());
  const { db } = service.context;
  const { body } = await service.project.call('POST', '/broadcasts', { title: 'x', recipients: null });
  await processed(service.project.call, body.id);
  // The state after a connection breaks between the commit of a claim and its response.
  await db.query(sql('', "update broadcasts set status = 'enqueued'"));
  await db.query(
    sql(
      '',
      `insert into jobs (kind, project_id, attempt, lease_id, payload)
      select 'fan_out', $1, 1, leases.id, json_build_object('broadcast_id', $2::uuid) from leases`,
    ),
    [service.project.id, body.id],
  );
  await processed(service.project.call, body.id);
});

test.concurrent('jobs claimed under a lease that ended meanwhile are done, even after a restart', async ({
  onTestFinished,
}) => {
  const service = await startTestService({ pollMs: 100 });
  onTestFinished(() => service.stop());
  const orphan = async () => {
    const { body } = await service.project.call('POST', '/broadcasts', { title: 'x', recipients: null });
    await processed(service.project.call, body.id);
    const { db } = service.context;
    await db.query(sql('', "update broadcasts set status = 'enqueued'"));
    await db.query(
      sql(
        '',
        `insert into jobs (kind, project_id, attempt, lease_id, payload)
        values ('fan_out', $1, 1, gen_random_uuid(), json_build_object('broadcast_id', $2::uuid))`,
      ),
      [service.project.id, body.id],
    );
    return body.id as string;
  };
  await processed(service.project.call, await orphan());
  const id = await orphan();
  await service.restart();
  await processed(service.project.call, id);
});

test.concurrent('a read-only database rejects requests with 503, and the service recovers', async ({
  onTestFinished,
}) => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const running = load(service.project, { clients: 4 });
  await running.accepted(10);
  const admin = await service.context.db.connect();
  onTestFinished(() => admin.end());
  const { rows } = await admin.query('select current_database() as name');
  const readOnly = async (on: boolean) => {
    await admin.query('set default_transaction_read_only = off; set transaction_read_only = off');
    await admin.query(`alter database ${rows[0].name} set default_transaction_read_only = ${on}`);
    // The setting applies to new connections.
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
          and pid <> pg_backend_pid()`,
    );
  };
  await readOnly(true);
  await running.refused(10);
  expect(await readiness(service)).toEqual({
    status: 503,
    reason: expect.stringMatching(/read-only/),
  });
  expect((await service.project.call('GET', '/broadcasts')).status).toBe(200);
  await readOnly(false);
  await running.accepted(running.responses.filter(({ status }) => status === 201).length + 10);
  await running.stop();
  report('read-only', running);
  await until(
    () => readiness(service),
    ({ status }) => status === 200,
  );
  expectCleanResponses(running);
  await expectExactlyOnce(service, running);
});

test.concurrent('without a connection, requests are rejected with 503, and the service recovers', async ({
  onTestFinished,
}) => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const { call } = service.project;
  const [{ name } = { name: '' }] = await service.rows<{ name: string }>('select current_database() as name');
  const admin = new pg.Client({ ...inject('testServer'), database: 'postgres' });
  await admin.connect();
  onTestFinished(() => admin.end());
  await admin.query(`alter database ${name} allow_connections false`);
  await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
    name,
  ]);
  expect((await call('GET', '/broadcasts')).codes).toEqual(['service_unavailable']);
  await admin.query(`alter database ${name} allow_connections true`);
  await until(
    () => call('GET', '/broadcasts'),
    ({ status }) => status === 200,
  );
});

test.concurrent('a limit of connections that is reached is named, and the service recovers', async ({
  onTestFinished,
}) => {
  const user = `few_${randomUUID().replaceAll('-', '')}`;
  const admin = new pg.Client({ ...inject('testServer'), database: 'postgres' });
  await admin.connect();
  await admin.query(`create role ${user} login`);
  const database = await createDatabaseOn(inject('testServer'));
  await admin.query(`alter database ${database.connection.database} owner to ${user}`);
  const DATABASE_URL = urlOf({ ...database.connection, user });
  const service = await startTestService({ settings: { DATABASE_URL } });
  onTestFinished(async () => {
    await service.stop();
    await database.drop();
    await admin.query(`drop role ${user}`);
    await admin.end();
  });
  const { call } = service.project;
  await admin.query(`alter role ${user} connection limit 0`);
  await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [
    user,
  ]);
  // A connection that was ended may still be in a pool.
  await until(
    () => call('GET', '/broadcasts'),
    ({ status, messages: [message] }) =>
      status === 503 &&
      message === 'The database of the service accepts no more connections; try again later',
  );
  await until(
    () => readiness(service),
    ({ status, reason }) => status === 503 && reason === 'the database accepts no more connections',
  );
  await admin.query(`alter role ${user} connection limit -1`);
  await until(
    () => call('GET', '/broadcasts'),
    ({ status }) => status === 200,
  );
});

const canMount = process.platform === 'linux' && process.getuid?.() === 0 && mountWorks();

test.runIf(canMount)(
  'a full disk rejects requests with 503, loses nothing accepted, and the service recovers',
  async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'belfry-disk-'));
    undo.push(() => rm(dataDir, { recursive: true, force: true }));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=250m,mode=755', 'belfry-test', dataDir]);
    undo.push(async () => execFileSync('umount', ['-l', dataDir]));
    const service = await startEmbeddedService(dataDir);
    const running = load(service.project, { clients: 4, content: 'x'.repeat(1_000) });
    await running.accepted(20);
    const ballast = join(dataDir, 'ballast');
    await fill(ballast);
    // Existing WAL segments are used up first; a large statement needs new ones.
    const grow = growing(service.context.db);
    await running.refused(5);
    expect(await readiness(service)).toEqual({ status: 503, reason: expect.stringContaining('is full') });
    await grow.stop();
    await unlink(ballast);
    await until(
      () => service.project.call('GET', '/broadcasts?limit=1').catch(() => ({ status: 0 })),
      ({ status }) => status === 200,
    );
    await running.accepted(running.responses.filter(({ status }) => status === 201).length + 10);
    await running.stop();
    report('disk full', running);
    await until(
      () => readiness(service),
      ({ status }) => status === 200,
    );
    expectCleanResponses(running);
    await expectExactlyOnce(service, running);
  },
);

test.runIf(canMount)(
  'a full disk of the write-ahead log alone is named while the database is down',
  async () => {
    const [dataDir, disk] = [
      await mkdtemp(join(tmpdir(), 'belfry-disk-')),
      await mkdtemp(join(tmpdir(), 'belfry-log-')),
    ];
    for (const dir of [dataDir, disk]) undo.push(() => rm(dir, { recursive: true, force: true }));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=120m,mode=755', 'belfry-test', disk]);
    undo.push(async () => execFileSync('umount', ['-l', disk]));
    const { stop } = await startTestService({ settings: { DATA_DIR: dataDir, DATABASE_URL: '' } });
    await stop();
    const log = join(dataDir, 'postgres', 'data', 'pg_wal');
    execFileSync('cp', ['-a', log, join(disk, 'log')]);
    await rm(log, { recursive: true });
    await symlink(join(disk, 'log'), log);
    const service = await startEmbeddedService(dataDir);
    const disks = () =>
      checkDataDir(dataDir, { hasDatabase: true }).filter(({ message }) => message.includes('write-ahead'));
    expect(disks()).toMatchObject([{ check: 'disk', status: 'ok' }]);

    const ballast = join(disk, 'ballast');
    await fill(ballast);
    const grow = growing(service.context.db);
    await until(
      () => service.project.call('GET', '/broadcasts'),
      ({ status, messages }) =>
        status === 503 &&
        messages[0] === 'The database of the service cannot write: its disk is full. Try again later',
    );
    await grow.stop();
    expect(await readiness(service)).toEqual({
      status: 503,
      reason: expect.stringMatching(
        /^the database cannot write: its disk is full$|^the disk of the database's write-ahead log is full/,
      ),
    });
    expect(await diskProblemOfStopped(dataDir)).toMatch(/write-ahead log is full \(0 MiB free\)$/);
    expect(disks()).toMatchObject([{ check: 'disk', status: 'problem' }]);
    await unlink(ballast);
    await until(
      () => readiness(service),
      ({ status }) => status === 200,
    );
  },
);

/** The response of /readyz, which a load balancer reads. */
async function readiness({ address }: TestService): Promise<{ status: number; reason: string }> {
  const response = await fetch(`${address}/readyz`);
  const { reason } = (await response.json()) as { reason: string };
  return { status: response.status, reason };
}

/** Writes into the database until it is stopped, whether writes succeed or not. */
function growing(db: Database): { stop: () => Promise<void> } {
  let stopped = false;
  const table = sql('', 'create table if not exists growth (text text)');
  const grow = sql(
    '',
    'insert into growth select repeat(md5(random()::text), 50) from generate_series(1, 2000)',
  );
  const work = (async () => {
    while (!stopped) {
      await db.query(table).catch(() => {});
      await db.query(grow).catch(() => delay(20));
    }
  })();
  return {
    async stop() {
      stopped = true;
      await work;
    },
  };
}

/** Writes a file until nothing more fits. */
async function fill(path: string): Promise<void> {
  const file = await open(path, 'w');
  const block = Buffer.alloc(1024 * 1024);
  try {
    for (;;) await file.write(block);
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' });
  } finally {
    await file.close();
  }
}

function mountWorks(): boolean {
  const dir = join(tmpdir(), `belfry-mount-${process.pid}`);
  mkdirSync(dir, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'belfry-test', dir], { stdio: 'ignore' });
    execFileSync('umount', [dir], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

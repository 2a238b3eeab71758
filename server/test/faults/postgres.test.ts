import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { mkdtemp, open, rm, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Database, sql } from '../../src/db/client.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { descendants, kill, postmasterOf } from '../support/belfry-process.ts';
import { expectExactlyOnce, type Load, load, saveSmtp } from '../support/faults.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { processed, startTestService, type TestService, until } from '../support/service.ts';
import { startSmtpStandIn } from '../support/smtp-stand-in.ts';

// A database that answers nothing is noticed within 5 s; the rest is for a machine with more to do than this.
const ANSWERED_WITHIN_MS = 8_000;
const NOTICED_WITHIN_MS = 5_000;

const undo: (() => Promise<unknown>)[] = [];
afterEach(() => undone(undo));

async function undone(steps: typeof undo): Promise<void> {
  for (const step of steps.splice(0).reverse()) await step();
}

/** A service with a PostgreSQL of its own that may be hurt, and a mail server. */
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

/** Only what was stored was promised, refusals are 503 with a time to come back, and no answer takes long. */
function expectCleanAnswers({ answers }: Load): void {
  const others = answers.filter(({ status }) => status !== 201 && status !== 503);
  expect(others).toEqual([]);
  for (const answer of answers.filter(({ status }) => status === 503)) {
    expect(Number(answer.retryAfter)).toBeGreaterThanOrEqual(1);
    expect(answer.code).toBe('service_unavailable');
  }
  expect(Math.max(...answers.map(({ ms }) => ms))).toBeLessThan(ANSWERED_WITHIN_MS);
}

function report(what: string, { answers }: Load): void {
  const refused = answers.filter(({ status }) => status === 503);
  const slowest = Math.max(...answers.map(({ ms }) => ms));
  console.log(
    `${what}: ${answers.length - refused.length} accepted, ${refused.length} refused, slowest answer ${Math.round(slowest)} ms`,
  );
}

const hurts = {
  'is killed': async (postmaster: number) => kill(postmaster, 'SIGKILL'),
  'is killed with all its processes': async (postmaster: number) => {
    for (const pid of descendants(postmaster)) kill(pid, 'SIGKILL');
  },
  'is shut down': async (postmaster: number) => kill(postmaster, 'SIGINT'),
  'crashes in one of its processes': async (postmaster: number) => {
    const [, ...children] = descendants(postmaster);
    kill(children.at(-1) ?? postmaster, 'SIGKILL');
  },
  'hangs for a while': async (postmaster: number) => {
    const all = descendants(postmaster);
    for (const pid of all) kill(pid, 'SIGSTOP');
    await delay(NOTICED_WITHIN_MS + 1_500); // longer than anybody waits
    for (const pid of all) kill(pid, 'SIGCONT');
  },
};

describe.runIf(process.platform === 'linux')('a PostgreSQL that is hurt', () => {
  let service: TestService & { dataDir: string };
  const undoAll: typeof undo = [];
  const clock = { offMs: 0, now: () => Date.now() + clock.offMs };
  beforeAll(async () => {
    service = await startEmbeddedService(undefined, clock);
    undoAll.push(...undo.splice(0));
  });
  afterAll(() => undone(undoAll));

  test.each(Object.entries(hurts))(
    'when it %s under load, requests are refused with 503 and all goes on by itself',
    {
      timeout: 60_000,
    },
    async (what, hurt) => {
      const running = load(service.project, { clients: 8 });
      await running.accepted(20);
      await hurt(postmasterOf(service.dataDir));
      // Until the database is back, and then some more.
      await until(
        () => service.project.call('GET', '/broadcasts?limit=1').catch(() => ({ status: 0 })),
        ({ status }) => status === 200,
        { withinMs: 20_000 },
      );
      const before = running.answers.filter(({ status }) => status === 201).length;
      await running.accepted(before + 20);
      await running.stop();
      report(what, running);
      expectCleanAnswers(running);
      await expectExactlyOnce(service, running);
      await service.context.bus.listening();
    },
  );

  test('requests that find it hanging are refused at once, reads too', { timeout: 60_000 }, async () => {
    const { call } = service.project;
    await processed(call, (await call('POST', '/broadcasts', { title: 'x', recipients: null })).body.id);
    const all = descendants(postmasterOf(service.dataDir));
    for (const pid of all) kill(pid, 'SIGSTOP');
    undo.push(async () => {
      for (const pid of all) kill(pid, 'SIGCONT');
    });
    const first = performance.now();
    expect((await call('GET', '/broadcasts')).status).toBe(503);
    expect(performance.now() - first).toBeLessThan(ANSWERED_WITHIN_MS);
    const second = performance.now();
    const answers = await Promise.all([
      call('GET', '/broadcasts'),
      call('POST', '/broadcasts', { title: 'y', recipients: null }),
      service.project.as('someone new')('GET', '/notifications'),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(performance.now() - second).toBeLessThan(1_000);
    // So long that no cache knows the caller any more. That once ended the process: nobody waited for what
    // failed then.
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
test(`connections cut at random moments lose nothing and double nothing (FAULT_SEED=${seed})`, {
  timeout: 60_000,
}, async () => {
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
    const name = random() < 0.7 ? 'belfry worker' : 'belfry api';
    const { rows } = await surgeon.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = $1 and pid <> pg_backend_pid()
          and (state <> 'idle' or random() < 0.3)`,
      [name],
    );
    cut += rows.length;
  }
  await running.stop();
  report(`${cut} connections cut`, running);
  expect(cut).toBeGreaterThan(20);
  expectCleanAnswers(running);
  await expectExactlyOnce(service, running);
});

// The next four wait most of the time. Each starts a service of its own, all at once.
const SIDE_BY_SIDE = { timeout: 60_000 };

test.concurrent(
  'a statement that takes its time is waited for, because the database answers others',
  SIDE_BY_SIDE,
  async ({ onTestFinished }) => {
    const service = await startTestService();
    onTestFinished(() => service.stop());
    // Longer than silence is borne.
    const statement = sql('', `select 1 as done from pg_sleep(${NOTICED_WITHIN_MS / 1_000 + 1})`);
    expect(await service.context.db.query<{ done: number }>(statement)).toEqual([{ done: 1 }]);
  },
);

test.concurrent(
  'jobs whose claim went unanswered are not held for ever by a worker that does not know of them',
  SIDE_BY_SIDE,
  async ({ onTestFinished }) => {
    const service = await startTestService({ pollMs: 100 });
    onTestFinished(() => service.stop());
    const { db } = service.context;
    const { body } = await service.project.call('POST', '/broadcasts', { title: 'x', recipients: null });
    await processed(service.project.call, body.id);
    // As the claim leaves them whose connection breaks after its commit.
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
  },
);

test.concurrent(
  'jobs that were claimed under a lease which was given up meanwhile are done, with and without a restart',
  SIDE_BY_SIDE,
  async ({ onTestFinished }) => {
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
  },
);

test.concurrent(
  'while the database is read-only requests are refused with 503, and all goes on afterwards',
  SIDE_BY_SIDE,
  async ({ onTestFinished }) => {
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
      // It counts for new connections.
      await admin.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
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
    await running.accepted(running.answers.filter(({ status }) => status === 201).length + 10);
    await running.stop();
    report('read-only', running);
    await until(
      () => readiness(service),
      ({ status }) => status === 200,
    );
    expectCleanAnswers(running);
    await expectExactlyOnce(service, running);
  },
);

const canMount = process.platform === 'linux' && process.getuid?.() === 0 && mountWorks();

test.runIf(canMount)(
  'when the disk is full requests are refused with 503; nothing accepted is lost, and all goes on when there is room',
  { timeout: 90_000 },
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
    // WAL segments that are there are used up first; a large statement needs new ones.
    const grow = growing(service.context.db);
    await running.refused(5, 60_000);
    expect(await readiness(service)).toEqual({ status: 503, reason: expect.stringContaining('is full') });
    await grow.stop();
    await unlink(ballast);
    await until(
      () => service.project.call('GET', '/broadcasts?limit=1').catch(() => ({ status: 0 })),
      ({ status }) => status === 200,
      { withinMs: 30_000 },
    );
    await running.accepted(running.answers.filter(({ status }) => status === 201).length + 10, 30_000);
    await running.stop();
    report('disk full', running);
    await until(
      () => readiness(service),
      ({ status }) => status === 200,
    );
    expectCleanAnswers(running);
    await expectExactlyOnce(service, running);
  },
);

/** What a load balancer that asks whether to send requests here is told. */
async function readiness({ address }: TestService): Promise<{ status: number; reason: string }> {
  const response = await fetch(`${address}/readyz`);
  const { reason } = (await response.json()) as { reason: string };
  return { status: response.status, reason };
}

/** Writes into the database until it is told to stop, whether it succeeds or not. */
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

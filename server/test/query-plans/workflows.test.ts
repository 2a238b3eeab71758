import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { uuidArray } from '../../src/db/arrays.ts';
import { type Database, openDatabase } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { createBus, type NodeBus } from '../../src/domain/ground/bus/bus.ts';
import { Identities } from '../../src/domain/ground/identities/identities.ts';
import { getWorkflow, listWorkflows, workflowVersions } from '../../src/domain/workflows/definitions/get.ts';
import { saveWorkflow } from '../../src/domain/workflows/definitions/save.ts';
import { continueWaiting } from '../../src/domain/workflows/engine/continue-waiting.ts';
import { closeDigest, closeDigests, joinDigests } from '../../src/domain/workflows/engine/digests.ts';
import { type LoadedRun, loadRuns } from '../../src/domain/workflows/engine/load.ts';
import { loadStarts } from '../../src/domain/workflows/engine/load-starts.ts';
import { recordTurns } from '../../src/domain/workflows/engine/record.ts';
import { passThrottles } from '../../src/domain/workflows/engine/throttles.ts';
import { cancelRun } from '../../src/domain/workflows/runs/change.ts';
import { deleteDigests } from '../../src/domain/workflows/runs/digests.ts';
import { getRun, listRuns, runsOfUser } from '../../src/domain/workflows/runs/get.ts';
import { newRun, startRuns } from '../../src/domain/workflows/runs/start.ts';
import { scheduleHandler } from '../../src/domain/workflows/schedules/start-due.ts';
import { readEvents } from '../../src/domain/workflows/triggers/event-reader.ts';
import { startTriggered } from '../../src/domain/workflows/triggers/start-triggered.ts';
import { NEWEST, OLDEST } from '../../src/lib/cursor.ts';
import { createEgressGuard } from '../../src/lib/egress.ts';
import { newId } from '../../src/lib/ids.ts';
import { createLogger } from '../../src/lib/log.ts';
import { packJson } from '../../src/lib/packed-json.ts';
import { createSealer } from '../../src/lib/seal.ts';
import type { Job } from '../../src/queue/jobs.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { readsOf } from '../support/reads-of.ts';
import { rowsOf } from '../support/rows.ts';

// What workflows read. The plans are generic, first those made while the tables were empty, then those made
// when they were full.

const egress = createEgressGuard();
const RUNS = 30_000;
const IN_TURN = 256;
const WAITING = 10_000;
const EVENTS = 500;
const WORKFLOWS = 50;
const STARTS = 40;
// Beyond those that the database gives out.
const FIRST_JOB = 1_000_000_000;
const LEASE = newId();
const STARTED_MS = Date.UTC(2026, 0, 1);
const VERSIONS = 300;
const [projectId, other, user] = [newId(), newId(), newId()];
const runs = Array.from({ length: RUNS }, () => newId());
const middle = runs[RUNS / 2] ?? '';
const clock = { now: Date.now };
const steps = [
  { command: 'pause' },
  { command: 'set', input: { a: '{{ steps[0].state }} {{ user.email }}' } },
];

let database: TestDatabase;
let db: Database;
let bus: NodeBus;

/** A database whose transactions are part of the one that is rolled back. */
const joined = (): Database => ({ ...db, transaction: (work) => work(db) });
const jobs = runs.slice(-IN_TURN).map(
  (id): Job<'run_workflow'> => ({
    id: 1,
    kind: 'run_workflow',
    projectId,
    partitionKey: projectId,
    priority: 0,
    weight: 1,
    attempt: 1,
    cutOffs: 0,
    payload: { run_id: id, turn: 3 },
  }),
);
/** The runs of the batch, each at a step that depends on others, after their digests were opened. */
const sharing = async (): Promise<Map<string, LoadedRun>> => {
  const loaded = await loadRuns(db, jobs);
  for (const one of loaded.values()) {
    const [first] = one.program.steps;
    if (first !== undefined) one.program = { ...one.program, steps: [{ ...first, command: 'digest' }] };
    one.stage = 2;
  }
  return loaded;
};
const collecting = (run: LoadedRun) => {
  const request = { kind: 'collect', key: run.id, windowMs: -1, maxWindowMs: -1 } as const;
  return { run, place: '0', request };
};
const throttled = (run: LoadedRun) => {
  const request = { kind: 'throttle', key: run.id, limit: 1, windowMs: 60_000 } as const;
  return { run, place: '0', request };
};
const startJobs = Array.from(
  { length: STARTS },
  (_, at): Job<'start_workflow'> => ({
    id: FIRST_JOB + at + 1,
    kind: 'start_workflow',
    projectId,
    partitionKey: projectId,
    priority: 0,
    weight: 1,
    attempt: 1,
    cutOffs: 0,
    payload: { workflow_key: `flow-${at + 1}`, place: 0, at_ms: STARTED_MS },
  }),
);
const page = (id: string) => ({ direction: 'older', id, limit: 51 }) as const;

/** What an operation reads at most. */
const READS: [string, () => Promise<unknown>, number][] = [
  ['a workflow', () => getWorkflow(db, projectId, 'flow-1'), 4],
  ['the list of workflows', () => listWorkflows(db, projectId), 3 * WORKFLOWS],
  ['the versions', () => workflowVersions.list(db, projectId, 'flow-1'), VERSIONS],
  ['a version', () => workflowVersions.get(db, projectId, 'flow-1', 7), 1],
  [
    'saving',
    () =>
      saveWorkflow({ db: joined(), clock, egress }, projectId, {
        key: 'flow-1',
        steps: [...steps, ...steps],
      }),
    110,
  ],
  ['a page of runs', () => listRuns(db, projectId, { key: 'flow-1' }, page(NEWEST)), 51],
  ['a later page of runs', () => listRuns(db, projectId, { key: 'flow-1' }, page(middle)), 51],
  [
    'a page of runs in a rare state',
    () => listRuns(db, projectId, { key: 'flow-1', state: 5 }, page(NEWEST)),
    51,
  ],
  ['a run', () => getRun(db, projectId, middle), 2],
  ['runs of a user', () => runsOfUser(db, user, { after: OLDEST, limit: 100 }), 300],
  ['cancelling', () => cancelRun({ db: joined(), clock }, projectId, runs.at(-2) ?? ''), 4],
  [
    'starting a thousand runs',
    () =>
      startRuns(
        { db: joined(), clock, bus, identities: new Identities(bus) },
        projectId,
        'flow-1',
        Array.from({ length: 1_000 }, () => ({})),
      ),
    1,
  ],
  ['an event of a user for whom 2 of 10,000 runs wait', () => arrive('paid', user), 20],
  ['an event of a user for whom one without a user waits', () => arrive('paid', newId()), 10],
  ['an event without a user', () => arrive('paid', null), 9 * WAITING],
  ['an event that no run waits for', () => arrive('sent', null), 1],
  ['the events of a page that workflows need', () => readEvents(context(), projectId), 5 * EVENTS + 1_500],
  ['the triggers of an event', () => startByEvent('signed_up', user), 150],
  ['the causes of an event', () => startByEvent('looped', null), 20],
  ['loading a batch of turns', () => loadRuns(db, jobs), 3 * IN_TURN + 2],
  [
    'recording them',
    async () => {
      const loaded = await loadRuns(db, jobs);
      const turns = [...loaded.values()].map((one) => ({
        run: one,
        place: '1',
        stage: 0 as const,
        steps: [],
        data: one.data,
        broadcastId: null,
        broadcast: null,
        added: 0,
        actedSteps: undefined,
        prepared: null,
        next: { kind: 'continue' } as const,
      }));
      await recordTurns(db, { jobs: [], turns, nowMs: Date.now(), accept: async () => {} });
    },
    5 * IN_TURN + 2,
  ],
  [
    'loading the first turns of runs',
    async () => {
      const input = { user: { id: user } };
      const starts = Array.from({ length: IN_TURN }, () => newRun(projectId, 'flow-1', input));
      await loadStarts({ db: joined(), identities: new Identities(bus), clock, bus }, starts);
    },
    4 * IN_TURN,
  ],
  [
    'digests',
    async () => {
      const loaded = await sharing();
      const steps = [...loaded.values()].map(collecting);
      await joinDigests(db, steps, Date.now());
      await joinDigests(
        db,
        steps.map((step) => ({ ...step, run: { ...step.run, id: newId() } })),
        Date.now(),
      );
      await closeDigests(db, loaded, Date.now());
      await closeDigest(db, jobs[0]?.payload.run_id ?? '');
      await deleteDigests(db, [...loaded.keys()]);
    },
    12 * IN_TURN,
  ],
  [
    'throttles',
    async () => {
      const steps = [...(await sharing()).values()].map(throttled);
      await passThrottles(db, steps, Date.now());
      await passThrottles(db, steps, Date.now());
    },
    8 * IN_TURN,
  ],
  [
    'schedules that are due',
    () => {
      const context = { db: joined(), clock, bus, identities: new Identities(bus) };
      return scheduleHandler(context).run(startJobs, LEASE, () => {});
    },
    12 * STARTS,
  ],
  [
    'deleting runs that have ended',
    () =>
      purgeExpired(
        {
          db: joined(),
          clock,
          sealer: createSealer([Buffer.alloc(32)]),
          config: { EVENTS_RETENTION_DAYS: 30, NOTIFICATIONS_RETENTION_DAYS: 0 },
        },
        new AbortController().signal,
      ),
    1_000,
  ],
];

const arrive = (name: string, userId: string | null) =>
  continueWaiting(db, projectId, [{ name, userId, broadcastId: null, xact: null, value: { name } }], {
    nowMs: Date.now(),
  });

const context = () => ({ db: joined(), clock, bus, identities: new Identities(bus) });
const startByEvent = (name: string, userId: string | null) => {
  const value = { context: { run_id: middle } };
  return startTriggered(db, context(), projectId, [
    { name, userId, broadcastId: newId(), xact: null, value },
  ]);
};

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'workflow plans', isDistributed: false });
  bus = createBus({ db, log: createLogger({ level: 'silent' }), nodeId: newId(), shared: false });
  await rowsOf(db, 'set plan_cache_mode = force_generic_plan');
  for (const [, work] of READS) await readsOf(db, () => work().catch(() => undefined));
  await fill();
});
afterAll(async () => {
  await bus.close();
  await db.close();
  await database.drop();
});

async function fill(): Promise<void> {
  const packed = packJson(JSON.stringify(steps));
  for (const owner of [projectId, other]) {
    await rowsOf(
      db,
      `insert into workflows (project_id, key, version, disabled, size, created_at, updated_at)
      select $1, 'flow-' || n, 1, false, 100, now(), now() from generate_series(1, ${WORKFLOWS}) n`,
      [owner],
    );
    await rowsOf(
      db,
      `insert into workflow_versions (project_id, key, version, steps, created_at)
      select $1, 'flow-' || n, version, $2, now()
      from generate_series(1, ${WORKFLOWS}) n,
        generate_series(1, case when n = 1 then ${VERSIONS} else 1 end) version`,
      [owner, packed],
    );
  }
  await rowsOf(
    db,
    `insert into workflow_schedules (
      project_id, workflow_key, place, schedule, time_zone, skip_missed, input, next_at
    )
    select case when n < 10 then $1::uuid else $2::uuid end, 'flow-' || k, n % 10, '@daily', 'UTC', false, $3,
      case when n = 0 then $4::timestamptz else now() end
    from generate_series(1, ${WORKFLOWS}) k, generate_series(0, 19) n`,
    [projectId, other, packJson('{}'), new Date(STARTED_MS)],
  );
  await rowsOf(
    db,
    `insert into jobs (id, kind, project_id, priority, weight, payload, lease_id)
    overriding system value
    select ${FIRST_JOB} + n, 'start_workflow', $1, 0, 1, '{}', $2 from generate_series(1, ${STARTS}) n`,
    [projectId, LEASE],
  );
  // A third is of another project. A hundred have ended long ago, and as many have failed.
  await rowsOf(
    db,
    `insert into workflow_runs (
      id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
      created_at, completed_at
    )
    select id, case when n % 3 = 0 and n % 500 > 0 then $2::uuid else $1::uuid end, 'flow-' || 1 + n % 2, 1,
      case when n % 300 = 0 then $3::uuid end, case when n % 500 = 0 then 5 when n > $5 then 1 else 3 end,
      '0', 0, 3, now(), 2, $6, now(),
      case when n <= 100 then now() - interval '40 days' when n <= $5 then now() end
    from unnest($4::uuid[]) with ordinality as r (id, n)`,
    [projectId, other, user, uuidArray(runs), RUNS - 2 * IN_TURN, packJson('{}')],
  );
  await rowsOf(
    db,
    `insert into workflow_triggers (project_id, workflow_key, place, since, event)
    select project_id, key, n, '${OLDEST}',
      case when n = 1 then 'signed_up' when n = 2 then 'looped' else 'other' end
    from workflows, generate_series(1, 20) n
    where key = 'flow-1' or n > 2`,
  );
  await rowsOf(
    db,
    `insert into workflow_feeds (project_id, feed_xact, feed_id) values ($1, '0', $2), ($3, '0', $2)`,
    [projectId, OLDEST, other],
  );
  await rowsOf(
    db,
    `insert into events (project_id, id, type, user_ids)
    select case when n % 3 = 0 then $1::uuid else $2::uuid end,
      overlay(gen_random_uuid()::text placing $4 from 1)::uuid, 'user.created', array[$3]::uuid[]
    from generate_series(1, 10000) n`,
    [other, projectId, user, newId().slice(0, 13)], // of this month
  );
  await rowsOf(
    db,
    'insert into workflow_broadcasts select gen_random_uuid(), 1 from generate_series(1, 10000)',
  );
  await rowsOf(
    db,
    "update workflow_triggers set event = 'user.created' where place = 3 and workflow_key = 'flow-2'",
  );
  // Two of them are of the user, and one of no user.
  await rowsOf(
    db,
    `insert into workflow_runs (
      id, project_id, workflow_key, version, user_id, state, place, stage, turn, due_at, size, input,
      created_at, waits_for
    )
    select gen_random_uuid(), $1, 'waits', 1,
      case when n < 3 then $2::uuid when n > 3 then gen_random_uuid() end, 2, '0', 2, 3, now(), 2, $3, now(),
      'paid'
    from generate_series(1, ${WAITING}) n`,
    [projectId, user, packJson('{}')],
  );
  await rowsOf(
    db,
    `insert into workflow_versions (project_id, key, version, steps, created_at)
    values ($1, 'waits', 1, $2, now())`,
    [projectId, packed],
  );
  await rowsOf(
    db,
    `insert into workflow_run_steps (run_id, place, command, state, started_at)
    select id, '0', 'set', 'completed', now() from workflow_runs`,
  );
  await rowsOf(
    db,
    `insert into workflow_digests (run_id, key, open, closes_at, closes_by, count, size)
    select id, sha256(id::text::bytea), n % 3 = 0, now(), now(), 1, 2
    from unnest($1::uuid[]) with ordinality as r (id, n)
    where n <= $2`,
    [uuidArray(runs), RUNS - IN_TURN],
  );
  await rowsOf(
    db,
    `insert into workflow_digest_items (run_id, item_id, input)
    select run_id, run_id, $1 from workflow_digests`,
    [packJson('{}')],
  );
  await rowsOf(
    db,
    `insert into workflow_throttles (key, passed, expires_at)
    select key, '[]', now() + case when run_id = any ($1::uuid[]) then '0' else interval '1 hour' end
    from workflow_digests`,
    [uuidArray(runs.slice(0, 100))],
  );
}

describe.each([
  ['plans made while the tables were empty', undefined],
  ['plans made when the tables were full', 'analyze'],
])('with %s', (_when, prepare) => {
  beforeAll(async () => {
    if (prepare !== undefined) await rowsOf(db, prepare);
  });

  test.each(READS)('%s reads a bounded number of rows', async (what, work, most) => {
    const { scanned, rows } = await readsOf(db, work);
    expect({ what, scanned, rows: rows <= most ? most : rows }).toEqual({ what, scanned: [], rows: most });
  });
});

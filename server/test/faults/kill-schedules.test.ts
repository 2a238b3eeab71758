import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Statement, sql } from '../../src/db/client.ts';
import type { Opened } from '../../src/open.ts';
import { type BelfryProcess, startBelfry, withDatabaseOf } from '../support/belfry-process.ts';
import { newDataDir } from '../support/data-dir.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import { until } from '../support/service.ts';

// More rounds take longer.
const ROUNDS = rounds(2, 20);
// Several transactions of a worker, which starts at most 128 runs with each.
const WORKFLOWS = 1_000;
// Never due during the test, which makes its own times.
const YEARLY = '0 0 1 1 *';

const seed = newSeed();
const random = randomFrom(seed);
let dataDir = '';
let belfry: BelfryProcess | undefined;

beforeAll(async () => {
  dataDir = await newDataDir('kill-schedules');
});
afterAll(async () => {
  await belfry?.killTree();
  await rm(dataDir, { recursive: true, force: true });
});

const makeDue = sql(
  '',
  `with due as (
    update workflow_schedules set next_at = date_trunc('milliseconds', clock_timestamp())
    returning project_id, workflow_key, next_at
  )
  update jobs j
  set due_at = d.next_at,
    payload = jsonb_set(j.payload::jsonb, '{at_ms}', to_jsonb(extract(epoch from d.next_at) * 1000))::json
  from due d
  where j.kind = 'start_workflow'
    and j.project_id = d.project_id
    and j.payload ->> 'workflow_key' = d.workflow_key`,
);
const countRuns = sql('', 'select count(*)::int as count from workflow_runs');
// The next start of each schedule is due later.
const countDue = sql(
  '',
  'select count(*)::int as count from jobs where due_at is null or due_at <= clock_timestamp()',
);

const counter =
  ({ db }: Opened, counting: Statement) =>
  async (): Promise<number> =>
    (await db.query<{ count: number }>(counting))[0]?.count ?? 0;

/** Makes all schedules due at once. Returns how many started a run, as soon as it is at least this number. */
function startSome(least: number): Promise<number> {
  return withDatabaseOf(dataDir, async (opened) => {
    const runs = counter(opened, countRuns);
    const before = await runs();
    await opened.db.query(makeDue);
    const isEnough = (count: number) => count >= before + least;
    return (await until(runs, isEnough, { everyMs: 1 })) - before;
  });
}

/** Waits until nothing is due any more. Returns the number of runs. */
function settled(): Promise<number> {
  return withDatabaseOf(dataDir, async (opened) => {
    await until(counter(opened, countDue), (count) => count === 0, { everyMs: 100 });
    return counter(opened, countRuns)();
  });
}

test.runIf(process.platform === 'linux')(
  `schedules start each run once over ${ROUNDS} kills of every process (FAULT_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    belfry = await startBelfry(dataDir);
    const { call } = belfry;
    const steps = [{ command: 'broadcast', input: { title: '{{ input.name }}' } }];
    for (let at = 0; at < WORKFLOWS; at += 1) {
      const input = { name: `flow-${at}`, user: { external_id: `user-${at}` } };
      const { status } = await call('PUT', '/workflows', {
        key: `flow-${at}`,
        steps,
        triggers: [{ schedule: YEARLY, input }],
      });
      expect(status).toBe(200);
    }
    const started: number[] = [];
    for (let round = 1; round <= ROUNDS; round += 1) {
      const some = await startSome(Math.floor(random() * WORKFLOWS));
      await belfry.killTree();
      console.log(`seed ${seed}: ${some} of ${WORKFLOWS} started before the kill`);
      belfry = await startBelfry(dataDir);
      started.push(await settled());
    }
    expect(started).toEqual(started.map((_, index) => (index + 1) * WORKFLOWS));
    belfry.signal('SIGTERM');
    expect(await belfry.ended).toBe(0);

    const { runs, inboxes, planned } = await withDatabaseOf(dataDir, async ({ db }) => ({
      runs: await db.query(
        sql(
          '',
          `select distinct state, count(*)::int as count from workflow_runs group by workflow_key, state`,
        ),
      ),
      inboxes: await db.query(
        sql('', 'select distinct count(*)::int as count from notifications group by user_id'),
      ),
      planned: await db.query(
        sql(
          '',
          `select count(*)::int as count from workflow_schedules s
          join jobs j on j.kind = 'start_workflow'
            and j.project_id = s.project_id
            and j.payload ->> 'workflow_key' = s.workflow_key
            and j.due_at = s.next_at
          where s.next_at > now()`,
        ),
      ),
    }));
    expect(runs).toEqual([{ state: 3, count: ROUNDS }]);
    expect(inboxes).toEqual([{ count: ROUNDS }]);
    expect(planned).toEqual([{ count: WORKFLOWS }]);
  },
);

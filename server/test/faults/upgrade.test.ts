import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, openDatabase, sql } from '../../src/db/client.ts';
import { parseMigration } from '../../src/db/migrations.ts';
import { newestSchema } from '../../src/db/schema.ts';
import { type BelfryProcess, startBelfry } from '../support/belfry-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { copyWithMigrations } from '../support/next-release.ts';
import { projectWith, type TestProject, until } from '../support/service.ts';
import { STATE } from '../support/workflows.ts';

// Runs of this release wait while the next one, whose migrations change their tables, replaces it.

const newest = newestSchema();
const NEXT = [
  parseMigration(
    `${String(newest + 1).padStart(4, '0')}_expand.sql`,
    [
      `-- oldest program: ${newest}`,
      'alter table workflow_runs add column flavour text;',
      "alter table workflow_versions add column flavour text not null default 'plain';",
      'alter table workflow_digests add column flavour text;',
      'alter table jobs add column flavour text;',
      '',
    ].join('\n'),
  ),
];
const SECRET_KEY = randomBytes(32).toString('hex');
const DAYS_400_S = 400 * 86_400;

let folder: string;
let database: TestDatabase;
let db: Database;
let node: BelfryProcess | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-upgrade-'));
  database = await createTestDatabase();
  db = openDatabase(database.connection, { size: 1, name: 'test' });
});
afterAll(async () => {
  await node?.killTree();
  await db.close();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
});

/** Starts a release after the one before has ended. */
async function replaceBy(launcher?: string): Promise<TestProject> {
  if (node !== undefined) {
    node.signal('SIGTERM');
    expect(await node.ended).toBe(0);
  }
  const settings = { DATABASE_URL: database.url, SECRET_KEY };
  const started = await startBelfry(join(folder, 'data'), settings, launcher);
  node = started;
  const { project_id: id, api_key: apiKey, api_secret: apiSecret, project_jwt: jwt } = started.credentials;
  return projectWith(() => started.address, { id, apiKey, apiSecret, jwt });
}

/** Lets time pass for what is stored. */
async function pass(days: number): Promise<void> {
  await db.transaction(async (tx) => {
    const sooner = "- $1 * interval '1 day'";
    for (const change of [
      `jobs set due_at = due_at ${sooner} where kind = 'run_workflow'`,
      `workflow_runs set due_at = due_at ${sooner}`,
      `workflow_digests set closes_at = closes_at ${sooner}, closes_by = closes_by ${sooner}`,
    ])
      await tx.query(sql('', `update ${change}`), [days]);
  });
}

const WAITS = {
  wait: [{ command: 'wait', input: { duration: DAYS_400_S } }],
  wait_for: [
    { command: 'wait_for', input: { event: 'done', timeout: DAYS_400_S } },
    { command: 'abort', if: 'steps[0].output.timed_out != true' },
  ],
  digest: [{ command: 'digest', input: { window: DAYS_400_S } }],
};
const KEYS = Object.keys(WAITS) as (keyof typeof WAITS)[];

test('runs that wait for 400 days continue in the next release, and in this one again', async () => {
  const launcher = join(copyWithMigrations(join(folder, 'next'), NEXT), 'bin/belfry.mjs');
  let project = await replaceBy();
  const inputs = [1, 2].map((n) => ({ user: { external_id: 'ada' }, n }));
  const ids: string[] = [];
  for (const key of KEYS) {
    const title = `${key} {{ input.n }}`;
    const steps = [...WAITS[key], { command: 'broadcast', input: { title } }];
    expect((await project.call('PUT', '/workflows', { key, steps })).status).toBe(200);
    ids.push(...(await project.call('POST', '/workflows/runs/bulk', { key, inputs })).body.ids);
  }
  const states = async () =>
    Promise.all(
      ids.map(async (id) => (await project.call('GET', `/workflows/runs/${id}`)).body.status.state),
    );
  const reach = (wanted: readonly number[]) =>
    until(states, (found) => String(found) === String(wanted), { everyMs: 50 });
  const titles = async () =>
    (await project.as('ada')('GET', '/notifications')).body.data.map((one: { title: string }) => one.title);
  // The second run of the digest has joined the first.
  const waiting = [...Array.from({ length: 5 }, () => STATE.waiting), STATE.completed];
  await reach(waiting);

  project = await replaceBy(launcher);
  await pass(399);
  expect(await states()).toEqual(waiting);
  project = await replaceBy();
  expect(await states()).toEqual(waiting);
  project = await replaceBy(launcher);
  await pass(2);
  await reach(ids.map(() => STATE.completed));
  await expect
    .poll(async () => (await titles()).toSorted())
    .toEqual(['digest 1', 'wait 1', 'wait 2', 'wait_for 1', 'wait_for 2']);
});

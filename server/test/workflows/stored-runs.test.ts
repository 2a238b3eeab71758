import { afterAll, beforeAll, expect, test } from 'vitest';
import { GRACE_MS } from '../../src/domain/after/erasure/purge-users.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { ended, inState, runOf, STATE, startRun } from '../support/workflows.ts';

// What is stored of runs: exported with their user, and erased in time.

const DAY_MS = 24 * 3_600_000;
let service: TestService;

beforeAll(async () => {
  service = await startTestService({ settings: { EVENTS_RETENTION_DAYS: '90' }, pollMs: 50 });
});
afterAll(() => service?.stop());

const purgeAfter = (ms: number) =>
  purgeExpired({ ...service.context, clock: { now: () => Date.now() + ms } }, new AbortController().signal);
const rows = async (table: string, column: string, id: string) =>
  (await service.rows(`select from ${table} where ${column} = $1`, [id])).length;
const stored = async (id: string) => [
  await rows('workflow_runs', 'id', id),
  await rows('workflow_run_steps', 'run_id', id),
];
const set = { command: 'set', input: { a: 1 } };
const runFor = (project: TestProject, name: string, steps: { command: string }[] = [set, set]) =>
  startRun(project, steps, { user: { external_id: name }, secret: `of ${name}` });

test('the export of a user has the runs with their input and steps', async () => {
  const project = await service.createProject('exported');
  const ids = [];
  for (const name of ['ada', 'bob', 'ada']) ids.push(await runFor(project, name));
  for (const id of ids) await ended(project, id);
  const { body } = await project.call('GET', '/users/external_id:ada/export');
  expect(body.workflow_runs).toEqual([
    await runOf(project, ids[0] ?? ''),
    await runOf(project, ids[2] ?? ''),
  ]);
  expect(body.workflow_runs[0]).toMatchObject({ input: { secret: 'of ada' }, steps: [{}, {}] });
});

test('runs that have ended are deleted with events of their age, and others stay', async () => {
  const project = await service.createProject('retained');
  const [done, waiting] = [
    await runFor(project, 'ada'),
    await runFor(project, 'ada', [{ command: 'pause' }]),
  ];
  await ended(project, done);
  await inState(project, waiting, STATE.waiting);
  await purgeAfter(89 * DAY_MS);
  expect([await stored(done), await stored(waiting)]).toEqual([
    [1, 2],
    [1, 1],
  ]);
  await purgeAfter(91 * DAY_MS);
  expect([await stored(done), await stored(waiting)]).toEqual([
    [0, 0],
    [1, 1],
  ]);
});

test('runs of an erased user are deleted, also those that wait, and their jobs end', async () => {
  const project = await service.createProject('erased');
  const wait = { command: 'wait', input: { duration: 3_600 } };
  const ids = [await runFor(project, 'ada'), await runFor(project, 'ada', [wait, set])];
  const others = await runFor(project, 'bob');
  await Promise.all([ended(project, ids[0] ?? ''), ended(project, others)]);
  await inState(project, ids[1] ?? '', STATE.waiting);
  await project.call('DELETE', '/users/external_id:ada');
  await purgeAfter(GRACE_MS + 1_000);
  for (const id of ids) expect(await stored(id)).toEqual([0, 0]);
  expect(await stored(others)).toEqual([1, 2]);
  await service.rows("update jobs set due_at = now() where kind = 'run_workflow' and project_id = $1", [
    project.id,
  ]);
  await expect.poll(() => rows('jobs', 'project_id', project.id)).toBe(0);
});

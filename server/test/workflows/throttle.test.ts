import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { sql } from '../../src/db/client.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { ended, inState, STATE, stepsOf } from '../support/workflows.ts';

let service: TestService;
let second: Service;
let project: TestProject;
let laterMs = 0;
let made = 0;

// Two servers on one database, and a clock that the tests move.
beforeAll(async () => {
  const clock = { now: () => Date.now() + laterMs };
  service = await startTestService({ clock, pollMs: 50 });
  const { config, log } = service.context;
  second = await startService(config, { log, clock, pollMs: 50 });
});
afterAll(async () => {
  await second?.stop();
  await service?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`throttles ${made}`);
});

const set = { command: 'set', input: {} };
const save = (input: object, steps: object[] = [set]) =>
  project.call('PUT', '/workflows', { key: 'flow', steps: [{ command: 'throttle', input }, ...steps] });
const runFor = async (user: string, more: object = {}) => {
  const input = { user: { external_id: user }, ...more };
  const { body } = await project.call('POST', '/workflows/runs', { key: 'flow', input });
  return ended(project, body.id);
};
const stateFor = async (user: string, more?: object): Promise<number> =>
  (await runFor(user, more)).status.state;
const { completed, aborted } = STATE;

test('lets so many runs of a user pass in any window, and aborts the others', async () => {
  await save({ limit: 2, window: 3_600 });
  expect(await stateFor('ada')).toBe(completed);
  laterMs += 3_000_000;
  expect(await stateFor('ada')).toBe(completed);
  const third = await runFor('ada');
  expect(third.status).toMatchObject({ state: aborted, error: 'throttled: at most 2 in 3600 s' });
  expect(stepsOf(third)).toEqual(['0 throttle completed']);
  expect(await stateFor('bob')).toBe(completed);
  // The first is an hour ago, the second is not.
  laterMs += 600_000;
  expect(await stateFor('ada')).toBe(completed);
  expect(await stateFor('ada')).toBe(aborted);
});

test('counts runs with the same key over all users, and over new versions', async () => {
  await save({ limit: 1, window: 3_600, key: '{{ input.team }}' });
  expect(await stateFor('ada', { team: 'a' })).toBe(completed);
  expect(await stateFor('bob', { team: 'a' })).toBe(aborted);
  expect(await stateFor('bob', { team: 'b' })).toBe(completed);
  await save({ limit: 1, window: 3_600, key: '{{ input.team }}' }, [set, set]);
  expect(await stateFor('ada', { team: 'a' })).toBe(aborted);
  const other = await service.createProject(`other ${made}`);
  project = other;
  await save({ limit: 1, window: 3_600, key: '{{ input.team }}' });
  expect(await stateFor('ada', { team: 'a' })).toBe(completed);
});

test('is exact for runs that start at once, over two servers', async () => {
  await save({ limit: 7, window: 3_600 });
  const inputs = Array.from({ length: 400 }, (_, at) => ({ user: { external_id: `user ${at % 2}` } }));
  await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
  const states = () =>
    service.rows(
      `select state, count(*)::int as count from workflow_runs
        where project_id = $1 group by state order by state`,
      [project.id],
    );
  await expect.poll(states).toEqual([
    { state: completed, count: 14 },
    { state: aborted, count: 386 },
  ]);
});

test('counts runs of the future when the clock was set back', async () => {
  await save({ limit: 1, window: 60 });
  expect(await stateFor('ada')).toBe(completed);
  laterMs -= 3_600_000;
  expect(await stateFor('ada')).toBe(aborted);
  laterMs += 3_600_000 + 61_000;
  expect(await stateFor('ada')).toBe(completed);
});

test('counts the latest runs, although runs of an earlier time passed after them', async () => {
  await save({ limit: 2, window: 60 });
  for (const advanceMs of [0, -50_000, 65_000]) {
    laterMs += advanceMs;
    expect(await stateFor('ada')).toBe(completed);
  }
  expect(await stateFor('ada')).toBe(aborted);
});

test('counts all runs after one of a version with a lower limit', async () => {
  const paused = { command: 'pause' };
  const throttle = (limit: number) => ({ command: 'throttle', input: { limit, window: 3_600 } });
  await project.call('PUT', '/workflows', { key: 'flow', steps: [paused, throttle(3)] });
  const input = { user: { external_id: 'ada' } };
  const inputs = Array.from({ length: 4 }, () => input);
  const { body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
  for (const id of body.ids) await inState(project, id, STATE.waiting);
  const resume = async (id: string) => {
    await project.call('POST', `/workflows/runs/${id}/resume`);
    return (await ended(project, id)).status.state;
  };
  const [last, ...first] = body.ids;
  for (const id of first) expect(await resume(id)).toBe(completed);
  await project.call('PUT', '/workflows', { key: 'flow', steps: [set, throttle(1)] });
  expect(await stateFor('ada')).toBe(aborted);
  expect(await resume(last)).toBe(aborted);
});

test('is forgotten when its window is over', async () => {
  await save({ limit: 1, window: 60 });
  await runFor('ada');
  const rows = async () => {
    const { db, clock } = service.context;
    await purgeExpired(
      { ...service.context, db, clock: { now: () => clock.now() } },
      new AbortController().signal,
    );
    return (
      await db.query(sql('', 'select from workflow_throttles where expires_at < $1'), [
        new Date(clock.now() + 61_000),
      ])
    ).length;
  };
  expect(await rows()).toBeGreaterThan(0);
  laterMs += 62_000;
  expect(await rows()).toBe(0);
});

test('rejects wrong inputs', async () => {
  expect((await save({ limit: 0, window: 1.5, keys: 'a' })).messages.toSorted()).toMatchInlineSnapshot(`
    [
      "Param 'steps.0.input' doesn't allow key: keys",
      "Param 'steps.0.input.limit' must be 1 or more",
      "Param 'steps.0.input.window' must be an integer",
    ]
  `);
});

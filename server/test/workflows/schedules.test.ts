import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { correctStarts } from '../../src/domain/workflows/schedules/correct-starts.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
let service: TestService;
let second: Service | undefined;
let project: TestProject;
let laterMs = 0;
let made = 0;

const clock = { now: () => Date.now() + laterMs };
const startSecond = async () => {
  const { config, log } = service.context;
  second = await startService(config, { log, clock, pollMs: 50 });
};
// Two servers on one database, and a clock that the tests move.
beforeAll(async () => {
  service = await startTestService({ clock, pollMs: 50 });
  await startSecond();
});
afterAll(async () => {
  await second?.stop();
  await service?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`schedules ${made}`);
});

const set = { command: 'set', input: {} };
const save = (triggers: object[] | undefined, more: object = {}) =>
  project.call('PUT', '/workflows', { key: 'flow', steps: [set], triggers, ...more });
const runs = async () => (await project.call('GET', '/workflows/flow/runs?limit=100')).body.data;
const started = async () => (await runs()).length;
/** Moves the clock to this time of the next day. */
const tomorrowAt = (minutes: number) => {
  const nowMs = clock.now();
  laterMs += nowMs - (nowMs % DAY_MS) + DAY_MS + minutes * 60_000 - nowMs;
};
/** Moves the clock to the next full day, 12:00:30, so that no test begins at the edge of an hour. */
const noon = () => tomorrowAt(12 * 60 + 0.5);
const starts = async () => {
  const rows = await service.rows<{ next_at: Date }>(
    'select next_at from workflow_schedules where project_id = $1 order by place',
    [project.id],
  );
  return rows.map(({ next_at }) => next_at.toISOString());
};
const nextStarts = async () => (await starts()).map((at) => at.slice(11, 16));
/** Waits until nothing is due any more. */
const settled = async () => {
  await expect
    .poll(async () => {
      const rows = await service.rows(
        `select from jobs
          where project_id = $1 and kind = 'start_workflow' and (due_at is null or due_at <= $2)`,
        [project.id, new Date(clock.now())],
      );
      return rows.length;
    })
    .toBe(0);
};

test('a schedule starts a run at each of its times, once over two servers', async () => {
  noon();
  const triggers = [{ schedule: '0 * * * *', input: { report: 'hourly', user: { external_id: 'ada' } } }];
  const saved = await save(triggers);
  expect([saved.status, saved.body.triggers]).toEqual([200, triggers]);
  expect((await project.call('GET', '/workflows/flow')).body.triggers).toEqual(triggers);
  expect(await started()).toBe(0);
  for (const count of [1, 2, 3]) {
    laterMs += HOUR_MS;
    await expect.poll(started).toBe(count);
    await settled();
  }
  const [run] = await runs();
  const shown = (await project.call('GET', `/workflows/runs/${run.id}`)).body;
  expect(shown.input).toEqual(triggers[0]?.input);
  expect(shown).toHaveProperty('user_id');
});

test('a schedule cannot name a user in a way that identifies none', async () => {
  const { status, messages } = await save([{ schedule: '0 * * * *', input: { user: { external_id: 7 } } }]);
  const problem = "Param 'triggers.0.input.user.external_id' must be a string or null";
  expect([status, messages]).toEqual([422, [problem]]);
});

test('times that were missed while no server ran have one run, or none', async () => {
  noon();
  await save([
    { schedule: '*/5 * * * *', input: { missed: 'run_once' } },
    { schedule: '*/7 * * * *', missed: 'skip', input: { missed: 'skip' } },
  ]);
  await second?.stop();
  await service.restart();
  // Both servers see the clock jump between two polls, as if they had not run.
  await settled();
  laterMs += 3 * DAY_MS;
  await startSecond();
  await expect.poll(started).toBeGreaterThan(0);
  await settled();
  const inputs = [];
  for (const { id } of await runs())
    inputs.push((await project.call('GET', `/workflows/runs/${id}`)).body.input.missed);
  expect(inputs).toEqual(['run_once']);
  // Both continue.
  expect(await nextStarts()).toEqual(['12:05', '12:07']);
});

test('a clock that is set back repeats no time', async () => {
  noon();
  await save([{ schedule: '0 * * * *' }]);
  laterMs += HOUR_MS;
  await expect.poll(started).toBe(1);
  await settled();
  laterMs -= HOUR_MS;
  expect(await nextStarts()).toEqual(['14:00']);
  laterMs += HOUR_MS;
  await settled();
  expect(await started()).toBe(1);
  laterMs += HOUR_MS;
  await expect.poll(started).toBe(2);
});

test('a clock that was a year ahead silences no schedule after it', async () => {
  noon();
  const correct = () => correctStarts(service.context, new AbortController().signal);
  await save([{ schedule: '0 * * * *' }, { schedule: '0 9 1 * *' }, { schedule: '0 0 1 1 *' }]);
  const planned = await starts();
  laterMs += 365 * DAY_MS;
  await expect.poll(started).toBe(3);
  await settled();
  laterMs -= 365 * DAY_MS;
  expect(await starts()).not.toEqual(planned);
  await Promise.all([correct(), correct()]);
  expect(await starts()).toEqual(planned);
  laterMs += HOUR_MS;
  await expect.poll(started).toBe(4);
  await settled();
  expect((await nextStarts())[0]).toBe('14:00');
  // A clock that goes back by less than a day repeats no time.
  laterMs -= 12 * HOUR_MS;
  await correct();
  expect((await nextStarts())[0]).toBe('14:00');
  laterMs += 12 * HOUR_MS;
});

test('a disabled workflow starts no runs, and a deleted one has no schedule', async () => {
  noon();
  await save([{ schedule: '0 * * * *' }], { disabled: true });
  laterMs += HOUR_MS;
  await expect.poll(nextStarts).toEqual(['14:00']);
  await save([{ schedule: '0 * * * *' }]);
  expect(await started()).toBe(0);
  laterMs += HOUR_MS;
  await expect.poll(started).toBe(1);
  await project.call('DELETE', '/workflows/flow');
  laterMs += HOUR_MS;
  await settled();
  expect([await nextStarts(), await started()]).toEqual([[], 1]);
});

test('saving keeps a schedule that stays, and replaces one that changes', async () => {
  noon();
  await save([{ schedule: '0 * * * *' }]);
  await save([{ schedule: '0 15 * * *' }, { schedule: '0 * * * *' }], { steps: [set, set] });
  expect(await nextStarts()).toEqual(['15:00', '13:00']);
  await save([{ schedule: '30 12 * * *', time_zone: 'Asia/Kolkata' }], { steps: [set, set] });
  expect(await nextStarts()).toEqual(['07:00']);
  laterMs += 3 * HOUR_MS;
  await settled();
  expect(await started()).toBe(0);
  await save(undefined);
  expect(await nextStarts()).toEqual([]);
  expect((await project.call('GET', '/workflows/flow')).body).not.toHaveProperty('triggers');
});

test('a schedule that was saved several times starts one run at each of its times', async () => {
  noon();
  for (const input of [{ a: 1 }, { a: 2 }, { a: 3 }]) await save([{ schedule: '0 * * * *', input }]);
  for (const count of [1, 2]) {
    laterMs += HOUR_MS;
    await settled();
    expect(await started()).toBe(count);
  }
  const [{ id }] = await runs();
  expect((await project.call('GET', `/workflows/runs/${id}`)).body.input).toEqual({ a: 3 });
});

test('a version that is restored keeps the triggers', async () => {
  const triggers = [{ schedule: '@daily', time_zone: 'Europe/Berlin', missed: 'skip' }];
  await save(triggers);
  await save(triggers, { steps: [] });
  const { body } = await project.call('POST', '/workflows/flow/versions/1/restore');
  expect([body.version, body.triggers, body.steps]).toEqual([3, triggers, [set]]);
});

test('a schedule with several spaces between its fields is saved as it is given', async () => {
  const triggers = [{ schedule: ' 0  9\t* * * ' }];
  const saved = await save(triggers);
  expect([saved.status, saved.body.triggers, await nextStarts()]).toEqual([200, triggers, ['09:00']]);
});

test('mistakes are reported with their place', async () => {
  const { status, messages } = await save([
    { schedule: '* * * * * *' },
    { schedule: '61 * * * *' },
    { schedule: '0 9 * * *', time_zone: 'Mars/Olympus' },
    { schedule: '0 0 30 2 *' },
    { schedule: '61 * * * *', time_zone: 'Mars/Olympus' },
  ]);
  expect(status).toBe(422);
  expect(messages).toMatchInlineSnapshot(`
    [
      "Param 'triggers.0.schedule' is not a cron expression: needs a minute, hour, day, month and weekday",
      "Param 'triggers.1.schedule' is not a cron expression: Invalid value for minute: 61",
      "Param 'triggers.2.time_zone' is not the IANA name of a time zone, such as Europe/Berlin",
      "Param 'triggers.3.schedule' is never due",
      "Param 'triggers.4.time_zone' is not the IANA name of a time zone, such as Europe/Berlin",
      "Param 'triggers.4.schedule' is not a cron expression: Invalid value for minute: 61",
    ]
  `);
  expect((await save([{ schedule: 7, missed: 'never' }, {}])).messages.toSorted()).toMatchInlineSnapshot(`
    [
      "Param 'triggers.0.missed' must be one of: run_once, skip",
      "Param 'triggers.0.schedule' must be a string",
      "Param 'triggers.1' needs either an event (and if) or a schedule (and time_zone, missed, input)",
    ]
  `);
});

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { GRACE_MS } from '../../src/domain/after/erasure/purge-users.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import {
  claimTurn,
  ended,
  inState,
  runOf,
  type ShownRun,
  STATE,
  type StepOfTest,
  stepsOf,
} from '../support/workflows.ts';

const HOUR_S = 3_600;
let service: TestService;
let second: Service;
let project: TestProject;
let host: VendorStandIn;
let laterMs = 0;
let made = 0;

// Two servers on one database, and a clock that the tests move.
beforeAll(async () => {
  host = await startVendor();
  const clock = { now: () => Date.now() + laterMs };
  service = await startTestService({ clock, pollMs: 50, settings: { EVENTS_RETENTION_DAYS: '90' } });
  const { config, log } = service.context;
  second = await startService(config, { log, clock, pollMs: 50 });
});
afterAll(async () => {
  await second?.stop();
  await Promise.all([service?.stop(), host?.stop()]);
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`digests ${made}`);
});

const digest = (input: object) => ({ command: 'digest', input: { window: HOUR_S, ...input } });
const mail = {
  command: 'broadcast',
  input: {
    title: '{{ steps[0].output.count }}: {% for item in steps[0].output.items %}{{ item.n }} {% endfor %}',
  },
};
const save = async (steps: StepOfTest[], key = 'flow') =>
  expect((await project.call('PUT', '/workflows', { key, steps })).messages).toEqual([]);
const start = async (n: number | string, user = 'ada', more: object = {}): Promise<string> => {
  const input = { user: { external_id: user }, n, ...more };
  return (await project.call('POST', '/workflows/runs', { key: 'flow', input })).body.id;
};
/** Starts a run that opens a digest. */
const open = async (n: number | string, user?: string): Promise<string> => {
  const id = await start(n, user);
  await inState(project, id, STATE.waiting);
  return id;
};
const inbox = async (user = 'ada') =>
  (await project.as(user)('GET', '/notifications')).body.data.map(({ title }: { title: string }) =>
    title.trim(),
  );
const stored = async (runId: string) =>
  Promise.all(
    ['workflow_digests', 'workflow_digest_items'].map(
      async (table) => (await service.rows(`select from ${table} where run_id = $1`, [runId])).length,
    ),
  );
const valuesIn = ({ steps }: ShownRun): unknown[] => steps[0].output.items.map(({ n }: { n: unknown }) => n);

test('a digest collects the inputs of all runs in its window, and continues once', async () => {
  await save([digest({}), mail]);
  const first = await open(1);
  const others = [await start(2), await start(3)];
  for (const id of others) {
    const other = await ended(project, id);
    expect(other.status.state).toBe(STATE.completed);
    expect(other.steps).toMatchObject([{ command: 'digest', state: 'completed', output: { digest: first } }]);
    expect(other.steps).toHaveLength(1);
  }
  expect(await inbox()).toEqual([]);
  laterMs += HOUR_S * 1_000;
  const collected = await ended(project, first);
  expect(stepsOf(collected)).toEqual(['0 digest completed', '1 broadcast completed']);
  expect(collected.steps[0].output).toEqual({
    items: [1, 2, 3].map((n) => ({ user: { external_id: 'ada' }, n })),
    count: 3,
  });
  await expect.poll(() => inbox()).toEqual(['3: 1 2 3']);
  expect(await stored(first)).toEqual([0, 0]);
  expect(await open(4)).not.toBe(first);
});

test('a thousand events of one request form one digest, over two servers', async () => {
  await save([digest({})]);
  const inputs = Array.from({ length: 1_000 }, (_, n) => ({ user: { external_id: 'ada' }, n }));
  const { body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
  const states = async () => {
    const rows = await service.rows<{ state: number; count: number }>(
      'select state, count(*)::int as count from workflow_runs where project_id = $1 group by state',
      [project.id],
    );
    return new Map(rows.map(({ state, count }) => [state, count]));
  };
  await expect.poll(states).toEqual(
    new Map([
      [STATE.waiting, 1],
      [STATE.completed, 999],
    ]),
  );
  laterMs += HOUR_S * 1_000;
  await expect.poll(states).toEqual(new Map([[STATE.completed, 1_000]]));
  const collected = await service.rows<{ run_id: string }>(
    `select run_id from workflow_run_steps where run_id = any ($1::uuid[]) and output->'items' is not null`,
    [body.ids],
  );
  expect(collected).toHaveLength(1);
  const only = await runOf(project, collected[0]?.run_id ?? '');
  expect(only.steps[0].output.count).toBe(1_000);
  expect(valuesIn(only)).toEqual(inputs.map(({ n }) => n));
});

test('an event at the end of a window belongs to one digest', async () => {
  await save([digest({ window: 1 })]);
  const ids: string[] = [];
  for (let round = 0; round < 10; round += 1) {
    const starting = Array.from({ length: 20 }, (_, at) => start(round * 20 + at));
    laterMs += 1_000;
    ids.push(...(await Promise.all(starting)));
  }
  laterMs += 2_000;
  const runs = await Promise.all(
    ids.map((id) =>
      until(
        () => runOf(project, id),
        ({ status }) => {
          if (status.state === STATE.waiting) laterMs += 10;
          return status.state === STATE.completed;
        },
      ),
    ),
  );
  const collected = runs.filter(({ steps }) => steps[0].output.items !== undefined);
  expect(collected.flatMap(valuesIn).toSorted((a, b) => Number(a) - Number(b))).toEqual(ids.map((_, n) => n));
  const counts = collected.map(({ steps }) => steps[0].output.count);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(ids.length);
});

test('users, keys and versions have their own digests', async () => {
  await save([digest({ key: '{{ input.document }}' }), mail]);
  const ofDocument = async (n: number, user: string, document: string) => {
    const id = await start(n, user, { document });
    await inState(project, id, STATE.waiting, STATE.completed);
    return id;
  };
  const first = await ofDocument(1, 'ada', 'a');
  const others = [await ofDocument(2, 'ada', 'b'), await ofDocument(3, 'bob', 'a')];
  await save([digest({ key: '{{ input.document }}' }), { command: 'set', input: {} }]);
  others.push(await ofDocument(4, 'ada', 'a'));
  laterMs += HOUR_S * 1_000;
  const outputs = [];
  for (const id of [first, ...others]) outputs.push(valuesIn(await ended(project, id)));
  expect(outputs).toEqual([[1], [2], [3], [4]]);
  expect(stepsOf(await runOf(project, others[2] ?? ''))[1]).toBe('1 set completed');
});

test('runs without a user share a digest', async () => {
  await save([digest({})]);
  const starting = async () =>
    (await project.call('POST', '/workflows/runs', { key: 'flow', input: { n: 1 } })).body.id;
  const first = await starting();
  await inState(project, first, STATE.waiting);
  expect((await ended(project, await starting())).steps[0].output).toEqual({ digest: first });
});

test('a run that names a user that it cannot have shares nothing with others', async () => {
  const posted = { event: 'commented' };
  const save = (steps: StepOfTest[]) =>
    project.call('PUT', '/workflows', { key: 'flow', triggers: [posted], steps });
  for (const user of ['ada', 'bob']) {
    await project.call('PUT', '/users', { external_id: user });
    await project.call('DELETE', `/users/external_id:${user}`);
  }
  const start = async () => {
    for (const external_id of ['ada', 'bob']) {
      const event = { name: posted.event, user: { external_id } };
      expect((await project.call('POST', '/workflows/events', event)).body.started).toBe(1);
    }
    const list = async () => (await project.call('GET', '/workflows/flow/runs?limit=2')).body.data;
    return until(list, (runs) => runs.every((run: ShownRun) => run.status.state >= STATE.waiting));
  };
  const states = (runs: ShownRun[]) => runs.map(({ status }) => status.state);
  await save([digest({})]);
  expect(states(await start())).toEqual([STATE.waiting, STATE.waiting]);
  await save([digest({ key: 'one' })]);
  expect(states(await start())).toEqual([STATE.waiting, STATE.waiting]);
  await save([{ command: 'throttle', input: { limit: 1, window: HOUR_S } }]);
  expect(states(await start())).toEqual([STATE.completed, STATE.completed]);
});

test('runs whose user is other data share nothing, as it may stand for different people', async () => {
  await save([digest({})]);
  const inputs = ['ada', 'bob'].map((name) => ({ user: { externalId: name } }));
  const { body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
  for (const id of body.ids) await inState(project, id, STATE.waiting);
});

test('a sliding window is kept open by each run, until its maximum', async () => {
  await save([digest({ window: 600, max_window: 1_500 })]);
  const first = await open(1);
  for (const n of [2, 3]) {
    laterMs += 500_000;
    expect((await ended(project, await start(n))).steps[0].output).toEqual({ digest: first });
  }
  // 1,000 s after the first one: the window of 600 s would have closed, and slides to 1,500 s.
  expect((await runOf(project, first)).status.state).toBe(STATE.waiting);
  laterMs += 450_000;
  expect((await ended(project, await start(4))).steps[0].output).toEqual({ digest: first });
  laterMs += 60_000;
  expect(valuesIn(await ended(project, first))).toEqual([1, 2, 3, 4]);
});

test('cancelling the run that collects drops the digest, and the next run opens another', async () => {
  await save([digest({}), mail]);
  const first = await open(1);
  await ended(project, await start(2));
  expect(await stored(first)).toEqual([1, 2]);
  await project.call('POST', `/workflows/runs/${first}/cancel`);
  expect(await stored(first)).toEqual([0, 0]);
  const next = await open(3);
  laterMs += HOUR_S * 1_000;
  expect(valuesIn(await ended(project, next))).toEqual([3]);
  expect(stepsOf(await runOf(project, first))).toEqual(['0 digest aborted']);
});

test('a run that fails after its digest continues with the same items', async () => {
  host.reply({ status: 404, body: 'no' }, { status: 200, body: {} });
  await save([digest({}), { command: 'http', input: { url: host.address } }, mail]);
  const first = await open(1);
  await ended(project, await start(2));
  laterMs += HOUR_S * 1_000;
  expect((await ended(project, first)).status.state).toBe(STATE.failed);
  await project.call('POST', `/workflows/runs/${first}/rerun`);
  expect(valuesIn(await inState(project, first, STATE.completed))).toEqual([1, 2]);
  await expect.poll(() => inbox()).toEqual(['2: 1 2']);
});

test('a digest that was closed before a crash keeps its items, and later runs open another', async () => {
  await save([digest({}), mail]);
  const first = await open(1);
  // As if the server had been killed between the end of the window and the end of the turn.
  await service.rows('update workflow_digests set open = false where run_id = $1', [first]);
  const next = await open(2);
  laterMs += HOUR_S * 1_000;
  expect(valuesIn(await ended(project, first))).toEqual([1]);
  expect(valuesIn(await ended(project, next))).toEqual([2]);
  await expect.poll(async () => (await inbox()).toSorted()).toEqual(['1: 1', '1: 2']);
});

test('a run that is cancelled at the end of its window sends nothing', async () => {
  await save([digest({}), mail]);
  const first = await open(1);
  const cancel = () => project.call('POST', `/workflows/runs/${first}/cancel`);
  const turn = await claimTurn(service, first, async (name) => {
    if (name === 'close_workflow_digests') expect((await cancel()).status).toBe(200);
  });
  laterMs += HOUR_S * 1_000;
  await turn.take();
  const cancelled = await runOf(project, first);
  expect([cancelled.status.state, stepsOf(cancelled)]).toEqual([STATE.aborted, ['0 digest aborted']]);
  expect(await inbox()).toEqual([]);
});

test('a run that is given up while it collects takes no further runs, and can be rerun', async () => {
  await save([digest({})]);
  const first = await open(1);
  await ended(project, await start(2));
  await (await claimTurn(service, first)).discard();
  expect((await runOf(project, first)).status).toMatchObject({
    state: STATE.failed,
    error: expect.stringMatching(
      /^internal error: the server failed in \d+ attempts; its log has the cause$/,
    ),
  });
  const next = await open(3);
  await project.call('POST', `/workflows/runs/${first}/rerun`);
  expect(valuesIn(await inState(project, first, STATE.completed))).toEqual([1, 2]);
  laterMs += HOUR_S * 1_000;
  expect(valuesIn(await ended(project, next))).toEqual([3]);
});

test('a digest survives restarts, its workflow, and a clock that is set back', async () => {
  laterMs += HOUR_S * 1_000;
  await save([digest({ window: 120 * 86_400 }), mail]);
  const first = await open(1);
  await project.call('PUT', '/workflows', { key: 'flow', disabled: true, steps: [] });
  await project.call('DELETE', '/workflows/flow');
  await service.restart();
  laterMs -= HOUR_S * 1_000;
  expect((await runOf(project, first)).status.state).toBe(STATE.waiting);
  laterMs += 121 * 86_400_000;
  expect(valuesIn(await ended(project, first))).toEqual([1]);
});

test('a user who is deleted and created again within the window keeps the digest', async () => {
  await save([digest({}), mail]);
  const first = await open(1);
  await project.call('DELETE', '/users/external_id:ada');
  await project.call('PUT', '/users', { external_id: 'ada' });
  expect((await ended(project, await start(2))).steps[0].output).toEqual({ digest: first });
  laterMs += HOUR_S * 1_000;
  expect(valuesIn(await ended(project, first))).toEqual([1, 2]);
  await expect.poll(() => inbox()).toEqual(['2: 1 2']);
});

test('the digest of an erased user is deleted with its items', async () => {
  await save([digest({ window: 30 * 86_400 })]);
  const first = await open(1);
  await ended(project, await start(2));
  const other = await open(3, 'bob');
  await project.call('DELETE', '/users/external_id:ada');
  const clock = { now: () => Date.now() + laterMs + GRACE_MS + 1_000 };
  await purgeExpired({ ...service.context, clock }, new AbortController().signal);
  expect([await stored(first), await stored(other)]).toEqual([
    [0, 0],
    [1, 1],
  ]);
});

test('the export of a user has what a run has collected', async () => {
  await save([digest({})]);
  const first = await open(1);
  await ended(project, await start(2));
  const { body } = await project.call('GET', '/users/external_id:ada/export');
  expect(body.workflow_runs[0]).toEqual({
    ...(await runOf(project, first)),
    collected: [1, 2].map((n) => ({ user: { external_id: 'ada' }, n })),
  });
  expect(body.workflow_runs[1]).not.toHaveProperty('collected');
});

test('items stay when their runs are deleted, and go with the run that collects', async () => {
  await save([digest({ window: 100 * 86_400 })]);
  const first = await open(1);
  const joined = await start(2);
  await ended(project, joined);
  const purge = () => purgeExpired(service.context, new AbortController().signal);
  laterMs += 91 * 86_400_000;
  await purge();
  expect((await project.call('GET', `/workflows/runs/${joined}`)).status).toBe(404);
  expect(await stored(first)).toEqual([1, 2]);
  laterMs += 10 * 86_400_000;
  expect(valuesIn(await ended(project, first))).toEqual([1, 2]);
});

test('a digest keeps its first items, and counts the others', async () => {
  await save([digest({})]);
  const first = await open('x'.repeat(100_000));
  for (const text of ['y', 'z']) await ended(project, await start(text.repeat(100_000)));
  laterMs += HOUR_S * 1_000;
  const { items, count } = (await ended(project, first)).steps[0].output;
  expect([items.map(({ n }: { n: string }) => n[0]), count]).toEqual([['x', 'y'], 3]);
});

test('wrong inputs are rejected when the workflow is saved, or fail the run', async () => {
  const problems = async (input: object) => {
    const steps = [{ command: 'digest', input }];
    return (await project.call('PUT', '/workflows', { key: 'flow', steps })).messages;
  };
  expect(await problems({})).toEqual(["Param 'steps.0.input.window' is missing"]);
  expect(await problems({ window: 0 })).toEqual(["Param 'steps.0.input.window' must be 1 or more"]);
  expect(await problems({ window: 401 * 86_400 })).toEqual([
    "Param 'steps.0.input.window' must be 34560000 or less",
  ]);
  await save([digest({ key: '{{ input.nothing }}' })]);
  expect((await ended(project, await start(1))).status).toMatchObject({
    state: STATE.failed,
    error: expect.stringContaining("Param 'key'"),
  });
});

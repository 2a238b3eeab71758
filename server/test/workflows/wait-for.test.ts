import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startService } from '../../src/app.ts';
import { namedStatements, sql } from '../../src/db/client.ts';
import { GRACE_MS } from '../../src/domain/after/erasure/purge-users.ts';
import { purgeExpired } from '../../src/domain/after/erasure/retention.ts';
import { continueWaiting } from '../../src/domain/workflows/engine/continue-waiting.ts';
import { promote } from '../../src/queue/promote.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { claimTurn, ended, inState, runOf, STATE, startRun, stepsOf } from '../support/workflows.ts';

let service: TestService;
let project: TestProject;
let laterMs = 0;
let made = 0;
const clock = { now: () => Date.now() + laterMs };

beforeAll(async () => {
  service = await startTestService({ clock, pollMs: 50 });
});
afterAll(() => service?.stop());
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`waiting ${made}`);
});

const HOUR = 3_600;
const ADA = { user: { external_id: 'ada' } };
const BOB = { user: { external_id: 'bob' } };
const waitFor = (input: Record<string, unknown> = {}) => ({
  command: 'wait_for',
  input: { event: 'order.paid', timeout: HOUR, ...input },
});
const set = (input: Record<string, unknown>) => ({ command: 'set', input });
/** Starts a run and waits until it waits. Returns its id. */
const waiting = async (steps: Parameters<typeof startRun>[1], input: object = {}, key = 'flow') => {
  const id = await startRun(project, steps, { ...input }, key);
  await inState(project, id, STATE.waiting);
  return id;
};
/** Posts an event. Returns how many runs it continued. */
const post = async (event: object) => {
  const { status, body, text } = await project.call('POST', '/workflows/events', {
    name: 'order.paid',
    ...event,
  });
  expect([status, text]).toEqual([200, expect.any(String)]);
  return body.continued;
};
const states = async (...ids: string[]) => {
  const runs = await Promise.all(ids.map((id) => runOf(project, id)));
  return runs.map((run) => run.status.state);
};

test('a run whose timeout passes before it has continued is continued once', async () => {
  const api = await startTestService({ clock, settings: { ROLE: 'api' } });
  onTestFinished(() => api.stop());
  const { config, log } = api.context;
  const startWorker = () => startService({ ...config, ROLE: ['worker'] }, { log, clock, pollMs: 50 });
  const worker = await startWorker();
  const throttle = { command: 'throttle', input: { limit: 1, window: HOUR } };
  const id = await startRun(api.project, [waitFor(), throttle], ADA);
  await inState(api.project, id, STATE.waiting).finally(() => worker.stop());
  const { body } = await api.project.call('POST', '/workflows/events', { name: 'order.paid', ...ADA });
  expect(body.continued).toBe(1);
  // As a worker does when the timeout is due: the next one claims the jobs of both turns at once.
  laterMs += 2 * HOUR * 1_000;
  await promote(api.context.db, clock.now());
  const next = await startWorker();
  const run = await ended(api.project, id).finally(() => next.stop());
  expect([run.status.state, run.status.error]).toEqual([STATE.completed, undefined]);
});

describe('a run that waits for an event', () => {
  test('continues with the event as output, which later steps read', async () => {
    const id = await waiting(
      [
        waitFor(),
        set({ order: '{{ steps[0].output.event.data.order }}', late: '{{ steps[0].output.timed_out }}' }),
      ],
      ADA,
    );
    expect(await post({ ...ADA, data: { order: 1042 } })).toBe(1);
    const run = await ended(project, id);
    expect(run.steps).toMatchObject([
      {
        state: 'completed',
        output: { event: { name: 'order.paid', ...ADA, data: { order: 1042 } } },
        completed_at: expect.any(String),
      },
      { output: { order: '1042', late: '' } },
    ]);
    const { body } = await project.call('GET', '/events?type=workflow.run.*');
    expect(body.data.map(({ type }: { type: string }) => type)).toEqual([
      'workflow.run.completed',
      'workflow.run.step',
      'workflow.run.step',
      'workflow.run.started',
    ]);
  });

  test('has the output although no later step reads it', async () => {
    const id = await waiting([waitFor()]);
    expect(await post({ data: { order: 1 } })).toBe(1);
    expect((await ended(project, id)).steps).toMatchObject([
      { output: { event: { name: 'order.paid', data: { order: 1 } } } },
    ]);
  });

  test('times out, also after a restart, and later events do not continue it', async () => {
    const steps = [waitFor({ timeout: 400 * 24 * HOUR }), set({ late: '{{ steps[0].output.timed_out }}' })];
    const id = await waiting(steps, ADA);
    await service.restart();
    laterMs += 400 * 24 * HOUR * 1_000 + 1_000;
    expect((await ended(project, id)).steps).toMatchObject([
      { output: { timed_out: true } },
      { output: { late: 'true' } },
    ]);
    expect(await post(ADA)).toBe(0);
  });

  test('continues with an event that comes while its timeout is recorded, and sends once', async () => {
    const hello = { command: 'broadcast', input: { title: 'Hello' } };
    const id = await waiting([waitFor(), hello, set({ late: '{{ steps[0].output.timed_out }}' })], ADA);
    const turn = await claimTurn(service, id, async (name) => {
      if (name === 'transaction') expect(await post(ADA)).toBe(1);
    });
    laterMs += HOUR * 1_000;
    await turn.take();
    const run = await ended(project, id);
    expect(run.steps[0].output).toEqual({ event: { name: 'order.paid', ...ADA, data: {} } });
    expect(run.steps[2].output).toEqual({ late: '' });
    const { body } = await project.as('ada')('GET', '/notifications');
    expect(body.data).toHaveLength(1);
  });

  test('continues after a restart, once, and its timeout does nothing more', async () => {
    const id = await waiting([waitFor(), waitFor({ event: 'order.sent', timeout: 2 * HOUR })], ADA);
    await service.restart();
    expect([await post(ADA), await post(ADA)]).toEqual([1, 0]);
    await expect
      .poll(async () => stepsOf(await runOf(project, id)))
      .toEqual(['0 wait_for completed', '1 wait_for waiting']);
    laterMs += (HOUR + 1) * 1_000;
    expect(await post({ name: 'other' })).toBe(0);
    expect(await post({ ...ADA, name: 'order.sent' })).toBe(1);
    expect((await ended(project, id)).steps[1]).toMatchObject({ output: { event: { name: 'order.sent' } } });
  });

  test('continues with events of its own user and of none', async () => {
    const ids = [
      await waiting([waitFor()], ADA),
      await waiting([waitFor()], BOB),
      await waiting([waitFor()]),
    ];
    expect(await post({ user: { email: 'eve@example.com' } })).toBe(1);
    await ended(project, ids[2] ?? '');
    expect(await states(...ids)).toEqual([STATE.waiting, STATE.waiting, STATE.completed]);
    const { body: bob } = await project.call('GET', '/users/external_id:bob');
    expect(await post({ user: { id: bob.id } })).toBe(1);
    await ended(project, ids[1] ?? '');
    expect(await states(...ids)).toEqual([STATE.waiting, STATE.completed, STATE.completed]);
    expect(await post({})).toBe(1);
    await ended(project, ids[0] ?? '');
  });

  test('continues only if its condition holds for the event', async () => {
    const condition = 'event.data.order == input.order && user.external_id == "ada"';
    const id = await waiting([waitFor({ if: condition })], { ...ADA, order: 7 });
    const wrong = [{}, { data: { order: 8 } }, { data: { order: [7] } }, { ...BOB, data: { order: 7 } }];
    for (const event of wrong) expect(await post(event)).toBe(0);
    expect(await post({ data: { order: 7 } })).toBe(1);
    await ended(project, id);
  });

  test('stays waiting if its condition cannot be evaluated for an event', async () => {
    const id = await waiting([waitFor({ if: 'event.data.sum + 1 > 10' })]);
    expect(await post({ data: { sum: 'many' } })).toBe(0);
    expect(await post({ data: { sum: true } })).toBe(0);
    expect(await states(id)).toEqual([STATE.waiting]);
    expect(await post({ data: { sum: 20.5 } })).toBe(1);
    await ended(project, id);
  });

  test('may wait for a name that a template makes', async () => {
    const id = await waiting([waitFor({ event: 'order:{{ input.order }}.paid' })], { order: 1042 });
    expect([await post({ name: 'order:7.paid' }), await post({ name: 'order:1042.paid' })]).toEqual([0, 1]);
    await ended(project, id);
    const wrong = await startRun(project, [waitFor({ event: '{{ input.name }}' })], { name: 'a b' });
    expect((await ended(project, wrong)).status.error).toContain("Param 'event'");
  });

  test('is not continued when it was cancelled or its user was erased', async () => {
    const [cancelled, erased] = [await waiting([waitFor()], ADA), await waiting([waitFor()], BOB)];
    await project.call('POST', `/workflows/runs/${cancelled}/cancel`);
    expect(await post(ADA)).toBe(0);
    expect(stepsOf(await runOf(project, cancelled))).toEqual(['0 wait_for aborted']);
    await project.call('DELETE', '/users/external_id:bob');
    const later = { now: () => clock.now() + GRACE_MS + 1_000 };
    await purgeExpired({ ...service.context, clock: later }, new AbortController().signal);
    expect(await post({})).toBe(0);
    expect((await project.call('GET', `/workflows/runs/${erased}`)).status).toBe(404);
  });

  test('cannot be resumed, because it is not paused', async () => {
    const id = await waiting([waitFor()]);
    expect((await project.call('POST', `/workflows/runs/${id}/resume`)).status).toBe(422);
    expect(await post({})).toBe(1);
    await ended(project, id);
  });

  test('is not continued by the event of another project', async () => {
    const id = await waiting([waitFor()], ADA);
    const other = await service.createProject(`other ${made}`);
    const { body } = await other.call('POST', '/workflows/events', { name: 'order.paid' });
    expect(body).toEqual({ continued: 0, started: 0 });
    const { body: ada } = await project.call('GET', '/users/external_id:ada');
    expect(
      (await other.call('POST', '/workflows/events', { name: 'order.paid', user: { id: ada.id } })).body,
    ).toEqual({ continued: 0, started: 0 });
    expect(await states(id)).toEqual([STATE.waiting]);
  });

  test('is found once, however many events have its name', async () => {
    const ids = [
      await waiting([waitFor()]),
      await waiting([waitFor()], ADA),
      await waiting([waitFor()], BOB),
    ];
    const of = (userId: string | null) => Array.from({ length: 20 }, () => userId);
    const { user_id: ada } = await runOf(project, ids[1] ?? '');
    const find = (users: (string | null)[]) =>
      service.context.db.query<{ id: string }>(
        sql('', namedStatements.get('runs_that_wait_for_events') ?? ''),
        [project.id, users.map(() => 'order.paid'), users],
      );
    const found = async (users: (string | null)[]) => (await find(users)).map(({ id }) => id);
    expect(await found(of(null))).toEqual(ids.toSorted());
    expect(await found(of(ada))).toEqual(ids.slice(0, 2).toSorted());
  });

  test('is continued once by concurrent events, and thousands of runs by one', async () => {
    await project.call('PUT', '/workflows', { key: 'flow', steps: [waitFor(), set({ done: true })] });
    const inputs = Array.from({ length: 1_000 }, (_, n) => ({ user: { external_id: `user-${n}` } }));
    const ids: string[] = [];
    for (let round = 0; round < 2; round += 1)
      ids.push(...(await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs })).body.ids);
    const count = async (state: number) => {
      const counted = sql(
        '',
        'select count(*)::int as count from workflow_runs where project_id = $1 and state = $2',
      );
      const [row] = await service.context.db.query<{ count: number }>(counted, [project.id, state]);
      return row?.count;
    };
    await expect.poll(() => count(STATE.waiting)).toBe(2_000);
    const posts = await Promise.all([post({}), post({}), post({ user: { external_id: 'user-7' } })]);
    expect(posts.reduce((sum, one) => sum + one, 0)).toBe(2_000);
    await expect.poll(() => count(STATE.completed)).toBe(2_000);
    const { steps } = await runOf(project, ids[7] ?? '');
    expect(steps).toMatchObject([{ output: { event: {} } }, { output: { done: true } }]);
  });
});

describe('an event for which very many runs wait', () => {
  const limits = { now: 2, perJob: 3 };
  const arrive = (event: { name: string; userId: string | null }, order: number) => {
    const { name, userId } = event;
    const value = { name, data: { order } };
    const later = { posted: { name, user_id: userId, value } };
    const events = [{ ...event, broadcastId: null, xact: null, value }];
    return service.context.db.transaction((tx) =>
      continueWaiting(tx, project.id, events, { nowMs: clock.now(), later, limits }),
    );
  };
  const ORDER_PAID = { name: 'order.paid', userId: null };
  const twice = [waitFor(), waitFor()];
  const startAll = async (users: number, steps: Parameters<typeof startRun>[1]) => {
    await project.call('PUT', '/workflows', { key: 'flow', steps });
    const inputs = Array.from({ length: users }, (_, n) => ({ user: { external_id: `user-${n}` } }));
    const { body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
    for (const id of body.ids) await inState(project, id, STATE.waiting);
    return body.ids as string[];
  };
  const stepsOfAll = (ids: readonly string[]) =>
    Promise.all(ids.map(async (id) => stepsOf(await runOf(project, id)).join()));
  const continuedLater = () =>
    until(
      () =>
        service.rows("select from jobs where kind = 'continue_workflows' and project_id = $1", [project.id]),
      ({ length }) => length === 0,
    );
  const ONCE = '0 wait_for completed,1 wait_for waiting';

  test('continues each of them once, by several jobs', async () => {
    const ids = await startAll(12, twice);
    expect(await arrive(ORDER_PAID, 1)).toEqual({ continued: 2, later: 10 });
    await expect.poll(() => stepsOfAll(ids)).toEqual(ids.map(() => ONCE));
    await continuedLater();
    expect(await stepsOfAll(ids)).toEqual(ids.map(() => ONCE));
    const { steps } = await runOf(project, ids[11] ?? '');
    expect(steps[0].output).toEqual({ event: { name: 'order.paid', data: { order: 1 } } });
  });

  test('does not continue runs that begin to wait before their job runs', async () => {
    const ids = await startAll(6, twice);
    // The jobs are written, but not committed, while another event continues two of the runs.
    const [first, second] = [await runOf(project, ids[4] ?? ''), await runOf(project, ids[5] ?? '')];
    const { db } = service.context;
    const late: string[] = [];
    await db.transaction(async (tx) => {
      const value = { name: 'order.paid', data: { order: 1 } };
      const later = { posted: { name: 'order.paid', user_id: null, value } };
      const events = [{ ...ORDER_PAID, broadcastId: null, xact: null, value }];
      expect(await continueWaiting(tx, project.id, events, { nowMs: clock.now(), later, limits })).toEqual({
        continued: 2,
        later: 4,
      });
      for (const { user_id: userId } of [first, second])
        expect(await arrive({ name: 'order.paid', userId }, 2)).toMatchObject({ continued: 1 });
      await expect.poll(() => stepsOfAll(ids.slice(4))).toEqual([ONCE, ONCE]);
      late.push(await startRun(project, twice, ADA, 'other'));
      await inState(project, late[0] ?? '', STATE.waiting);
    });
    await expect.poll(() => stepsOfAll(ids)).toEqual(ids.map(() => ONCE));
    await continuedLater();
    expect(await stepsOfAll(ids)).toEqual(ids.map(() => ONCE));
    expect(await stepsOfAll(late)).toEqual(['0 wait_for waiting']);
    expect((await runOf(project, ids[5] ?? '')).steps[0].output.event.data).toEqual({ order: 2 });
  });
});

describe('POST /workflows/events', () => {
  test('does nothing without a run that waits', async () => {
    const { status, body } = await project.call('POST', '/workflows/events', { name: 'nothing' });
    expect([status, body]).toEqual([200, { continued: 0, started: 0 }]);
  });

  test('may have null for no user', async () => {
    const { status } = await project.call('POST', '/workflows/events', { name: 'nothing', user: null });
    expect(status).toBe(200);
  });

  test('continues runs once for an Idempotency-Key', async () => {
    const id = await waiting([waitFor(), waitFor()], ADA);
    const headers = { 'idempotency-key': 'paid-1' };
    const send = () => project.call('POST', '/workflows/events', { name: 'order.paid', ...ADA }, headers);
    expect((await send()).body).toEqual({ continued: 1, started: 0 });
    await expect
      .poll(async () => stepsOf(await runOf(project, id)))
      .toEqual(['0 wait_for completed', '1 wait_for waiting']);
    const replayed = await send();
    expect([replayed.body, replayed.headers.get('idempotency-replayed')]).toEqual([
      { continued: 1, started: 0 },
      'true',
    ]);
    expect(await states(id)).toEqual([STATE.waiting]);
  });

  test.each([
    ["Param 'name' is missing", { data: {} }],
    ["Param 'name' must not be user.created, which is an event of Belfry", { name: 'user.created' }],
    ["Param 'name' must not be integration.x, which is an event of Belfry", { name: 'integration.x' }],
    ["Param 'name' must match", { name: 'order paid' }],
    ["Param 'data' has more than 16384 characters as JSON", { name: 'a', data: { a: 'x'.repeat(16_384) } }],
    ["Param 'user' needs an id, an external_id or an email", { name: 'a', user: {} }],
    ["Param 'user' must be an object or null", { name: 'a', user: 'ada' }],
    ["Param '(root)' doesn't allow key: user_id", { name: 'a', user_id: '1' }],
  ])('responds 422 %s', async (message, event) => {
    const { status, messages } = await project.call('POST', '/workflows/events', event);
    expect([status, messages]).toEqual([422, [expect.stringContaining(message)]]);
  });

  test('is for the project alone', async () => {
    const { status, codes } = await project.as('ada')('POST', '/workflows/events', { name: 'order.paid' });
    expect([status, codes]).toEqual([403, ['forbidden']]);
  });
});

describe('the definition of a wait', () => {
  const problems = async (input: unknown) => {
    const steps = [{ command: 'wait_for', input }];
    return (await project.call('PUT', '/workflows', { key: 'flow', steps })).messages;
  };

  test('has an event and a timeout', async () => {
    expect(await problems({})).toEqual([
      "Param 'steps.0.input.event' is missing",
      "Param 'steps.0.input.timeout' is missing",
    ]);
    expect(await problems({ event: 'a b', timeout: 401 * 86_400 })).toEqual([
      expect.stringContaining("Param 'steps.0.input.event'"),
      expect.stringContaining("Param 'steps.0.input.timeout'"),
    ]);
    expect(await problems({ event: '{{ input.event }}', timeout: 60, if: null })).toEqual([]);
  });

  test('has a condition that may read the event', async () => {
    const wait = { event: 'a', timeout: 60 };
    expect(await problems({ ...wait, if: 'event.data.a == {{ input.a }}' })).toEqual([]);
    expect(await problems({ ...wait, if: 'event.data.' })).toEqual([
      expect.stringContaining("Param 'steps.0.input.if' is not a condition"),
    ]);
    expect(await problems({ ...wait, if: 1 })).toEqual([expect.stringContaining("Param 'steps.0.input.if'")]);
    const steps = [{ command: 'pause', if: 'event.data.a' }];
    const { messages } = await project.call('PUT', '/workflows', { key: 'flow', steps });
    expect(messages).toEqual([expect.stringContaining("Param 'steps.0.if' is not a condition")]);
  });
});

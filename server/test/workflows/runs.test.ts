import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { startTestService, type TestProject, type TestService, until } from '../support/service.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import {
  claimTurn,
  ended,
  inState,
  runOf,
  type ShownRun,
  STATE,
  startRun,
  stepsOf,
} from '../support/workflows.ts';

let service: TestService;
let project: TestProject;
let host: VendorStandIn;
let laterMs = 0;
let made = 0;

beforeAll(async () => {
  host = await startVendor();
  const clock = { now: () => Date.now() + laterMs };
  service = await startTestService({ clock, pollMs: 50 });
});
afterAll(async () => {
  await Promise.all([service?.stop(), host?.stop()]);
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`workflows ${made}`);
});

const inbox = async (user: string) =>
  (await project.as(user)('GET', '/notifications')).body.data.map(({ title }: { title: string }) => title);
const events = async (type: string) =>
  (await project.call('GET', `/events?type=${type}&limit=100`)).body.data.toReversed();
/** The events of a run, in their order, with the places and states of steps. */
const eventsOf = async (runId: string): Promise<string[]> => {
  const { data } = (await project.call('GET', '/events?limit=100')).body;
  return data.toReversed().flatMap(({ type, context, payload }: Record<string, ShownRun>) => {
    if (context?.run_id !== runId) return [];
    const name = String(type).replace('workflow.run.', '');
    return [payload === undefined ? name : `${name} ${payload.place} ${payload.state}`];
  });
};
const ADA = { user: { external_id: 'ada' } };
const hello = { command: 'broadcast', input: { title: 'Hello' } };

describe('a run', () => {
  test('executes its steps in order, and records each', async () => {
    const id = await startRun(
      project,
      [
        { command: 'set', input: { greeting: 'Hi' } },
        { command: 'broadcast', input: { title: '{{ run.data.greeting }} {{ input.user.external_id }}' } },
      ],
      ADA,
    );
    const run = await ended(project, id);
    expect(run).toMatchObject({
      id,
      workflow_key: 'flow',
      version: 1,
      status: { state: STATE.completed, started_at: expect.any(String), completed_at: expect.any(String) },
      input: ADA,
      steps: [
        { place: '0', command: 'set', state: 'completed', output: { greeting: 'Hi' } },
        { place: '1', command: 'broadcast', state: 'completed', output: { id: expect.any(String) } },
      ],
    });
    expect(run.status).not.toHaveProperty('next_step');
    await expect.poll(() => inbox('ada')).toEqual(['Hi ada']);
    expect(await events('workflow.saved')).toMatchObject([{ context: { workflow_key: 'flow' } }]);
    expect((await events('workflow.run.*')).map((one: { type: string }) => one.type)).toEqual([
      'workflow.run.started',
      'workflow.run.step',
      'workflow.run.step',
      'workflow.run.completed',
    ]);
  });

  test('without steps completes', async () => {
    expect(await ended(project, await startRun(project, []))).toMatchObject({
      status: { state: STATE.completed },
      input: {},
      steps: [],
    });
  });

  test('sends nothing twice if the server was killed after a send and started again much later', async () => {
    const id = await startRun(project, [hello], ADA);
    await ended(project, id);
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
    // As if the turn had been claimed, and its end had not been recorded.
    const { db } = service.context;
    await db.query(sql('', 'delete from workflow_run_steps where run_id = $1'), [id]);
    await db.query(
      sql(
        '',
        `update workflow_runs
        set state = 0, place = '0', turn = 0, due_at = created_at, broadcast_id = null, completed_at = null
        where id = $1`,
      ),
      [id],
    );
    laterMs += 600_000;
    await db.query(
      sql(
        '',
        `insert into jobs (kind, project_id, attempt, payload)
        values ('run_workflow', $1, 1, json_build_object('run_id', $2::text, 'turn', 0))`,
      ),
      [project.id, id],
    );
    expect(stepsOf(await ended(project, id))).toEqual(['0 broadcast completed']);
    await ended(project, await startRun(project, [{ ...hello, input: { title: 'Next' } }], ADA));
    await expect.poll(() => inbox('ada')).toEqual(['Next', 'Hello']);
  });

  test('changes the user once if the server was killed before it recorded the change', async () => {
    const { db } = service.context;
    for (const text of [
      'create sequence faults',
      `create function fail_once() returns trigger language plpgsql as $$
      begin
        if new.command = 'update_user' and nextval('faults') = 1 then raise exception 'fault'; end if;
        return new;
      end $$`,
      `create trigger fail_once before insert on workflow_run_steps
      for each row execute function fail_once()`,
    ])
      await db.query(sql('', text));
    await project.call('PUT', '/users', { external_id: 'ada', first_name: 'Ada' });
    const change = { command: 'update_user', input: { first_name: '{{ user.first_name }}!' } };
    const run = await ended(project, await startRun(project, [change], ADA));
    expect(stepsOf(run)).toEqual(['0 update_user completed']);
    expect(await db.query(sql('', 'select last_value::int as n from faults'))).toEqual([{ n: 2 }]);
    const { body } = await project.call('GET', '/users/external_id:ada');
    expect(body.first_name).toBe('Ada!');
    await db.query(sql('', 'drop function fail_once cascade'));
  });

  test('keeps the version of the steps that it started with', async () => {
    const id = await startRun(project, [{ command: 'pause' }, hello], ADA);
    await inState(project, id, STATE.waiting);
    await project.call('PUT', '/workflows', { key: 'flow', steps: [{ command: 'pause' }] });
    await project.call('DELETE', '/workflows/flow');
    await project.call('POST', `/workflows/runs/${id}/resume`);
    expect(stepsOf(await ended(project, id))).toEqual(['0 pause completed', '1 broadcast completed']);
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
  });

  test('fails at a command that does not exist, with the words of published clients', async () => {
    const run = await ended(project, await startRun(project, [{ command: 'teleport' }, hello], ADA));
    expect(run.status).toMatchObject({ state: STATE.failed, error: 'Command not found: teleport' });
    expect(stepsOf(run)).toEqual(['0 teleport failed']);
    expect(await events('workflow.run.failed')).toMatchObject([
      {
        level: 'error',
        log: 'Command not found: teleport',
        context: { run_id: run.id, workflow_key: 'flow' },
      },
    ]);
  });

  test('can be cancelled while it waits, and sends nothing afterwards', async () => {
    const id = await startRun(project, [{ command: 'wait', input: { duration: 3_600 } }, hello], ADA);
    await inState(project, id, STATE.waiting);
    const { status, body } = await project.call('POST', `/workflows/runs/${id}/cancel`);
    expect([status, body.status]).toEqual([
      200,
      expect.objectContaining({ state: STATE.aborted, error: 'cancelled' }),
    ]);
    expect(stepsOf(body)).toEqual(['0 wait aborted']);
    const again = await project.call('POST', `/workflows/runs/${id}/cancel`);
    expect([again.status, again.messages]).toEqual([
      422,
      ["Param 'run_id' names a run that cannot be changed: the run has ended"],
    ]);
    // The job of the wait still exists. When it is due, it does nothing.
    laterMs += 3_600_000;
    await ended(project, await startRun(project, [hello], ADA, 'after'));
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
    expect(stepsOf(await runOf(project, id))).toEqual(['0 wait aborted']);
  });

  test('sends nothing if it is cancelled before the turn that sends is recorded', async () => {
    const id = await startRun(project, [{ command: 'wait', input: { duration: 3_600 } }, hello], ADA);
    await inState(project, id, STATE.waiting);
    const turn = await claimTurn(service, id, async (name) => {
      if (name === 'transaction') await project.call('POST', `/workflows/runs/${id}/cancel`);
    });
    await turn.take();
    expect((await runOf(project, id)).status).toMatchObject({ state: STATE.aborted, error: 'cancelled' });
    expect(stepsOf(await runOf(project, id))).toEqual(['0 wait aborted']);
    expect((await project.call('GET', '/broadcasts')).body.data).toEqual([]);
  });

  test('records the call that was in flight when it was cancelled, and no step after it', async () => {
    const held: ServerResponse[] = [];
    const slow = createServer((_request, response) => held.push(response)).listen(0, '127.0.0.1');
    onTestFinished(() => void slow.close());
    await once(slow, 'listening');
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
    const call = { command: 'http', input: { url, method: 'GET' } };
    for (const next of [{ command: 'set', input: { a: 1 } }, { command: 'pause' }]) {
      const id = await startRun(project, [call, next], ADA, `in-flight-${next.command}`);
      await expect.poll(() => held).toHaveLength(1);
      await project.call('POST', `/workflows/runs/${id}/cancel`);
      held.pop()?.end();
      await expect.poll(async () => stepsOf(await runOf(project, id))).toEqual(['0 http completed']);
      expect(await eventsOf(id)).toEqual(['started', 'aborted', 'step 0 completed']);
    }
  });

  test('records an event when it is cancelled, resumed or run again', async () => {
    const id = await startRun(project, [{ command: 'pause' }, { command: 'nothing' }], ADA);
    await inState(project, id, STATE.waiting);
    await project.call('POST', `/workflows/runs/${id}/resume`);
    await ended(project, id);
    await project.call('POST', `/workflows/runs/${id}/rerun`);
    await expect
      .poll(() => eventsOf(id))
      .toEqual([
        ...['started', 'resumed', 'step 0 completed', 'step 1 failed', 'failed'],
        ...['rerun', 'step 1 failed', 'failed'],
      ]);
    const cancelled = await startRun(project, [{ command: 'pause' }], ADA);
    await inState(project, cancelled, STATE.waiting);
    await project.call('POST', `/workflows/runs/${cancelled}/cancel`);
    expect(await eventsOf(cancelled)).toEqual(['started', 'step 0 aborted', 'aborted']);
  });

  test('continues at the failed step when it is run again', async () => {
    host.reply({ status: 404, body: 'no' }, { status: 200, body: { ok: true } });
    const steps = [hello, { command: 'http', input: { url: host.address, method: 'GET' } }, hello];
    const id = await startRun(project, steps, ADA);
    expect((await ended(project, id)).status).toMatchObject({ state: STATE.failed });
    await project.call('POST', `/workflows/runs/${id}/rerun`);
    const run = await inState(project, id, STATE.completed);
    expect(run.status).not.toHaveProperty('error');
    expect(stepsOf(run)).toEqual(['0 broadcast completed', '1 http completed', '2 broadcast completed']);
    expect(run.steps[1].output).toEqual({ status: 200, body: { ok: true } });
    await expect.poll(() => inbox('ada')).toEqual(['Hello', 'Hello']);
    expect((await project.call('POST', `/workflows/runs/${id}/rerun`)).status).toBe(422);
    expect((await project.call('POST', `/workflows/runs/${id}/resume`)).status).toBe(422);
  });

  test('of another project does not exist', async () => {
    const id = await startRun(project, [{ command: 'pause' }]);
    const other = await service.createProject(`other ${made}`);
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/cancel'],
      ['POST', '/resume'],
      ['POST', '/rerun'],
    ] as const)
      expect((await other.call(method, `/workflows/runs/${id}${path}`)).status).toBe(404);
    expect((await other.call('GET', '/workflows/flow')).status).toBe(404);
    expect((await other.call('GET', '/workflows/flow/runs')).body.data).toEqual([]);
    expect((await other.call('POST', '/workflows/runs', { key: 'flow' })).status).toBe(404);
  });
});

describe('a condition on the notification', () => {
  const seen = { command: 'set', if: 'notification.unseen', input: { title: '{{ notification.title }}' } };
  // Their details make these broadcasts take the queue.
  const slow = (name: string) => ({
    command: 'broadcast',
    input: { title: 'Hello', recipients: [{ external_id: name, first_name: 'Ada' }] },
  });
  const lockUser = async (name: string) => {
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const done = service.context.db.transaction(async (tx) => {
      await tx.query(sql('', 'select from users where external_id = $1 and project_id = $2 for update'), [
        name,
        project.id,
      ]);
      locked.resolve();
      await release.promise;
    });
    await Promise.race([locked.promise, done]);
    return async () => {
      release.resolve();
      await done;
    };
  };
  const turnOf = async (id: string) => {
    const [run] = await service.rows<{ turn: number }>('select turn from workflow_runs where id = $1', [id]);
    return run?.turn ?? 0;
  };

  test('waits until the broadcast before it has been fanned out', async () => {
    await project.call('PUT', '/users', { external_id: 'ada' });
    const release = await lockUser('ada');
    const id = await startRun(project, [slow('ada'), seen], ADA);
    await expect.poll(() => turnOf(id)).toBeGreaterThan(3);
    expect(stepsOf(await runOf(project, id))).toEqual(['0 broadcast completed']);
    await release();
    const run = await ended(project, id);
    expect(run.steps[1]).toMatchObject({ state: 'completed', output: { title: 'Hello' } });
  });

  test('does not wait for a broadcast that its user does not get, or that is scheduled', async () => {
    const steps = [slow('bob'), seen];
    expect(stepsOf(await ended(project, await startRun(project, steps, ADA))).at(-1)).toBe('1 set skipped');
    const later = { ...slow('ada').input, send_at: new Date(Date.now() + laterMs + 3_600_000).toISOString() };
    const scheduled = [{ command: 'broadcast', input: later }, seen];
    expect(stepsOf(await ended(project, await startRun(project, scheduled, ADA))).at(-1)).toBe(
      '1 set skipped',
    );
  });
});

describe('starting runs', () => {
  test('of an unknown workflow is a 404, of a disabled one a 422', async () => {
    expect((await project.call('POST', '/workflows/runs', { key: 'nothing' })).status).toBe(404);
    await project.call('PUT', '/workflows', { key: 'off', disabled: true, steps: [] });
    const refused = await project.call('POST', '/workflows/runs', { key: 'off' });
    expect([refused.status, refused.messages]).toEqual([
      422,
      ["Param 'key' names a workflow that is disabled"],
    ]);
  });

  test('under an Idempotency-Key happens once', async () => {
    await project.call('PUT', '/workflows', { key: 'flow', steps: [hello] });
    const start = () =>
      project.call('POST', '/workflows/runs', { key: 'flow', input: ADA }, { 'idempotency-key': 'once' });
    const [first, second] = [await start(), await start()];
    expect(second.body).toEqual(first.body);
    await ended(project, first.body.id);
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
    expect((await project.call('GET', '/workflows/flow/runs')).body.data).toHaveLength(1);
  });

  test('for a thousand users at once', async () => {
    await project.call('PUT', '/workflows', { key: 'flow', steps: [hello] });
    const inputs = Array.from({ length: 1_000 }, (_, at) => ({ user: { external_id: `u${at}` } }));
    const { status, body } = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
    expect([status, new Set(body.ids).size]).toEqual([200, 1_000]);
    await ended(project, body.ids[999]);
    const completed = async () => {
      const counted: number[] = [];
      for (const id of [0, 1, 500, 998, 999]) counted.push((await ended(project, body.ids[id])).status.state);
      return counted;
    };
    expect(await completed()).toEqual([3, 3, 3, 3, 3]);
    await expect.poll(() => inbox('u998')).toEqual(['Hello']);
    const page = await project.call('GET', '/workflows/flow/runs?limit=2');
    expect(page.body.data.map(({ id }: { id: string }) => id)).toEqual([body.ids[999], body.ids[998]]);
    expect(page.body.data[0]).not.toHaveProperty('input');
    const failed = await project.call('GET', `/workflows/flow/runs?state=${STATE.failed}`);
    expect(failed.body.data).toEqual([]);
    const completedRuns = await project.call(
      'GET',
      `/workflows/flow/runs?state=${STATE.completed}&limit=100`,
    );
    expect(completedRuns.body.data).toHaveLength(100);
    const tooMany = [...inputs, { user: { external_id: 'one-more' } }];
    const refused = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs: tooMany });
    expect(refused.status).toBe(422);
  });

  test('is listed by its state', async () => {
    const [failing, waiting] = [
      await startRun(project, [{ command: 'abort_everything' }]),
      await startRun(project, [{ command: 'pause' }]),
    ];
    await ended(project, failing);
    await inState(project, waiting, STATE.waiting);
    const listed = async (state: number) => {
      const { body } = await project.call('GET', `/workflows/flow/runs?state=${state}`);
      return body.data.map(({ id }: { id: string }) => id);
    };
    expect(await listed(STATE.failed)).toContain(failing);
    expect(await listed(STATE.failed)).not.toContain(waiting);
    expect(await listed(STATE.waiting)).toContain(waiting);
  });

  test('without a user has none', async () => {
    for (const user of [undefined, null, 'ada', 7, {}, { externalId: '7' }, { external_id: null }]) {
      const input = user === undefined ? {} : { user };
      const run = await ended(project, await startRun(project, [hello], input));
      expect(run.status.error).toBe("Param 'recipients' is missing, and the run has no user");
      expect(run).not.toHaveProperty('user_id');
    }
  });

  const UNKNOWN_ID = 'names no user, or one that is deleted';
  test.each([
    ['user.external_id', 'must be a string or null', { external_id: 7 }],
    ['user.email', 'must be an e-mail address', { external_id: '7', email: 'not an address' }],
    ['user.id', 'must be a UUID', { id: 'xx' }],
    ['user.id', UNKNOWN_ID, { id: '00000000-0000-7000-8000-000000000000' }],
  ])('is rejected if it names no user: %s %s', async (member, problem, user) => {
    await project.call('PUT', '/workflows', { key: 'flow', steps: [] });
    const one = await project.call('POST', '/workflows/runs', { key: 'flow', input: { user } });
    expect([one.status, one.messages]).toEqual([422, [`Param 'input.${member}' ${problem}`]]);
    const inputs = [ADA, { user }, {}];
    const many = await project.call('POST', '/workflows/runs/bulk', { key: 'flow', inputs });
    expect([many.status, many.messages]).toEqual([422, [`Param 'inputs.1.${member}' ${problem}`]]);
  });

  test('is rejected for a deleted user, and starts no run of the same request', async () => {
    const { body: eve } = await project.call('PUT', '/users', { external_id: 'eve' });
    await project.call('DELETE', '/users/external_id:eve');
    await project.call('PUT', '/workflows', { key: 'for-eve', steps: [hello] });
    const start = (user: object) =>
      project.call('POST', '/workflows/runs', { key: 'for-eve', input: { user } });
    const deleted = 'names a user that is deleted: restore it with PUT /users and the same identity';
    expect((await start({ external_id: 'eve' })).messages).toEqual([`Param 'input.user' ${deleted}`]);
    expect((await start({ id: eve.id })).messages).toEqual([`Param 'input.user.id' ${UNKNOWN_ID}`]);
    const inputs = [ADA, { user: { external_id: 'eve' } }, { user: { id: eve.id } }];
    const many = await project.call('POST', '/workflows/runs/bulk', { key: 'for-eve', inputs });
    expect([many.status, many.messages.toSorted()]).toEqual([
      422,
      [`Param 'inputs.1.user' ${deleted}`, `Param 'inputs.2.user.id' ${UNKNOWN_ID}`],
    ]);
    expect((await project.call('GET', '/workflows/for-eve/runs')).body.data).toEqual([]);
    await project.call('PUT', '/users', { external_id: 'eve' });
    expect((await ended(project, (await start({ id: eve.id })).body.id)).user_id).toBe(eve.id);
  });

  test('saves details of the user, as a broadcast does', async () => {
    const welcome = { command: 'broadcast', input: { title: 'Welcome, {{ user.first_name }}!' } };
    await project.call('PUT', '/workflows', { key: 'welcome', steps: [welcome] });
    const start = (user: object, headers = {}) =>
      project.call('POST', '/workflows/runs', { key: 'welcome', input: { user } }, headers);
    const saved = async (name: string) => (await project.call('GET', `/users/external_id:${name}`)).body;
    const once = { 'idempotency-key': 'details' };
    const fresh = { external_id: 'fresh', first_name: 'Ada', custom_attributes: { plan: 'pro' } };
    await ended(project, (await start(fresh, once)).body.id);
    await expect.poll(() => inbox('fresh')).toEqual(['Welcome, Ada!']);
    expect(await saved('fresh')).toMatchObject(fresh);
    const { id } = await saved('fresh');
    await ended(project, (await start({ id, first_name: 'Eve' })).body.id);
    await expect.poll(() => inbox('fresh')).toEqual(['Welcome, Eve!', 'Welcome, Ada!']);
    expect((await start(fresh, once)).headers.get('idempotency-replayed')).toBe('true');
    expect(await saved('fresh')).toMatchObject({ first_name: 'Eve', custom_attributes: { plan: 'pro' } });
    const inputs = ['one', 'two'].map((name) => ({ user: { external_id: name, first_name: name } }));
    const many = await project.call('POST', '/workflows/runs/bulk', { key: 'welcome', inputs });
    for (const run of many.body.ids) await ended(project, run);
    await expect.poll(() => inbox('two')).toEqual(['Welcome, two!']);
    expect((await start({ external_id: 'fresh', first_name: 7, locale: 'x y' })).messages.toSorted()).toEqual(
      [
        "Param 'input.user.first_name' must be a string or null",
        "Param 'input.user.locale' must be a BCP 47 language tag, such as de or pt-BR",
      ],
    );
  });

  test('is of the external id if the address is that of another user', async () => {
    await project.call('PUT', '/users', { external_id: 'one', email: 'one@example.com' });
    const { body: two } = await project.call('PUT', '/users', { external_id: 'two' });
    const user = { external_id: 'two', email: 'one@example.com' };
    expect((await ended(project, await startRun(project, [], { user }))).user_id).toBe(two.id);
  });

  test('accepts other members of the user', async () => {
    const user = { external_id: 'ada', plan: 'pro' };
    const set = { command: 'set', input: { plan: '{{ input.user.plan }}' } };
    const run = await ended(project, await startRun(project, [set], { user }));
    expect(run).toMatchObject({ input: { user }, steps: [{ output: { plan: 'pro' } }] });
  });

  test('names every problem of a request', async () => {
    const { status, messages } = await project.call('POST', '/workflows/runs', {
      key: 'a b',
      input: 7,
      more: 1,
    });
    expect(status).toBe(422);
    expect(messages.toSorted()).toMatchInlineSnapshot(`
      [
        "Param '(root)' doesn't allow key: more",
        "Param 'input' must be an object or null",
        "Param 'key' must match the pattern ^[A-Za-z0-9_.\\-:]+$",
      ]
    `);
  });
});

describe('a wait', () => {
  test.each([90, 120, 399])('lasts for %i days, over a restart', async (days) => {
    const id = await startRun(project, [{ command: 'wait', input: { duration: days * 86_400 } }, hello], ADA);
    const waiting = await inState(project, id, STATE.waiting);
    expect(waiting.status).toMatchObject({ state: STATE.waiting, next_step: 0 });
    expect(stepsOf(waiting)).toEqual(['0 wait waiting']);
    await service.restart();
    expect(await inbox('ada')).toEqual([]);
    laterMs += (days - 1) * 86_400_000;
    await ended(project, await startRun(project, [], {}, 'meanwhile'));
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    laterMs += 86_400_000 + 1_000;
    await ended(project, id);
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
  });

  test('lasts as long if the clock is set back and forth meanwhile, and ends once', async () => {
    const id = await startRun(project, [{ command: 'wait', input: { duration: 86_400 } }, hello], ADA);
    await inState(project, id, STATE.waiting);
    for (const hours of [-30, 50, -21]) {
      laterMs += hours * 3_600_000;
      await ended(project, await startRun(project, [], {}, `meanwhile-${made}-${hours}`));
      expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    }
    laterMs += 25 * 3_600_000;
    await ended(project, id);
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
  });

  test('for a duration that a template makes', async () => {
    const run = (seconds: unknown) =>
      startRun(project, [{ command: 'wait', input: { duration: '{{ input.seconds }}' } }], { seconds });
    expect((await ended(project, await run(0))).status.state).toBe(STATE.completed);
    expect((await ended(project, await run('0'))).status.state).toBe(STATE.completed);
    await inState(project, await run(3_600), STATE.waiting);
    for (const wrong of ['soon', '', null, 1.5, -1]) {
      const { status } = await ended(project, await run(wrong));
      expect(status).toMatchObject({ state: STATE.failed, error: expect.stringContaining("'duration'") });
    }
    expect((await ended(project, await run(null))).status.error).toBe(
      "Param 'duration' must be an integer, not an empty text",
    );
  });

  test('until a time that is over lasts no time, and a wrong time fails the run', async () => {
    const until = (given: unknown) =>
      startRun(project, [{ command: 'wait', input: { until: '{{ input.at }}' } }], { at: given });
    expect((await ended(project, await until('2020-01-01T00:00:00Z'))).status.state).toBe(STATE.completed);
    const wrong = await ended(project, await until('tomorrow'));
    expect(wrong.status).toMatchObject({
      state: STATE.failed,
      error: expect.stringContaining("Param 'until'"),
    });
    const far = await ended(
      project,
      await until(new Date(Date.now() + laterMs + 500 * 86_400_000).toISOString()),
    );
    expect(far.status.error).toBe("Param 'until' must be within the next 400 days");
  });
});

describe('a wait for a delivery window', () => {
  const wait = (more: object = {}) => ({
    command: 'wait',
    input: { delivery_window: { channel: 'sms', ...more } },
  });
  const DAY_MS = 86_400_000;
  /** Moves the clock to this hour of the next day. */
  const tomorrowAt = (hourUtc: number) => {
    const nowMs = Date.now() + laterMs;
    laterMs += nowMs - (nowMs % DAY_MS) + DAY_MS + hourUtc * 3_600_000 - nowMs;
  };
  const daytime = [{ from: '09:00', to: '18:00' }];

  test('lasts until it opens in the time zone of the user', async () => {
    await project.call('PUT', '/channels/delivery_windows', {
      channels: [{ channel: 'sms', windows: daytime }],
    });
    await project.call('PUT', '/users', {
      external_id: 'ada',
      custom_attributes: { time_zone: 'Asia/Tokyo' },
    });
    // Midnight in Tokyo.
    tomorrowAt(15);
    const id = await startRun(project, [wait(), hello], ADA);
    const bob = await startRun(project, [wait(), hello], { user: { external_id: 'bob' } });
    expect((await ended(project, bob)).status.state).toBe(STATE.completed);
    await inState(project, id, STATE.waiting);
    laterMs += 9 * 3_600_000 - 60_000;
    expect((await ended(project, await startRun(project, [hello], ADA, 'other'))).status.state).toBe(3);
    expect((await runOf(project, id)).status.state).toBe(STATE.waiting);
    laterMs += 60_000;
    expect((await ended(project, id)).status.state).toBe(STATE.completed);
  });

  test('is that of the user, else of the category', async () => {
    await project.call('PUT', '/channels', {
      key: 'alerts',
      channels: [{ channel: 'sms', windows: [{ from: '00:00', to: '24:00' }] }],
    });
    await project.call('PUT', '/channels/delivery_windows', {
      channels: [{ channel: 'sms', windows: daytime }],
    });
    tomorrowAt(3);
    const ofCategory = await startRun(project, [wait({ category: 'alerts' })], ADA);
    expect((await ended(project, ofCategory)).status.state).toBe(STATE.completed);
    await project.as('ada')('PUT', '/channels/user_delivery_windows', {
      channels: [{ channel: 'sms', windows: [{ from: '04:00', to: '05:00' }] }],
    });
    const ids = [
      await startRun(project, [wait({ category: 'alerts' })], ADA),
      await startRun(project, [wait()], ADA, 'other'),
    ];
    for (const id of ids) await inState(project, id, STATE.waiting);
    laterMs += 3_600_000;
    for (const id of ids) expect((await ended(project, id)).status.state).toBe(STATE.completed);
  });

  test('fails without a user', async () => {
    expect((await ended(project, await startRun(project, [wait()]))).status.error).toBe(
      'the run has no user',
    );
  });
});

describe('conditions', () => {
  test('see the input, the user, earlier steps and the notification', async () => {
    await project.call('PUT', '/users', { external_id: 'ada', custom_attributes: { plan: 'premium' } });
    const step = (condition: string) => ({ command: 'set', if: condition, input: {} });
    const id = await startRun(
      project,
      [
        hello,
        { command: 'pause' },
        step("user.custom_attributes.plan == 'premium'"),
        step("user.custom_attributes.plan == 'free'"),
        step("{{notification.unseen}} == true && notification.title == 'Hello'"),
        step('{{notification.unseen}} == false'),
        step("steps[0].state == 'completed' && steps[1].state == 'completed' && steps[3].state == 'skipped'"),
        step("input.user.external_id == 'ada' && run.workflow_key == 'flow'"),
        step('input.missing.member == 1'),
      ],
      ADA,
    );
    await expect.poll(() => inbox('ada')).toEqual(['Hello']);
    await inState(project, id, STATE.waiting);
    await project.call('POST', `/workflows/runs/${id}/resume`);
    expect(stepsOf(await ended(project, id)).map((line) => line.split(' ')[2])).toEqual([
      'completed',
      'completed',
      'completed',
      'skipped',
      'completed',
      'skipped',
      'completed',
      'completed',
      'skipped',
    ]);
  });

  test('take a missing member for not true, and a member of any name for a member', async () => {
    const branches = [{ if: '!input.vip', steps: [] }, { steps: [] }];
    const steps = [
      { command: 'branch', input: { branches } },
      { command: 'set', if: 'input.body.n + 1 == 2', input: {} },
    ];
    const body = { constructor: 'z', n: 1 };
    const run = await ended(project, await startRun(project, steps, { body, constructor: body }));
    expect(run.steps[0].output).toEqual({ branch: 0 });
    expect(stepsOf(run)).toEqual(['0 branch completed', '1 set completed']);
  });

  test('that cannot be evaluated fail the run', async () => {
    const run = await ended(project, await startRun(project, [{ ...hello, if: 'input.n > 1' }], { n: 'x' }));
    expect(run.status).toMatchObject({ state: STATE.failed });
    expect(run.status.error).toContain('the condition cannot be evaluated');
  });
});

describe('a branch', () => {
  const set = { command: 'set', input: { a: 1 } };
  const branch = (...branches: object[]) => ({ command: 'branch', input: { branches } });
  const of = (id: number, steps: object[]) => ({ if: `input.n == ${id}`, steps });

  test('executes the steps of the first condition that holds, and then continues', async () => {
    const steps = [branch(of(1, [set, hello]), of(2, [branch({ steps: [set] })]), of(3, [])), set];
    const run = async (n: number) =>
      stepsOf(await ended(project, await startRun(project, steps, { ...ADA, n })));
    expect(await run(1)).toEqual([
      '0 branch completed',
      '0.0.0 set completed',
      '0.0.1 broadcast completed',
      '1 set completed',
    ]);
    expect(await run(2)).toEqual([
      '0 branch completed',
      '0.1.0 branch completed',
      '0.1.0.0.0 set completed',
      '1 set completed',
    ]);
    expect(await run(3)).toEqual(['0 branch completed', '1 set completed']);
    expect(await run(4)).toEqual(['0 branch completed', '1 set completed']);
  });

  test('shows its nested steps to later conditions', async () => {
    const steps = [
      branch({ steps: [{ command: 'set', input: { a: 'x' } }] }),
      { command: 'set', if: "steps[0].steps[0].output.a == 'x' && steps[0].output.branch == 0", input: {} },
    ];
    expect(stepsOf(await ended(project, await startRun(project, steps))).at(-1)).toBe('1 set completed');
  });
});

describe('the commands', () => {
  test('abort ends the run with its reason', async () => {
    const steps = [{ command: 'abort', input: { reason: 'for {{ input.why }}' } }, hello];
    const run = await ended(project, await startRun(project, steps, { ...ADA, why: 'good' }));
    expect(run.status).toMatchObject({ state: STATE.aborted, error: 'for good' });
    expect(stepsOf(run)).toEqual(['0 abort completed']);
    const noReason = [{ command: 'abort', input: { reason: '{{ input.why }}' } }];
    expect((await ended(project, await startRun(project, noReason, ADA))).status).not.toHaveProperty('error');
  });

  test('update_user changes the user of the run', async () => {
    const input = { first_name: '{{ input.name }}', custom_attributes: { tags: '{{ input.tags }}' } };
    const steps = [{ command: 'update_user', input }];
    await ended(project, await startRun(project, steps, { ...ADA, name: 'Ada', tags: ['a', 'b'] }));
    const { body } = await project.call('GET', '/users/external_id:ada');
    expect(body).toMatchObject({ first_name: 'Ada', custom_attributes: { tags: ['a', 'b'] } });
  });

  test('http sends what it says, and retries what may work later', async () => {
    host.reply({ status: 503 }, 'cut', { status: 201, body: 'done' });
    const input = {
      url: `${host.address}/path?q=1`,
      headers: { 'X-Token': '{{ input.token }}' },
      body: { user: '{{ input.user }}' },
    };
    const id = await startRun(project, [{ command: 'http', input }], { ...ADA, token: 's3' });
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await expect.poll(() => host.requests.length).toBeGreaterThan(attempt);
      laterMs += 10_000;
    }
    expect((await ended(project, id)).steps[0]).toMatchObject({ output: { status: 201, body: 'done' } });
    expect(host.requests).toMatchObject(
      Array.from({ length: 3 }, () => ({
        method: 'POST',
        path: '/path?q=1',
        headers: { 'x-token': 's3', 'content-type': 'application/json' },
        body: JSON.stringify({ user: ADA.user }),
      })),
    );
  });

  test('http fails when its host hangs', async () => {
    const impatient = await startTestService({ timeouts: { replyMs: 500 }, pollMs: 50 });
    onTestFinished(() => impatient.stop());
    host.reply('hang');
    const steps = [{ command: 'http', input: { url: host.address, retries: 1 } }, hello];
    const run = await ended(impatient.project, await startRun(impatient.project, steps));
    expect(run.status).toMatchObject({
      state: STATE.failed,
      error: `${new URL(host.address).host} did not respond in time`,
    });
    expect(stepsOf(run)).toEqual(['0 http failed']);
    expect(host.requests).toHaveLength(2);
    const { started_at, completed_at } = run.steps[0];
    expect(Date.parse(completed_at) - Date.parse(started_at)).toBeGreaterThanOrEqual(500);
    expect(Date.parse(completed_at)).toBeLessThanOrEqual(Date.parse(run.status.completed_at));
  });

  test('http says in plain words why there was no response', async () => {
    const errorOf = async (url: string) =>
      (await ended(project, await startRun(project, [{ command: 'http', input: { url, retries: 0 } }])))
        .status.error;
    host.reply('cut');
    const { host: name } = new URL(host.address);
    expect(await errorOf(host.address)).toBe(`${name} broke the connection`);
    expect(await errorOf('http://none.invalid/')).toBe('the host name of none.invalid does not resolve');
  });

  test('http waits as long as Retry-After says, at most an hour', async () => {
    const retries = async (after: string) => {
      host.reply({ status: 429, headers: { 'retry-after': after } }, { status: 200 });
      const before = Date.now() + laterMs;
      const steps = [{ command: 'http', input: { url: host.address } }];
      const id = await startRun(project, steps);
      await expect.poll(() => host.requests.length).toBe(1);
      const [row] = await until(
        () =>
          service.rows<{ due_at: Date }>(`select due_at from workflow_runs where id = '${id}' and turn > 1`),
        ({ length }) => length === 1,
      );
      const waitMs = Number(row?.due_at) - before;
      laterMs += waitMs;
      expect((await ended(project, id)).steps[0]).toMatchObject({ output: { status: 200 } });
      return waitMs;
    };
    expect(await retries('120')).toBeGreaterThanOrEqual(120_000);
    const longest = await retries('86400');
    expect([longest >= 3_600_000, longest < 3_700_000]).toEqual([true, true]);
  });

  test('http marks a response that is cut, and fails if JSON of it is read', async () => {
    const request = { command: 'http', input: { url: host.address, method: 'GET' } };
    const first = async (...after: object[]) =>
      (await ended(project, await startRun(project, [request, ...(after as (typeof hello)[])]))).steps[0];
    const reader = { command: 'set', if: '!steps[0].output.body.done', input: {} };
    const json = { 'content-type': 'application/json; charset=utf-8' };
    host.reply({ status: 200, headers: json, body: { done: true, text: 'x'.repeat(16 * 1024) } });
    const cut = await first();
    expect(cut.output).toMatchObject({ status: 200, truncated: true });
    expect(cut.output.body).toHaveLength(16 * 1024);
    expect(await first({ command: 'set', input: { body: '{{ steps[0].output.status }}' } })).toMatchObject({
      state: 'completed',
    });
    const { host: name } = new URL(host.address);
    expect(await first(reader)).toMatchObject({
      state: 'failed',
      error: expect.stringContaining(`${name}: the JSON of the response has more than 16384 bytes`),
    });
    const text = JSON.stringify({ done: true, text: '' });
    const body = { done: true, text: 'x'.repeat(16 * 1024 - text.length) };
    host.reply({ status: 200, headers: json, body });
    expect((await first(reader)).output).toEqual({ status: 200, body });
    host.reply({ status: 200, body: 'x'.repeat(16 * 1024 + 1) });
    expect((await first(reader)).output).toEqual({
      status: 200,
      body: 'x'.repeat(16 * 1024),
      truncated: true,
    });
  });

  test('a host that hangs delays no requests to others', async () => {
    const hanging = await startVendor();
    onTestFinished(() => hanging.stop());
    const inputs = Array.from({ length: 100 }, (_, at) => ({ at }));
    const start = async (key: string, url: string): Promise<string[]> => {
      await project.call('PUT', '/workflows', { key, steps: [{ command: 'http', input: { url } }] });
      return (await project.call('POST', '/workflows/runs/bulk', { key, inputs })).body.ids;
    };
    const states = async (ids: readonly string[]) =>
      new Set(await Promise.all(ids.map(async (id) => (await ended(project, id)).status.state)));
    hanging.reply('hang');
    const stuck = await start('stuck', hanging.address);
    await expect.poll(() => hanging.requests.length).toBeGreaterThan(0);
    host.reply({ status: 200 });
    expect(await states(await start('good', host.address))).toEqual(new Set([STATE.completed]));
    // Not even half of the others: they wait for 30 s.
    expect(hanging.requests.length).toBeLessThan(inputs.length / 2);
    hanging.reply({ status: 200 });
    await hanging.outages.stop();
    await hanging.outages.restart();
    expect(await states(stuck)).toEqual(new Set([STATE.completed]));
  });

  test('http shows no credentials of its headers, although the host repeats them', async () => {
    const headers = {
      Authorization: 'Bearer canary of header',
      'X-Api-Key': '{{ input.key }}',
      Cookie: 'theme=no; session=canary1; id="canary2"',
      'X-Request': 'shown',
    };
    const steps = [{ command: 'http', input: { url: host.address, headers } }];
    host.reply(({ headers: sent }) => {
      const cookies = String(sent.cookie).split('; ');
      const values = Object.fromEntries(cookies.map((one) => one.split('=') as [string, string]));
      return { status: 200, body: { sent, all: JSON.stringify(sent), cookies, values, id: 'canary2' } };
    });
    const passed = await ended(project, await startRun(project, steps, { key: 'canary "in" a run' }));
    host.reply(({ headers: sent }) => ({ status: 401, body: `wrong key: ${sent['x-api-key']}` }));
    const failed = await ended(project, await startRun(project, steps, { key: 'canary' }));
    expect(passed.steps[0].output.body.sent).toMatchObject({
      authorization: '••••••',
      'x-api-key': '••••••',
      cookie: '••••••',
      'x-request': 'shown',
    });
    expect(failed.steps[0].error).toMatch(/responded with 401: wrong key: ••••••$/);
    const shown = [passed.steps, failed.steps, failed.status, await events('workflow.*')];
    expect(JSON.stringify(shown)).not.toContain('canary');
  });

  test('http fails for addresses that are not allowed', async () => {
    const steps = [{ command: 'http', input: { url: '{{ input.url }}', retries: 0 } }];
    const attempt = async (url: string) =>
      (await ended(project, await startRun(project, steps, { url }))).status;
    expect((await attempt('ftp://example.com/')).error).toContain(
      "Param 'url' must begin with https:// or http://",
    );
    expect((await attempt('https://a:b@example.com/')).error).toContain('must not contain a password');
    expect(await attempt('http://169.254.169.254/latest')).toMatchObject({ state: STATE.failed });
  });

  test('broadcast reports what is wrong after its templates were rendered', async () => {
    const steps = [
      { command: 'broadcast', input: { title: '{{ input.nothing }}', recipients: '{{ input.to }}' } },
    ];
    const run = await ended(project, await startRun(project, steps, { to: [{ external_id: '' }] }));
    expect(run.status.state).toBe(STATE.failed);
    expect(run.status.error).toBe(
      "Param 'title' must have at least 1 character; " +
        "Param 'recipients.0.external_id' must not be blank, and " +
        'must not contain the character U+0000 or half of a surrogate pair; ' +
        "Param 'recipients.0.external_id' must have at least 1 character",
    );
  });

  test('an input that takes long is rendered to the same, with the exact numbers', async () => {
    const long = '{{ input.text | upcase | size }}';
    const input = {
      a: `${long} {{ user.external_id }}`,
      b: '{{ input.list }}',
      c: 'constant',
      d: { e: 12.5 },
    };
    const steps = [{ command: 'set', input }];
    const saved = JSON.stringify({ key: 'long', steps }).replace('12.5', '12345678901234567890.50');
    expect((await project.call('PUT', '/workflows', saved)).status).toBe(200);
    const given = { text: 'x'.repeat(200_000), user: ADA.user, list: [1, { x: 2 }] };
    const body = JSON.stringify({ key: 'long', input: given }).replace('"x":2', '"x":0.10000000000000000001');
    const started = await project.call('POST', '/workflows/runs', body);
    await ended(project, started.body.id);
    const { text } = await project.call('GET', `/workflows/runs/${started.body.id}`);
    expect(text).toContain(
      '"output":{"a":"200000 ada","b":[1,{"x":0.10000000000000000001}],"c":"constant",' +
        '"d":{"e":12345678901234567890.50}}',
    );
  });

  test('a template that takes too long fails the run within its limits', async () => {
    const title = '{% for a in (1..1000) %}{% for b in (1..1000) %}{{ a }}{% endfor %}{% endfor %}';
    const run = await ended(
      project,
      await startRun(project, [{ command: 'broadcast', input: { title } }], ADA),
    );
    expect(run.status.error).toContain('the input cannot be rendered');
  });
});

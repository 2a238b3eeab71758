import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { RUN_STATES } from '../../src/contract/workflow.ts';
import { unpackJson } from '../../src/lib/packed-json.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import { rounds } from '../support/rounds.ts';
import {
  projectWith,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { checkSharedSteps, logSharedSteps } from '../support/shared-steps.ts';
import { TestClock } from '../support/test-clock.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import {
  EVENT_NAMES,
  interpret,
  type ModelEvent,
  type ModelInput,
  type ModelStep,
  type SeenRun,
  stepAt,
  WorkflowModel,
} from '../support/workflow-model.ts';

// Random workflows run on two servers, whose leases are taken, whose connections are cut and whose clock
// jumps. Runs are started twice, cancelled, resumed and run again meanwhile, and events are posted.
// Afterwards each is as a plain interpreter of its steps says. FAULT_SEED repeats its workflows.

const ROUNDS = rounds(1, 10);
const WORKFLOWS = 40;
const RUNS_AT_ONCE = 3;

const seed = newSeed();
const clock = new TestClock();
let service: TestService;
let second: Service;
let host: VendorStandIn;
let model: WorkflowModel;

beforeAll(async () => {
  host = await startVendor();
  model = new WorkflowModel(randomFrom(seed), host.address);
  service = await startTestService({ clock, pollMs: 20, settings: { EVENTS_RETENTION_DAYS: '36500' } });
  await logSharedSteps(service.context.db);
  second = await startService(service.context.config, { log: service.context.log, clock, pollMs: 20 });
  const failures = new Map<string, number>();
  host.reply(({ path }) => {
    const [, kind, left = '0'] = path.split('/');
    if (kind === 'gone') return { status: 404 };
    const failed = failures.get(path) ?? 0;
    failures.set(path, failed + 1);
    return failed < Number(left) ? { status: 503 } : { status: 200, body: { kind } };
  });
});
afterAll(async () => {
  await second?.stop();
  await Promise.all([service?.stop(), host?.stop()]);
});

/** A workflow that was saved. If its runs share users, several of them meet in its digests. */
interface Flow {
  key: string;
  steps: readonly ModelStep[];
  users: readonly string[] | undefined;
}

interface ModelRun {
  id: string;
  key: string;
  steps: readonly ModelStep[];
  input: ModelInput;
  sharesUser: boolean;
  cancelled: boolean;
}

/** Faults that a server must survive. */
const FAULTS: readonly (() => unknown)[] = [
  () =>
    service.rows(
      `with some_jobs as (
        select id from jobs where lease_id is not null and random() < 0.5 order by id for update
      )
      update jobs set lease_id = null from some_jobs where jobs.id = some_jobs.id`,
    ),
  () =>
    service.rows(
      `select pg_terminate_backend(pid)
      from pg_stat_activity
      where datname = current_database() and application_name = 'worker' and random() < 0.5`,
    ),
  () => clock.advance(model.oneOf([1_000, 60_000, 3_600_000])),
  () => clock.advance(-model.oneOf([1_000, 60_000, 1_800_000])),
];

async function saveFlow(nodes: readonly TestProject[], at: number): Promise<Flow> {
  const key = `flow-${at}`;
  const users = model.happens(0.4) ? [`${key}-a`, `${key}-b`] : undefined;
  const steps = model.steps(users !== undefined);
  const body = { key, steps: steps.map(({ step }) => step) };
  const saved = await model.oneOf(nodes).call('PUT', '/workflows', body);
  expect([saved.status, saved.messages]).toEqual([200, []]);
  return { key, steps, users };
}

async function startRuns(nodes: readonly TestProject[], { key, steps, users }: Flow): Promise<ModelRun[]> {
  const inputs = Array.from({ length: RUNS_AT_ONCE }, (): ModelInput => {
    const name = model.name('run');
    const user = { external_id: users === undefined ? name : model.oneOf(users) };
    return { user, name, n: model.below(5), group: model.below(2) };
  });
  const ids = model.happens(0.5)
    ? await startTogether(nodes, key, inputs)
    : await startEach(nodes, key, inputs);
  const sharesUser = users !== undefined;
  return inputs.map((input, index) => ({
    ...{ id: ids[index] as string, key, steps, input, sharesUser, cancelled: false },
  }));
}

/** Starts runs by one request, which is sent twice at the same time with the same key. */
async function startTogether(
  nodes: readonly TestProject[],
  key: string,
  inputs: readonly ModelInput[],
): Promise<string[]> {
  const headers = { 'idempotency-key': inputs[0]?.name ?? '' };
  const responses = await Promise.all(
    nodes.map((node) => node.call('POST', '/workflows/runs/bulk', { key, inputs }, headers)),
  );
  for (const { status, messages } of responses) expect([status, messages]).toEqual([200, []]);
  expect(responses[1]?.body.ids).toEqual(responses[0]?.body.ids);
  return responses[0]?.body.ids;
}

/** Starts each run by itself, also twice, with its first turn. The users of most exist before. */
async function startEach(
  nodes: readonly TestProject[],
  key: string,
  inputs: readonly ModelInput[],
): Promise<string[]> {
  if (model.happens(0.7))
    for (const { user } of inputs) expect((await nodes[0]?.call('PUT', '/users', user))?.status).toBe(200);
  return Promise.all(
    inputs.map(async (input) => {
      const headers = { 'idempotency-key': `alone-${input.name}` };
      const start = (node: TestProject) => node.call('POST', '/workflows/runs', { key, input }, headers);
      const responses = await Promise.all(nodes.map(start));
      for (const { status, messages } of responses) expect([status, messages]).toEqual([200, []]);
      expect(responses[1]?.body.id).toBe(responses[0]?.body.id);
      return responses[0]?.body.id as string;
    }),
  );
}

/** Changes a run at random, as a client might at any time. */
async function disturb(nodes: readonly TestProject[], run: ModelRun): Promise<void> {
  const action = model.oneOf(['cancel', 'resume', 'resume', 'rerun', 'rerun', 'none', 'none', 'none']);
  if (action === 'none') return;
  const { status } = await model.oneOf(nodes).call('POST', `/workflows/runs/${run.id}/${action}`);
  expect([200, 422]).toContain(status);
  if (action === 'cancel' && status === 200) run.cancelled = true;
}

interface Posted {
  event: ModelEvent;
  continued: number;
}

/** Posts an event. No run that it continues still waits in the same turn afterwards. */
async function post(nodes: readonly TestProject[], runs: ReadonlyMap<string, ModelRun>): Promise<Posted> {
  const { user } = model.oneOf([...runs.values()]).input;
  const event: ModelEvent = {
    name: model.oneOf(EVENT_NAMES),
    ...(model.happens(0.5) ? { user } : {}),
    data: { id: model.name('event'), n: model.below(5) },
  };
  const waiting = () =>
    service.rows<{ id: string; turn: number; place: string }>(
      'select id, turn, place from workflow_runs where waits_for = $1',
      [event.name],
    );
  const before = new Map((await waiting()).map(({ id, turn }) => [id, turn]));
  const { status, body } = await model.oneOf(nodes).call('POST', '/workflows/events', event);
  expect(status).toBe(200);
  for (const { id, turn, place } of await waiting()) {
    const run = runs.get(id);
    if (run === undefined || before.get(id) !== turn) continue;
    const isAccepted = stepAt(run.steps, place)?.accepts?.(run.input, event);
    expect(isAccepted, `run ${id} still waits for ${JSON.stringify(event)}`).toBe(false);
  }
  return { event, continued: body.continued };
}

/** Checks that each run accepts its events, and that each event has continued as many runs as it said. */
function checkEvents(
  posted: readonly Posted[],
  seen: ReadonlyMap<string, SeenRun>,
  runs: ReadonlyMap<string, ModelRun>,
): void {
  const continued = new Map<string, number>();
  for (const [id, { steps }] of seen) {
    const run = runs.get(id) as ModelRun;
    for (const { place, command, state, output } of steps) {
      if (command !== 'wait_for' || output == null) continue;
      const { event } = output;
      if (event === undefined) {
        expect([state, output], `run ${id}`).toEqual(['completed', { timed_out: true }]);
        continue;
      }
      expect(stepAt(run.steps, place)?.accepts?.(run.input, event), `run ${id}`).toBe(true);
      continued.set(event.data.id, (continued.get(event.data.id) ?? 0) + 1);
    }
  }
  for (const { event, continued: count } of posted)
    expect(continued.get(event.data.id) ?? 0, JSON.stringify(event)).toBe(count);
}

test.each(Array.from({ length: ROUNDS }, (_, round) => round))(
  `runs are as a plain interpreter says, round %i (FAULT_SEED=${seed})`,
  async (round) => {
    const keys = await service.createProject(`model ${round}`);
    // The clock goes back as well, but not to before the token was issued.
    clock.advance(86_400_000);
    const nodes = [keys, projectWith(() => second.address, keys)];
    const flows: Flow[] = [];
    const runs = new Map<string, ModelRun>();
    const posted: Posted[] = [];
    const before = host.requests.length;
    let isOver = false;
    const chaos = (async () => {
      while (!isOver) {
        await model.oneOf(FAULTS)();
        await delay(20 + model.below(80));
      }
    })();
    onTestFinished(() => {
      isOver = true;
      return chaos;
    });
    const continued = () => posted.reduce((sum, one) => sum + one.continued, 0);
    const isComplete = async () => continued() > 0 && (await hasAllKinds(keys.id));
    // Few events come while a run waits for them, and few runs meet in a throttle: it goes on until some do.
    for (let at = 0; at < WORKFLOWS || (at < 10 * WORKFLOWS && !(await isComplete())); at += 1) {
      flows.push(await saveFlow(nodes, at));
      const shared = flows.filter(({ users }) => users !== undefined).slice(-2);
      for (const flow of [...flows.slice(-1), ...shared])
        for (const run of await startRuns(nodes, flow)) runs.set(run.id, run);
      await disturb(nodes, model.oneOf([...runs.values()]));
      posted.push(await post(nodes, runs));
    }
    const unfinished = () =>
      service.rows<{ id: string; state: number; due_at: Date | null }>(
        'select id, state, due_at from workflow_runs where project_id = $1 and state < 3',
        [keys.id],
      );
    // Runs that wait are due after a jump, and paused ones are resumed.
    await until(
      async () => {
        const left = await unfinished();
        posted.push(await post(nodes, runs));
        clock.advance(model.oneOf([3_600_000, 86_400_000]));
        for (const { id, due_at } of left)
          if (due_at === null) await model.oneOf(nodes).call('POST', `/workflows/runs/${id}/resume`);
        return left.length;
      },
      (left) => left === 0,
      { withinMs: 240_000, everyMs: 20 },
    );
    isOver = true;
    await chaos;
    // Of runs that were cancelled or continued before their time.
    await until(
      () => {
        clock.advance(86_400_000);
        return service.rows('select from jobs where project_id = $1 and kind <> $2', [
          keys.id,
          'send_webhook',
        ]);
      },
      (jobs) => jobs.length === 0,
      { everyMs: 20 },
    );
    const seen = new Map<string, SeenRun>();
    for (const id of runs.keys()) seen.set(id, (await keys.call('GET', `/workflows/runs/${id}`)).body);
    checkEvents(posted, seen, runs);
    const shared = await checkSharedSteps(service.context.db, [...runs.values()]);
    const inboxes = await readInboxes(keys.id);
    const called = new Set(host.requests.map(({ path }) => path).slice(before));
    const wanted = new Set<string>();
    const states = new Map<number, number>();
    for (const { id, steps, input, sharesUser, cancelled } of runs.values()) {
      const run = seen.get(id) as SeenRun;
      const expected = interpret(steps, input, run);
      const { effects } = expected;
      for (const path of effects.paths) wanted.add(path);
      states.set(expected.state, (states.get(expected.state) ?? 0) + 1);
      const recorded = run.steps.map(({ place, command, state }) => `${place} ${command} ${state}`);
      const context = `run ${id} of ${run.workflow_key}`;
      const inbox = inboxes.get(input.user.external_id);
      const titles = (inbox?.titles ?? []).filter((title) => title.endsWith(` of ${input.name}`));
      if (!cancelled) {
        expect([run.status.state, recorded], context).toEqual([expected.state, expected.steps]);
        expect(titles, context).toEqual([...effects.titles].sort());
        if (!sharesUser) expect(inbox?.firstName ?? null, context).toBe(effects.firstName);
        for (const path of effects.paths) expect(called, context).toContain(path);
        continue;
      }
      expect(run.status.state, context).toBe(RUN_STATES.aborted);
      // It ended anywhere, and the last step may have been waiting.
      const done = recorded.map((step) => step.replace(/ aborted$/, ' completed'));
      expect(done, context).toEqual(expected.steps.slice(0, done.length));
      const sent = done.filter((step) => step.endsWith(' broadcast completed')).length;
      expect(effects.titles, context).toEqual(expect.arrayContaining(titles));
      expect(titles.length, context).toBe(sent);
    }
    expect([...called].filter((path) => !wanted.has(path))).toEqual([]);
    // Nothing that is checked above is missing from a round.
    const { completed, failed } = RUN_STATES;
    for (const count of [states.get(completed), states.get(failed), ...Object.values(shared), continued()])
      expect(count ?? 0).toBeGreaterThan(0);
  },
);

/** Whether some runs have completed, failed, been throttled and joined a digest. */
async function hasAllKinds(projectId: string): Promise<boolean> {
  const { completed, failed } = RUN_STATES;
  const [row] = await service.rows<{ all_kinds: boolean }>(
    `select bool_or(state = ${completed}) and bool_or(state = ${failed})
      and bool_or(error like 'throttled: %')
      and bool_or(
        exists (select from shared_steps_log s where s.run_id = r.id and s.output ->> 'digest' is not null)
      ) as all_kinds
    from workflow_runs r
    where project_id = $1`,
    [projectId],
  );
  return row?.all_kinds === true;
}

async function readInboxes(
  projectId: string,
): Promise<Map<string, { titles: string[]; firstName: string | null }>> {
  const rows = await service.rows<{ name: string; first_name: string | null; messages: Buffer[] | null }>(
    `select u.external_id as name, u.first_name,
      array_agg(b.message) filter (where b.id is not null) as messages
    from users u
    left join notifications n on n.user_id = u.id
    left join broadcasts b on b.id = n.broadcast_id
    where u.project_id = $1
    group by u.id, u.external_id, u.first_name`,
    [projectId],
  );
  return new Map(
    rows.map(({ name, first_name, messages }) => [
      name,
      {
        titles: (messages ?? []).map((message) => JSON.parse(unpackJson(message)).title as string).sort(),
        firstName: first_name,
      },
    ]),
  );
}

import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Service, startService } from '../../src/app.ts';
import { RUN_STATES } from '../../src/contract/workflow.ts';
import { sql } from '../../src/db/client.ts';
import { unpackJson } from '../../src/lib/packed-json.ts';
import { newSeed, randomFrom } from '../support/random.ts';
import {
  projectWith,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../support/service.ts';
import { TestClock } from '../support/test-clock.ts';
import { startVendor, type VendorStandIn } from '../support/vendor-stand-in.ts';
import type { ShownRun, StepOfTest } from '../support/workflows.ts';

// Random workflows run on two servers, whose leases are taken, whose connections are cut and whose clock
// jumps. Runs are started twice, cancelled, resumed and run again meanwhile. Afterwards each is as a plain
// interpreter of its steps says. FAULT_ROUNDS makes it longer, FAULT_SEED repeats its workflows.

const ROUNDS = Number(process.env.FAULT_ROUNDS ?? 2);
const WORKFLOWS = 80;
const RUNS_OF_EACH = 3;

const seed = newSeed();
const random = randomFrom(seed);
const below = (count: number) => Math.floor(random() * count);
const oneOf = <Value>(values: readonly Value[]): Value => values[below(values.length)] as Value;

const clock = new TestClock();
let service: TestService;
let second: Service;
let host: VendorStandIn;

beforeAll(async () => {
  host = await startVendor();
  service = await startTestService({ clock, pollMs: 20, settings: { EVENTS_RETENTION_DAYS: '36500' } });
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

/** What the steps of a run read and change. */
interface Data {
  input: { n: number; name: string };
  set: Record<string, unknown>;
  firstName: string | null;
  steps: { state: string; output?: unknown }[];
}

/** A condition of a step, and the same in plain code. Throws if it cannot be evaluated. */
interface ModelCondition {
  text: string;
  holds(data: Data): boolean;
}

const COLORS = ['red', 'green', 'blue'];

/** Conditions of a step with so many steps of the workflow before it. */
const CONDITIONS: readonly ((before: number) => ModelCondition)[] = [
  () => {
    const than = below(4);
    return { text: `input.n > ${than}`, holds: ({ input }) => input.n > than };
  },
  () => {
    const to = below(4);
    return { text: `{{ input.n }} == ${to}`, holds: ({ input }) => input.n === to };
  },
  () => {
    const color = oneOf(COLORS);
    return { text: `run.data.color == '${color}'`, holds: ({ set }) => set.color === color };
  },
  (before) => {
    const index = below(before);
    const state = oneOf(['completed', 'skipped']);
    if (before === 0) return { text: 'input.n < 0', holds: () => false };
    return {
      text: `steps[${index}].state == '${state}'`,
      holds: ({ steps }) => steps[index]?.state === state,
    };
  },
  () => {
    const color = oneOf(COLORS);
    return { text: `user.first_name == '${color}'`, holds: ({ firstName }) => firstName === color };
  },
];
const BROKEN: ModelCondition = {
  text: "input.n + 'a' == 'b'",
  holds: () => {
    throw new Error('a number and a text cannot be added');
  },
};

function randomCondition(before: number): ModelCondition | undefined {
  const kind = random();
  if (kind < 0.55) return undefined;
  if (kind < 0.57) return BROKEN;
  return oneOf(CONDITIONS)(before);
}

/** A step, and what it does in plain code. */
interface ModelStep {
  step: StepOfTest;
  condition: ModelCondition | undefined;
  branches?: { condition: ModelCondition | undefined; steps: ModelStep[] }[];
  effect(data: Data, effects: Effects): 'completed' | 'failed' | 'aborted';
}

/** What a run changes outside of itself. */
interface Effects {
  titles: string[];
  paths: string[];
  firstName: string | null;
}

let made = 0;

const KINDS: readonly ((level: number, before: number) => Omit<ModelStep, 'condition'>)[] = [
  () => {
    const title = `message ${++made}`;
    return {
      step: { command: 'broadcast', input: { title: `${title} of {{ input.name }}` } },
      effect({ input }, { titles }) {
        titles.push(`${title} of ${input.name}`);
        return 'completed';
      },
    };
  },
  () => {
    const color = oneOf(COLORS);
    return {
      step: { command: 'set', input: { color, length: '{{ steps.size }}' } },
      effect({ set }) {
        set.color = color;
        return 'completed';
      },
    };
  },
  () => ({
    step: { command: 'wait', input: { duration: oneOf([0, 1, 60, 86_400, 90 * 86_400]) } },
    effect: () => 'completed',
  }),
  () => ({
    step: { command: 'wait', input: { until: oneOf(['2020-02-29T00:00:00Z', '{{ run.created_at }}']) } },
    effect: () => 'completed',
  }),
  () => ({ step: { command: 'pause' }, effect: () => 'completed' }),
  () => {
    const color = oneOf(COLORS);
    return {
      step: { command: 'update_user', input: { first_name: color } },
      effect(data, effects) {
        data.firstName = color;
        effects.firstName = color;
        return 'completed';
      },
    };
  },
  () => {
    const [kind, failures] = random() < 0.1 ? ['gone', 0] : ['found', below(3)];
    const path = `/${kind}/${failures}/${++made}`;
    return {
      step: { command: 'http', input: { url: `${host.address}${path}/{{ input.name }}` } },
      effect({ input }, { paths }) {
        paths.push(`${path}/${input.name}`);
        return kind === 'gone' ? 'failed' : 'completed';
      },
    };
  },
  (level, before) => {
    const branches = Array.from({ length: 1 + below(3) }, () => ({
      condition: random() < 0.8 ? oneOf(CONDITIONS)(before) : undefined,
      steps: randomSteps(level + 1, 3, before),
    }));
    return {
      step: {
        command: 'branch',
        input: {
          branches: branches.map(({ condition, steps }) => ({
            ...(condition === undefined ? {} : { if: condition.text }),
            steps: steps.map(({ step }) => step),
          })),
        },
      },
      branches,
      effect: () => 'completed',
    };
  },
];
const RARE: readonly (() => Omit<ModelStep, 'condition'>)[] = [
  () => ({ step: { command: 'abort', input: { reason: 'enough' } }, effect: () => 'aborted' }),
  () => ({ step: { command: 'teleport' }, effect: () => 'failed' }),
  () => ({
    step: { command: 'wait', input: { duration: '{{ input.name }}' } },
    effect: () => 'failed',
  }),
];

/** Steps of the workflow itself or, with a number of steps before them, of a branch. */
function randomSteps(level: number, most: number, within?: number): ModelStep[] {
  return Array.from({ length: below(most + 1) }, (_, index) => {
    const before = within ?? index;
    const kinds = level < 3 ? KINDS : KINDS.slice(0, -1);
    const made = random() < 0.05 ? oneOf(RARE)() : oneOf(kinds)(level, before);
    const condition = randomCondition(before);
    return {
      ...made,
      condition,
      step: { ...made.step, ...(condition === undefined ? {} : { if: condition.text }) },
    };
  });
}

/** What the plain interpreter says of a run. */
interface Expected {
  state: number;
  steps: string[];
  effects: Effects;
}

const HALT = Symbol('the run has ended');

/** Interprets steps as the documentation describes them. */
function interpret(steps: readonly ModelStep[], input: Data['input']): Expected {
  const data: Data = { input, set: {}, firstName: null, steps: [] };
  const effects: Effects = { titles: [], paths: [], firstName: null };
  const done: string[] = [];
  let state: number = RUN_STATES.completed;
  const halt = (at: string, command: string, how: 'failed' | 'aborted'): never => {
    done.push(`${at} ${command} ${how === 'failed' ? how : 'completed'}`);
    state = RUN_STATES[how];
    throw HALT;
  };
  const execute = (list: readonly ModelStep[], prefix: string, results: Data['steps']): void => {
    for (const [index, { step, condition, branches, effect }] of list.entries()) {
      const at = `${prefix}${index}`;
      const { command } = step;
      let holds = true;
      try {
        holds = condition === undefined || condition.holds(data);
      } catch {
        halt(at, command, 'failed');
      }
      if (!holds) {
        done.push(`${at} ${command} skipped`);
        results[index] = { state: 'skipped' };
        continue;
      }
      const how = effect(data, effects);
      if (how !== 'completed') halt(at, command, how);
      const taken = branches?.findIndex((one) => one.condition === undefined || one.condition.holds(data));
      const branch = branches?.[taken ?? -1];
      done.push(`${at} ${command} completed`);
      results[index] = { state: 'completed' };
      // Steps of a branch are not among the steps of the workflow.
      if (branch !== undefined) execute(branch.steps, `${at}.${taken}.`, []);
    }
  };
  try {
    execute(steps, '', data.steps);
  } catch (error) {
    if (error !== HALT) throw error;
  }
  return { state, steps: done, effects };
}

interface ModelRun {
  id: string;
  name: string;
  expected: Expected;
  cancelled: boolean;
}

const query = <Row>(text: string, values: unknown[] = []) =>
  service.context.db.query<Row>(sql('', text), values);

/** Faults that a server must survive. */
const FAULTS: readonly (() => unknown)[] = [
  () =>
    query(
      `with some_jobs as (
        select id from jobs where lease_id is not null and random() < 0.5 order by id for update
      )
      update jobs set lease_id = null from some_jobs where jobs.id = some_jobs.id`,
    ),
  () =>
    query(
      `select pg_terminate_backend(pid)
      from pg_stat_activity
      where datname = current_database() and application_name = 'worker' and random() < 0.5`,
    ),
  () => clock.advance(oneOf([1_000, 60_000, 3_600_000])),
  () => clock.advance(-oneOf([1_000, 60_000, 1_800_000])),
];

async function startRuns(nodes: readonly TestProject[], at: number, steps: ModelStep[]): Promise<ModelRun[]> {
  const key = `flow-${at}`;
  const saved = await oneOf(nodes).call('PUT', '/workflows', { key, steps: steps.map(({ step }) => step) });
  expect([saved.status, saved.messages]).toEqual([200, []]);
  const names = Array.from({ length: RUNS_OF_EACH }, () => `user-${++made}`);
  const inputs = names.map((name) => ({ user: { external_id: name }, name, n: below(5) }));
  // Started twice at the same time by the same key.
  const headers = { 'idempotency-key': key };
  const responses = await Promise.all(
    nodes.map((node) => node.call('POST', '/workflows/runs/bulk', { key, inputs }, headers)),
  );
  for (const { status, messages } of responses) expect([status, messages]).toEqual([200, []]);
  const ids: string[] = responses[0]?.body.ids;
  expect(responses[1]?.body.ids).toEqual(ids);
  return inputs.map((input, index) => ({
    id: ids[index] as string,
    name: input.name,
    expected: interpret(steps, input),
    cancelled: false,
  }));
}

const stateOf = ({ status }: ShownRun): number => status.state;

/** Changes a run at random, as a client might at any time. */
async function disturb(nodes: readonly TestProject[], run: ModelRun): Promise<void> {
  const action = oneOf(['cancel', 'resume', 'resume', 'rerun', 'rerun', 'none', 'none', 'none']);
  if (action === 'none') return;
  const { status } = await oneOf(nodes).call('POST', `/workflows/runs/${run.id}/${action}`);
  expect([200, 422]).toContain(status);
  if (action === 'cancel' && status === 200) run.cancelled = true;
}

test.each(Array.from({ length: ROUNDS }, (_, round) => round))(
  `runs are as a plain interpreter says, round %i (FAULT_SEED=${seed})`,
  { timeout: 300_000 },
  async (round) => {
    const keys = await service.createProject(`model ${round}`);
    // The clock goes back as well, but not to before the token was issued.
    clock.advance(86_400_000);
    const nodes = [keys, projectWith(() => second.address, keys)];
    const runs: ModelRun[] = [];
    const before = host.requests.length;
    let isOver = false;
    const chaos = (async () => {
      while (!isOver) {
        await oneOf(FAULTS)();
        await delay(20 + below(80));
      }
    })();
    onTestFinished(() => {
      isOver = true;
      return chaos;
    });
    for (let at = 0; at < WORKFLOWS; at += 1) {
      runs.push(...(await startRuns(nodes, at, randomSteps(0, 7))));
      await disturb(nodes, oneOf(runs));
    }
    const unfinished = () =>
      query<{ id: string; state: number; due_at: Date | null }>(
        'select id, state, due_at from workflow_runs where project_id = $1 and state < 3',
        [keys.id],
      );
    // Runs that wait are due after a jump, and paused ones are resumed.
    await until(
      async () => {
        const left = await unfinished();
        clock.advance(86_400_000);
        for (const { id, due_at } of left)
          if (due_at === null) await oneOf(nodes).call('POST', `/workflows/runs/${id}/resume`);
        return left.length;
      },
      (left) => left === 0,
      { withinMs: 240_000, everyMs: 20 },
    );
    isOver = true;
    await chaos;
    await until(
      () => query('select from jobs where project_id = $1 and kind <> $2', [keys.id, 'send_webhook']),
      (jobs) => jobs.length === 0,
    );
    const inboxes = await readInboxes(keys.id);
    const called = new Set(host.requests.map(({ path }) => path).slice(before));
    for (const { id, name, expected, cancelled } of runs) {
      const { body: run } = await keys.call('GET', `/workflows/runs/${id}`);
      const steps: string[] = run.steps.map(
        (one: { place: string; command: string; state: string }) =>
          `${one.place} ${one.command} ${one.state}`,
      );
      const context = `run ${id} of ${run.workflow_key}`;
      const titles = inboxes.get(name)?.titles ?? [];
      if (!cancelled) {
        expect([stateOf(run), steps], context).toEqual([expected.state, expected.steps]);
        expect(titles, context).toEqual([...expected.effects.titles].sort());
        expect(inboxes.get(name)?.firstName ?? null, context).toBe(expected.effects.firstName);
        for (const path of expected.effects.paths) expect(called, context).toContain(path);
        continue;
      }
      expect(stateOf(run), context).toBe(RUN_STATES.aborted);
      // It ended anywhere, and the last step may have been waiting.
      const recorded = steps.map((step) => step.replace(/ aborted$/, ' completed'));
      expect(recorded, context).toEqual(expected.steps.slice(0, recorded.length));
      const sent = recorded.filter((step) => step.endsWith(' broadcast completed')).length;
      // A turn may have sent one that it could not record before the run was cancelled.
      expect(expected.effects.titles, context).toEqual(expect.arrayContaining(titles));
      expect([sent, sent + 1], context).toContain(titles.length);
    }
    const wanted = new Set(runs.flatMap(({ expected }) => expected.effects.paths));
    expect([...called].filter((path) => !wanted.has(path))).toEqual([]);
    const states = Object.groupBy(runs, ({ expected }) => expected.state);
    // The workflows of a round are not all alike.
    for (const state of [RUN_STATES.completed, RUN_STATES.failed])
      expect(states[state]?.length ?? 0).toBeGreaterThan(5);
  },
);

async function readInboxes(
  projectId: string,
): Promise<Map<string, { titles: string[]; firstName: string | null }>> {
  const rows = await query<{ name: string; first_name: string | null; messages: Buffer[] | null }>(
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

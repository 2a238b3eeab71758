import { RUN_STATES } from '../../src/contract/workflow.ts';
import type { StepOfTest } from './workflows.ts';

/*
 * Random workflows, and a plain interpreter of their steps. What depends on other runs, on events and on the
 * clock, such as whether a throttle lets a run pass, is read from the run itself: shared-steps.ts checks it.
 */

export interface ModelInput {
  user: { external_id: string };
  name: string;
  n: number;
  group: number;
}

/** A posted event. */
export interface ModelEvent {
  name: string;
  user?: { external_id: string };
  data: { id: string; n: number };
}

/** A run as the API shows it. */
export interface SeenRun {
  id: string;
  workflow_key: string;
  status: { state: number; error?: string };
  steps: SeenStep[];
}

export interface SeenStep {
  place: string;
  command: string;
  state: string;
  output?: {
    event?: ModelEvent;
    timed_out?: true;
    digest?: string;
    items?: ModelInput[];
    count?: number;
  };
}

/** What the steps of a run read and change. */
interface Data {
  input: ModelInput;
  set: Record<string, unknown>;
  firstName: string | null;
  hasSent: boolean;
  steps: { state: string; timedOut: boolean }[];
}

/** A condition of a step, and the same in plain code. Throws if it cannot be evaluated. */
interface ModelCondition {
  text: string;
  holds(data: Data): boolean;
}

type HowItEnded = 'completed' | 'failed' | 'aborted' | 'collected';

/** A step, and what it does in plain code. */
export interface ModelStep {
  step: StepOfTest;
  condition: ModelCondition | undefined;
  branches?: { condition: ModelCondition | undefined; steps: ModelStep[] }[];
  /** Of a throttle or a digest. */
  shared?: { limit: number; windowMs: number; maxWindowMs: number; keyOf: (input: ModelInput) => string };
  /** Of a wait for an event: whether its condition accepts one. */
  accepts?: (input: ModelInput, event: ModelEvent) => boolean;
  effect(data: Data, effects: Effects, seen: SeenStep | undefined, isThrottled: boolean): HowItEnded;
}

/** What a run changes outside of itself. */
export interface Effects {
  titles: string[];
  paths: string[];
  firstName: string | null;
}

export const EVENT_NAMES = ['go', 'stop', 'turn'];
const COLORS = ['red', 'green', 'blue'];
const WINDOWS_S = [1, 60, 3_600, 86_400];

/** Makes random steps. `http` steps send their requests to `hostAddress`. */
export class WorkflowModel {
  readonly #random: () => number;
  readonly #hostAddress: string;
  #made = 0;
  #sharesUsers = false;

  constructor(random: () => number, hostAddress: string) {
    this.#random = random;
    this.#hostAddress = hostAddress;
  }

  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  oneOf<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)] as Value;
  }

  happens(probability: number): boolean {
    return this.#random() < probability;
  }

  /** Returns a name that no other thing has. */
  name(kind: string): string {
    this.#made += 1;
    return `${kind}-${this.#made}`;
  }

  /** Returns the steps of a workflow. If its runs share users, steps do not change or read them. */
  steps(sharesUsers: boolean): ModelStep[] {
    this.#sharesUsers = sharesUsers;
    return this.#steps(0, 7);
  }

  /** Steps of the workflow itself or, with a number of steps before them, of a branch. */
  #steps(level: number, most: number, within?: number): ModelStep[] {
    return Array.from({ length: this.below(most + 1) }, (_, index) => {
      const before = within ?? index;
      const made = this.happens(0.05) ? this.#rareStep() : this.#step(level, before);
      const condition = this.#condition(before);
      return {
        ...made,
        condition,
        step: { ...made.step, ...(condition === undefined ? {} : { if: condition.text }) },
      };
    });
  }

  #condition(before: number): ModelCondition | undefined {
    if (this.happens(0.55)) return undefined;
    return this.happens(0.04) ? BROKEN : this.#soundCondition(before);
  }

  #soundCondition(before: number): ModelCondition {
    const than = this.below(4);
    const color = this.oneOf(COLORS);
    const index = this.below(before);
    const state = this.oneOf(['completed', 'skipped']);
    const conditions: ModelCondition[] = [
      { text: `input.n > ${than}`, holds: ({ input }) => input.n > than },
      { text: `{{ input.n }} == ${than}`, holds: ({ input }) => input.n === than },
      { text: `run.data.color == '${color}'`, holds: ({ set }) => set.color === color },
      { text: 'notification.unseen', holds: ({ hasSent }) => hasSent },
    ];
    if (before > 0)
      conditions.push(
        {
          text: `steps[${index}].state == '${state}'`,
          holds: ({ steps }) => steps[index]?.state === state,
        },
        {
          text: `steps[${index}].output.timed_out == true`,
          holds: ({ steps }) => steps[index]?.timedOut === true,
        },
      );
    if (!this.#sharesUsers)
      conditions.push({
        text: `user.first_name == '${color}'`,
        holds: ({ firstName }) => firstName === color,
      });
    return this.oneOf(conditions);
  }

  #step(level: number, before: number): Omit<ModelStep, 'condition'> {
    const kinds = [
      () => this.#broadcast(),
      () => this.#set(),
      () => this.#wait({ duration: this.oneOf([0, 1, 60, 86_400, 90 * 86_400]) }),
      () => this.#wait({ until: this.oneOf(['2020-02-29T00:00:00Z', '{{ run.created_at }}']) }),
      () => ({ step: { command: 'pause' }, effect: () => 'completed' as const }),
      () => this.#http(),
      () => this.#waitFor(),
      () => this.#throttle(),
      () => (this.#sharesUsers ? this.#digest() : this.#updateUser()),
    ];
    if (level < 3) kinds.push(() => this.#branch(level, before));
    return this.oneOf(kinds)();
  }

  #broadcast(): Omit<ModelStep, 'condition'> {
    const title = this.name('message');
    const recipients = [{ external_id: '{{ input.user.external_id }}', last_name: title }];
    // With details of its user, a broadcast takes the queue.
    const more = this.happens(0.3) && !this.#sharesUsers ? { recipients } : {};
    return {
      step: { command: 'broadcast', input: { title: `${title} of {{ input.name }}`, ...more } },
      effect(data, { titles }) {
        titles.push(`${title} of ${data.input.name}`);
        data.hasSent = true;
        return 'completed';
      },
    };
  }

  #set(): Omit<ModelStep, 'condition'> {
    const color = this.oneOf(COLORS);
    return {
      step: { command: 'set', input: { color, length: '{{ steps.size }}' } },
      effect({ set }) {
        set.color = color;
        return 'completed';
      },
    };
  }

  #wait(input: Record<string, unknown>): Omit<ModelStep, 'condition'> {
    return { step: { command: 'wait', input }, effect: () => 'completed' };
  }

  #updateUser(): Omit<ModelStep, 'condition'> {
    const color = this.oneOf(COLORS);
    return {
      step: { command: 'update_user', input: { first_name: color } },
      effect(data, effects) {
        data.firstName = color;
        effects.firstName = color;
        return 'completed';
      },
    };
  }

  #http(): Omit<ModelStep, 'condition'> {
    const kind = this.happens(0.1) ? 'gone' : 'found';
    const path = `/${kind}/${kind === 'gone' ? 0 : this.below(3)}/${this.name('call')}`;
    return {
      step: { command: 'http', input: { url: `${this.#hostAddress}${path}/{{ input.name }}` } },
      effect({ input }, { paths }) {
        paths.push(`${path}/${input.name}`);
        return kind === 'gone' ? 'failed' : 'completed';
      },
    };
  }

  #waitFor(): Omit<ModelStep, 'condition'> {
    const event = this.oneOf(EVENT_NAMES);
    const than = this.below(5);
    const [text, accepts] = this.oneOf<[string | undefined, NonNullable<ModelStep['accepts']>]>([
      [undefined, () => true],
      [`event.data.n > ${than}`, (_, { data }) => data.n > than],
      ['event.data.n == input.n', (input, { data }) => data.n === input.n],
    ]);
    const input = { event, timeout: this.oneOf(WINDOWS_S), ...(text === undefined ? {} : { if: text }) };
    return {
      step: { command: 'wait_for', input },
      accepts: (input, { name, user, ...rest }) =>
        name === event &&
        (user === undefined || user.external_id === input.user.external_id) &&
        accepts(input, { name, ...rest }),
      effect: () => 'completed',
    };
  }

  #throttle(): Omit<ModelStep, 'condition'> {
    const [limit, window, isKeyed] = [1 + this.below(4), this.oneOf(WINDOWS_S), this.happens(0.5)];
    const keyOf = ({ user, group }: ModelInput) => (isKeyed ? `group ${group}` : user.external_id);
    return {
      step: { command: 'throttle', input: { limit, window, ...(isKeyed ? GROUP : {}) } },
      shared: { limit, windowMs: window * 1_000, maxWindowMs: 0, keyOf },
      effect: (_data, _effects, _seen, isThrottled) => (isThrottled ? 'aborted' : 'completed'),
    };
  }

  #digest(): Omit<ModelStep, 'condition'> {
    const [window, isSliding, isKeyed] = [this.oneOf(WINDOWS_S), this.happens(0.5), this.happens(0.3)];
    const maxWindow = isSliding ? 3 * window : window;
    const keyOf = ({ user, group }: ModelInput) => `${user.external_id} ${isKeyed ? group : ''}`;
    const sliding = isSliding ? { max_window: maxWindow } : {};
    return {
      step: { command: 'digest', input: { window, ...sliding, ...(isKeyed ? GROUP : {}) } },
      shared: { limit: 0, windowMs: window * 1_000, maxWindowMs: maxWindow * 1_000, keyOf },
      effect: (_data, _effects, seen) => (seen?.output?.digest === undefined ? 'completed' : 'collected'),
    };
  }

  #branch(level: number, before: number): Omit<ModelStep, 'condition'> {
    const branches = Array.from({ length: 1 + this.below(3) }, () => ({
      condition: this.happens(0.8) ? this.#soundCondition(before) : undefined,
      steps: this.#steps(level + 1, 3, before),
    }));
    const input = branches.map(({ condition, steps }) => ({
      ...(condition === undefined ? {} : { if: condition.text }),
      steps: steps.map(({ step }) => step),
    }));
    return {
      step: { command: 'branch', input: { branches: input } },
      branches,
      effect: () => 'completed',
    };
  }

  #rareStep(): Omit<ModelStep, 'condition'> {
    return this.oneOf<Omit<ModelStep, 'condition'>>([
      { step: { command: 'abort', input: { reason: 'enough' } }, effect: () => 'aborted' },
      { step: { command: 'teleport' }, effect: () => 'failed' },
      { step: { command: 'wait', input: { duration: '{{ input.name }}' } }, effect: () => 'failed' },
    ]);
  }
}

const GROUP = { key: '{{ input.group }}' };
const BROKEN: ModelCondition = {
  text: "input.n + 'a' == 'b'",
  holds: () => {
    throw new Error('a number and a text cannot be added');
  },
};

/** Returns the step at a place, such as `3.0.2`. */
export function stepAt(steps: readonly ModelStep[], place: string): ModelStep | undefined {
  const [index = 0, ...path] = place.split('.').map(Number);
  let step = steps[index];
  for (let at = 0; at < path.length; at += 2)
    step = step?.branches?.[path[at] as number]?.steps[path[at + 1] as number];
  return step;
}

/** What the plain interpreter says of a run. */
export interface Expected {
  state: number;
  steps: string[];
  effects: Effects;
}

const HALT = Symbol('the run has ended');

/** Interprets steps as the documentation describes them. */
export function interpret(steps: readonly ModelStep[], input: ModelInput, run: SeenRun): Expected {
  const data: Data = { input, set: {}, firstName: null, hasSent: false, steps: [] };
  const effects: Effects = { titles: [], paths: [], firstName: null };
  const done: string[] = [];
  const seen = new Map(run.steps.map((step) => [step.place, step]));
  const throttledAt = run.status.error?.startsWith('throttled: ') ? run.steps.at(-1)?.place : undefined;
  let state: number = RUN_STATES.completed;
  const halt = (at: string, command: string, how: Exclude<HowItEnded, 'completed'>): never => {
    done.push(`${at} ${command} ${how === 'failed' ? how : 'completed'}`);
    if (how !== 'collected') state = RUN_STATES[how];
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
        results[index] = { state: 'skipped', timedOut: false };
        continue;
      }
      const how = effect(data, effects, seen.get(at), throttledAt === at);
      if (how !== 'completed') halt(at, command, how);
      const taken = branches?.findIndex((one) => one.condition === undefined || one.condition.holds(data));
      const branch = branches?.[taken ?? -1];
      done.push(`${at} ${command} completed`);
      results[index] = { state: 'completed', timedOut: seen.get(at)?.output?.timed_out === true };
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

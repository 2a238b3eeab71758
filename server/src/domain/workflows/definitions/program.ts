import { STEP_MEMBERS, workflowData } from '../../../contract/readable.ts';
import { problemsIn } from '../../../contract/validation.ts';
import { COMMAND_INPUTS, MAX_STEP_LEVELS, MAX_STEPS_IN_ALL } from '../../../contract/workflow.ts';
import {
  type Condition,
  conditionBytes,
  DATA_WITH_EVENT,
  MAX_CONDITION_CHARACTERS,
  parseCondition,
  variablesOf,
} from '../../../lib/expression.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { type Members, type Shape, unknownVariables } from '../../../lib/variables.ts';
import { COMMANDS } from '../steps/commands.ts';
import { parseRendering, type Rendering, TEMPLATE } from './rendering.ts';

/** The steps of a workflow with their conditions and templates parsed. */
export interface Program {
  steps: readonly ProgramStep[];
  /** What its conditions and templates may read, so that nothing else is loaded. */
  reads: { user: boolean; notification: boolean; steps: boolean; bodies: boolean };
  sendsBroadcasts: boolean;
  /** An estimate of the memory that it takes. */
  bytes: number;
}

// Measured: 7, without conditions and templates.
const BYTES_PER_CHARACTER = 10;

export interface ProgramStep {
  command: string;
  condition: Condition | undefined;
  /** Whether its condition, or one of a branch, may give another result later in the same turn. */
  conditionVaries: boolean;
  /** Whether its input may be rendered to something else later. */
  inputVaries: boolean;
  /** Whether its condition, one of a branch or of an event, or its input reads the notification. */
  readsNotification: boolean;
  /** Of a `branch`, whose input is not rendered: its steps are when they are executed. */
  branches?: readonly { condition: Condition | undefined; steps: readonly ProgramStep[] }[];
  /** Of a `wait_for`: the events that continue the run. */
  accepts?: Condition;
  input: Rendering;
}

/**
 * Parses the steps of a workflow of any shape. Returns the problems that the schema of a workflow does not
 * find as well: each names its place (`steps.2.input.branches.0.if`). Steps with problems are left out. The
 * inputs of commands are checked if the time of the check is given: those of stored steps were.
 */
export async function parseProgram(
  steps: unknown,
  nowMs?: number,
): Promise<{ program: Program; problems: string[] }> {
  const parser = new Parser(nowMs);
  const parsed = await parser.list(steps, { path: 'steps', level: 1, allSteps: (before) => before });
  const text = JSON.stringify(steps) ?? '';
  const reads = (name: string) => new RegExp(`\\b${name}\\b`).test(text);
  return {
    program: {
      steps: parsed,
      reads: {
        // Also the recipient of a broadcast that names none, and whose window a step waits for.
        user: ['user', 'update_user', 'broadcast', 'delivery_window'].some(reads),
        notification: reads('notification'),
        steps: reads('steps'),
        bodies: READS_BODY.test(text),
      },
      sendsBroadcasts: reads('broadcast'),
      bytes: BYTES_PER_CHARACTER * text.length + parser.bytes,
    },
    problems: parser.problems,
  };
}

// In one string of the JSON: `steps[0].output.body.id`. The member `body` of an input is a string of its own.
const READS_BODY = /\bsteps\b(?:\\.|[^"\\])*\bbody\b/;

/** A list of steps within the workflow. */
interface List {
  path: string;
  level: number;
  /** Returns the shape of `steps` for a step of the list, with the shapes of the steps before it. */
  allSteps(before: readonly Shape[]): readonly Shape[];
}

type ReadStep = Omit<ProgramStep, keyof Readings>;
type Readings = Pick<ProgramStep, 'conditionVaries' | 'inputVaries' | 'readsNotification'>;

// What a condition or a template reads from outside of the run: it may change at any time.
const VARIABLE = /(?<![.\w])(user|notification|now|today)\b/;
const NOTIFICATION = /(?<![.\w])notification\b/;

function readingsOf(step: unknown, command: string): Readings {
  const mentions = (name: RegExp, ...values: unknown[]) => name.test(JSON.stringify(values));
  const input = memberOf(step, 'input');
  const ofBranches = itemsOf(memberOf(input, 'branches')).map((branch) => memberOf(branch, 'if'));
  const conditions = [memberOf(step, 'if'), ...ofBranches];
  // The steps of a branch, and the name of an event, are not rendered with it.
  const rendered = command === 'branch' || command === 'wait_for' ? memberOf(input, 'if') : input;
  return {
    conditionVaries: mentions(VARIABLE, conditions),
    inputVaries: mentions(VARIABLE, input),
    readsNotification: mentions(NOTIFICATION, conditions, rendered),
  };
}

class Parser {
  readonly problems: string[] = [];
  /** The memory of the conditions and templates. */
  bytes = 0;
  readonly #between = takeTurns();
  readonly #nowMs: number | undefined;
  #count = 0;

  constructor(nowMs: number | undefined) {
    this.#nowMs = nowMs;
  }

  async list(given: unknown, list: List): Promise<ProgramStep[]> {
    const { path, level } = list;
    const steps = itemsOf(given);
    this.#count += steps.length;
    if (this.#count > MAX_STEPS_IN_ALL)
      return this.#stop(`Param 'steps' has more than ${MAX_STEPS_IN_ALL} steps in all`);
    if (level > MAX_STEP_LEVELS)
      return this.#stop(`Param '${path}' is nested in more than ${MAX_STEP_LEVELS} levels`);
    const parsed: ProgramStep[] = [];
    const before: Shape[] = [];
    for (const [index, step] of steps.entries()) {
      const command = memberOf(step, 'command');
      if (typeof command === 'string') {
        const read = await this.#step(step, command, { list, index, before });
        parsed.push({ ...read, ...readingsOf(step, command) });
      }
      before.push(shapeOf(step));
    }
    return parsed;
  }

  async #step(
    step: unknown,
    command: string,
    { list, index, before }: { list: List; index: number; before: readonly Shape[] },
  ): Promise<ReadStep> {
    const path = `${list.path}.${index}`;
    const data = workflowData(list.allSteps(before));
    const condition = await this.#condition(memberOf(step, 'if'), `${path}.if`, data);
    const input = memberOf(step, 'input') ?? {};
    if (this.#nowMs !== undefined)
      this.#checkInput(command, input, { path: `${path}.input`, nowMs: this.#nowMs });
    if (command === 'wait_for') return this.#waitFor(condition, input, `${path}.input`, data);
    if (command !== 'branch') {
      return { command, condition, input: await this.#rendering(input, `${path}.input`, data) };
    }
    const branches: { condition: Condition | undefined; steps: ProgramStep[] }[] = [];
    for (const [index, branch] of itemsOf(memberOf(input, 'branches')).entries()) {
      const at = `${path}.input.branches.${index}`;
      branches.push({
        condition: await this.#condition(memberOf(branch, 'if'), `${at}.if`, data),
        steps: await this.list(memberOf(branch, 'steps'), {
          path: `${at}.steps`,
          level: list.level + 1,
          allSteps: (steps) => list.allSteps([...before, { ...STEP_MEMBERS, steps }]),
        }),
      });
    }
    return { command, condition, branches, input: async () => ({}) };
  }

  /** The condition of a `wait_for` is evaluated for each event, not rendered. */
  async #waitFor(
    condition: Condition | undefined,
    input: object,
    path: string,
    data: Members,
  ): Promise<ReadStep> {
    const { if: given, ...rest } = input as { if?: unknown };
    const withEvent = { ...data, event: 'open' } satisfies Members;
    const accepts = await this.#condition(given, `${path}.if`, withEvent, DATA_WITH_EVENT);
    return {
      ...{ command: 'wait_for', condition, input: await this.#rendering(rest, path, data) },
      ...(accepts === undefined ? {} : { accepts }),
    };
  }

  async #rendering(input: unknown, path: string, data: Members): Promise<Rendering> {
    const parsed = await parseRendering(input, path, { data, between: this.#between });
    this.problems.push(...parsed.problems);
    this.bytes += parsed.bytes;
    return parsed.rendering;
  }

  async #condition(
    given: unknown,
    path: string,
    data: Members,
    names?: Parameters<typeof parseCondition>[1],
  ): Promise<Condition | undefined> {
    if (typeof given !== 'string' || given.length > MAX_CONDITION_CHARACTERS) return undefined;
    await this.#between();
    const parsed = await parseCondition(given, names);
    if ('problem' in parsed) {
      this.problems.push(`Param '${path}' is not a condition: ${parsed.problem}`);
      return undefined;
    }
    this.bytes += conditionBytes(given);
    this.problems.push(...unknownVariables(variablesOf(parsed), data, `Param '${path}'`));
    return parsed;
  }

  /** Validates an input except for the values that templates will make. */
  #checkInput(command: string, input: unknown, { path, nowMs }: { path: string; nowMs: number }): void {
    const { problems, conflicts } = COMMANDS.get(command) ?? {};
    const found = [...inputProblems(command, input, 'stored'), ...(problems?.(input, nowMs) ?? [])];
    const ofValues = found.filter((problem) => {
      const place = placeIn(problem);
      return !isRendered(input, place === ROOT ? [] : place.split('.'));
    });
    for (const problem of new Set([...ofValues, ...(conflicts?.(input) ?? [])])) {
      const place = placeIn(problem);
      this.problems.push(
        problem.replace(/^Param '[^']*'/, `Param '${place === ROOT ? path : `${path}.${place}`}'`),
      );
    }
  }

  #stop(problem: string): [] {
    if (!this.problems.includes(problem)) this.problems.push(problem);
    return [];
  }
}

/** The shape of a step that was executed. If it is a branch, any of its lists may have been. */
function shapeOf(step: unknown): Shape {
  if (memberOf(step, 'command') !== 'branch') return STEP_MEMBERS;
  const branches = itemsOf(memberOf(memberOf(step, 'input'), 'branches'));
  const longest = Math.max(0, ...branches.map((branch) => itemsOf(memberOf(branch, 'steps')).length));
  return { ...STEP_MEMBERS, steps: Array(longest).fill({ ...STEP_MEMBERS, steps: 'open' }) };
}

const ROOT = '(root)';

function placeIn(problem: string): string {
  return /^Param '([^']*)'/.exec(problem)?.[1] ?? '';
}

/** Whether the value at this place, or one that contains it, is a template. */
function isRendered(input: unknown, place: readonly string[]): boolean {
  let value = input;
  for (const name of ['', ...place]) {
    if (name !== '') value = memberOf(value, name);
    if (typeof value === 'string') return TEMPLATE.test(value);
  }
  return false;
}

type Validate = (value: unknown) => string[];
const validators = { stored: new Map<string, Validate>(), rendered: new Map<string, Validate>() };

/**
 * Returns the problems of an input of a command; none if the command does not exist. Templates make texts: in
 * a rendered input, it replaces those that should be a number or a boolean.
 */
export function inputProblems(command: string, input: unknown, as: keyof typeof validators): string[] {
  if (!Object.hasOwn(COMMAND_INPUTS, command)) return [];
  let validate = validators[as].get(command);
  if (validate === undefined) {
    validate = problemsIn(COMMAND_INPUTS[command] as object, { convert: as === 'rendered' });
    validators[as].set(command, validate);
  }
  return validate(input);
}

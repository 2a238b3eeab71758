import type { RE2JS } from '@bufbuild/re2';
import type { Environment } from '@marcbachmann/cel-js';
import { costOf, isMap, STEPS_PER_KEY, weightOf } from './cel-costs.ts';
import { patternOf, sizeOfPattern } from './cel-patterns.ts';

/** A CEL expression that has been parsed and judged by its types. */
export interface Expression {
  /** Its value over these variables. Throws CelError. */
  evaluate(variables: Readonly<Record<string, unknown>>): unknown;
}

/** An expression that has no value over this data, or needs too many steps to find it. */
export class CelError extends Error {
  /** It went wrong after something had been read that is not there, or null. */
  readonly missing: boolean;

  constructor(message: string, { missing, cause }: { missing: boolean; cause?: unknown }) {
    super(message, { cause });
    this.missing = missing;
  }
}

// A step is what the library does at a node of the tree, or as much copying and comparing as takes that long:
// about 0.1 µs.
const MAX_STEPS = 20_000;
const LIMITS = {
  maxAstNodes: 500,
  maxDepth: 32,
  maxListElements: 200,
  maxMapEntries: 50,
  maxCallArguments: 8,
};

// The standard's functions, without those that build large values of small ones (join, bytes) or name
// intermediate values (cel.bind).
const FUNCTIONS = new Set(
  `has size all exists exists_one filter map startsWith endsWith contains matches lowerAscii upperAscii trim indexOf lastIndexOf
  substring split bool int uint double string type dyn timestamp duration getFullYear getMonth getDate getDayOfMonth getDayOfWeek
  getDayOfYear getHours getMinutes getSeconds getMilliseconds`.split(/\s+/),
);

/**
 * Parses an expression over `names`, or says what is wrong with it. Beside the standard: a member that is not
 * there is null. An expression ends after 20,000 steps, whatever it loops over.
 */
export async function parseExpression(
  text: string,
  names: readonly string[],
): Promise<Expression | { problem: string }> {
  const { environment, regex } = await load(names);
  try {
    const parsed = environment.parse(text);
    const { valid, type, error } = parsed.check();
    if (!valid) return { problem: summary(error) };
    if (type !== 'bool' && type !== 'dyn') return { problem: `must be true or false, not ${type}` };
    const run: Run = { steps: 0, missing: false, regex };
    const problem = adopt(parsed.ast as unknown as Node, run);
    if (problem !== undefined) return { problem };
    return { evaluate: (variables) => evaluate(parsed, run, variables) };
  } catch (error) {
    return { problem: summary(error) };
  }
}

function evaluate(
  parsed: (variables: Record<string, unknown>) => unknown,
  run: Run,
  variables: Readonly<Record<string, unknown>>,
): unknown {
  run.steps = MAX_STEPS;
  run.missing = false;
  try {
    return parsed(variables);
  } catch (error) {
    const cause = run.steps < 0 ? OUT_OF_STEPS : error; // `||` and loops go on after an error
    throw new CelError(summary(cause), { missing: run.missing && run.steps >= 0, cause });
  }
}

// One for all: a loop over a long list may meet it at each element, and making an error takes longer than
// throwing it.
const OUT_OF_STEPS = new Error(`needs more than ${MAX_STEPS} steps`);

function summary(error: unknown): string {
  if (error instanceof RangeError) return 'out of range';
  const said = error instanceof Error ? error : new Error(String(error));
  const text = 'summary' in said ? String(said.summary) : (said.message.split('\n')[0] ?? '');
  return text.slice(0, 300);
}

/** The state of the evaluation that runs: there is never more than one, because nothing in it waits. */
interface Run {
  steps: number;
  missing: boolean;
  regex: typeof RE2JS;
}

// The library's syntax tree, as far as it is used here. Its version is pinned, and the tests hold it to this.
interface Node {
  op: string;
  args: unknown;
  /** Of an operator with two operands. */
  left: Node;
  right: Node;
  /** Given the operands, or the list of a call's. */
  handle(...operands: unknown[]): unknown;
  meta: { evaluate: Evaluate; alternate?: Node; macro?: { evaluate: Evaluate; args?: unknown } };
  setMeta(key: string, value: unknown): void;
}
type Evaluator = { run(node: Node, context: unknown): unknown };
type Evaluate = (evaluator: Evaluator, node: Node, context: unknown) => unknown;

/** Has every node of the tree count what it does; answers what is wrong with a node. */
function adopt(value: unknown, run: Run, seen = new Set<unknown>()): string | undefined {
  if (typeof value !== 'object' || value === null || seen.has(value)) return undefined;
  seen.add(value);
  if (Array.isArray(value)) return firstOf(value, (one) => adopt(one, run, seen));
  if (!isNode(value)) {
    // What a loop consists of.
    const { iterable, init, step } = value as { iterable?: unknown; init?: unknown; step?: unknown };
    return firstOf([iterable, init, step], (one) => adopt(one, run, seen));
  }
  const problem = problemOfCall(value, run);
  if (problem !== undefined) return problem;
  countBefore(value, run);
  const { alternate, macro } = value.meta;
  if (macro !== undefined) value.setMeta('macro', { ...macro, evaluate: hasMember(macro.evaluate) });
  value.setMeta('evaluate', counted(meaningOf(value, run), run));
  return firstOf([value.args, alternate, macro?.args], (one) => adopt(one, run, seen));
}

function firstOf<Item, Found>(
  items: readonly Item[],
  find: (item: Item) => Found | undefined,
): Found | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isNode(value: object): value is Node {
  return 'op' in value && 'setMeta' in value;
}

function calledBy({ op, args }: Node): string | undefined {
  return op === 'call' || op === 'rcall' ? String((args as unknown[])[0]) : undefined;
}

function problemOfCall(node: Node, run: Run): string | undefined {
  const name = calledBy(node);
  if (name !== undefined && !FUNCTIONS.has(name)) return `there is no function ${name}()`;
  const [argument] = name === 'matches' ? ((node.args as unknown[])[2] as Node[]) : [];
  if (argument?.op !== 'value') return undefined;
  run.steps = MAX_STEPS;
  patternOf(String(argument.args), run.regex, (steps) => spend(run, steps)); // what is wrong with it is thrown
  return undefined;
}

/** What a node is worth: the library's own answer but where ours differs. */
function meaningOf(node: Node, run: Run): Evaluate {
  const own = node.meta.evaluate;
  if (node.op === '.' || node.op === '[]') return memberOrNull(own);
  if (node.op === '==' || node.op === '!=' || node.op === 'in') return comparing(run);
  if (node.op === 'comprehension') return looping(run);
  const name = calledBy(node);
  if (name === 'matches') return matching(run);
  // With a time zone these ask Intl, which takes some 50 µs.
  if (name?.startsWith('get')) return spendingFirst(500, own, run);
  return own;
}

function counted(evaluate: Evaluate, run: Run): Evaluate {
  return (evaluator, node, context) => {
    spend(run, 1);
    const value = evaluate(evaluator, node, context);
    if (value === null && READING.has(node.op)) run.missing = true;
    else if (typeof value === 'string') spend(run, value.length >> 6);
    else if (Array.isArray(value) && !PASSING_ON.has(node.op)) spend(run, value.length >> 2);
    return value;
  };
}

const READING = new Set(['id', '.', '[]']);
// The list that map() and filter() make goes through these with every element; it was counted when the
// element was added.
const PASSING_ON = new Set(['accuPush', 'accuValue', '?:']);

function spend(run: Run, steps: number): void {
  run.steps -= steps;
  if (run.steps < 0) throw OUT_OF_STEPS;
}

function spendingFirst(steps: number, evaluate: Evaluate, run: Run): Evaluate {
  return (evaluator, node, context) => {
    spend(run, steps);
    return evaluate(evaluator, node, context);
  };
}

/** Has a call count what it takes beyond what its operands were counted for when they were read. */
function countBefore(node: Node, run: Run): void {
  const cost = costOf(calledBy(node) ?? '');
  if (cost === undefined) return;
  const own = node.handle;
  node.handle = (operands, ...rest) => {
    spend(run, cost(operands as readonly unknown[]));
    return own.call(node, operands, ...rest);
  };
}

/** A map is gone through by its keys, all of which are listed before. */
function looping(run: Run): Evaluate {
  return (evaluator, node, context) => {
    const { args } = node as unknown as { args: { iterable: Node } };
    const items = evaluator.run(args.iterable, context);
    if (!isMap(items)) return node.handle(items, args, evaluator, context);
    const keys = Object.keys(items);
    spend(run, STEPS_PER_KEY * keys.length);
    return node.handle(keys, args, evaluator, context);
  };
}

const MISSING = new Set(['no_such_key', 'index_out_of_bounds']);

function memberOrNull(own: Evaluate): Evaluate {
  return (evaluator, node, context) => {
    try {
      return own(evaluator, node, context);
    } catch (error) {
      if (!MISSING.has(codeOf(error))) throw error;
      return null;
    }
  };
}

/** `has(user.address.city)` is false where there is no address. */
function hasMember(own: Evaluate): Evaluate {
  return function (this: unknown, evaluator, node, context) {
    try {
      return own.call(this, evaluator, node, context);
    } catch (error) {
      if (!MISSING.has(codeOf(error))) throw error;
      return false;
    }
  };
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Objects and lists are compared to their depths, so that is counted before. */
function comparing(run: Run): Evaluate {
  return (evaluator, node, context) => {
    const left = evaluator.run(node.left, context);
    const right = evaluator.run(node.right, context);
    // The library would list all keys.
    if (node.op === 'in' && isMap(right)) return typeof left === 'string' && Object.hasOwn(right, left);
    spend(run, weightOf(left, run.steps));
    spend(run, weightOf(right, run.steps));
    return node.handle(left, right, node, evaluator);
  };
}

/**
 * `text.matches(pattern)` in the time that RE2 takes, which grows with the length of the text only as the
 * pattern does.
 */
function matching(run: Run): Evaluate {
  return (evaluator, node, context) => {
    const [, receiver, [argument]] = node.args as [string, Node, [Node]];
    const text = evaluator.run(receiver, context);
    const pattern = evaluator.run(argument, context);
    if (typeof text !== 'string' || typeof pattern !== 'string')
      throw new Error('matches() needs a string and a pattern');
    spend(run, (sizeOfPattern(pattern) * text.length) >> 8);
    return patternOf(pattern, run.regex, (steps) => spend(run, steps)).test(text);
  };
}

interface Loaded {
  environment: Environment;
  regex: typeof RE2JS;
}

// The libraries take some megabytes, which a server without conditions need not have.
const environments = new Map<string, Promise<Loaded>>();

function load(names: readonly string[]): Promise<Loaded> {
  const key = names.join(' ');
  let loading = environments.get(key);
  if (loading === undefined) {
    loading = Promise.all([import('@marcbachmann/cel-js'), import('@bufbuild/re2')]).then(([cel, re2]) => {
      const environment = new cel.Environment({ limits: LIMITS, homogeneousAggregateLiterals: false });
      for (const name of names) environment.registerVariable(name, 'dyn');
      return { environment, regex: re2.RE2JS };
    });
    environments.set(key, loading);
  }
  return loading;
}

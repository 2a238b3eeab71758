import type { RE2JS } from '@bufbuild/re2';
import type { Environment } from '@marcbachmann/cel-js';
import { costOf, isMap, STEPS_PER_KEY, weightOf } from './cel-costs.ts';
import { isMisreadClass, mapOf, withMaps } from './cel-maps.ts';
import { patternOf, sizeOfPattern } from './cel-patterns.ts';
import { loadOnce } from './load-once.ts';
import type { VariablePath } from './variables.ts';

/** A CEL expression that was parsed and type-checked. */
export interface Expression {
  /** Returns the value for these variables. Throws CelError. */
  evaluate(variables: Readonly<Record<string, unknown>>): unknown;
  /** Returns the variables that it reads. Those of macros, such as `x` in `all(x, …)`, are left out. */
  variables(): VariablePath[];
}

/** The expression has no value for this data, or takes too many steps. */
export class CelError extends Error {
  /** Whether the evaluation failed after reading a missing member or null. */
  readonly missing: boolean;

  constructor(message: string, { missing, cause }: { missing: boolean; cause?: unknown }) {
    super(message, { cause });
    this.missing = missing;
  }
}

// A step is one operation of the library, or the same time spent copying and comparing: about 0.1 µs.
const MAX_STEPS = 20_000;
const LIMITS = {
  maxAstNodes: 500,
  maxDepth: 32,
  maxListElements: 200,
  maxMapEntries: 50,
  maxCallArguments: 8,
};

// The standard functions, without those that build large values from small ones (join, bytes) or name
// intermediate values (cel.bind).
const FUNCTIONS = new Set(
  `has size all exists exists_one filter map startsWith endsWith contains matches lowerAscii upperAscii trim
  indexOf lastIndexOf substring split bool int uint double string type dyn timestamp duration getFullYear
  getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds
  getMilliseconds`.split(/\s+/),
);

/**
 * Parses an expression over the variables `names`, or returns the problem. Differs from the standard: a
 * missing member is null, null is ordered with nothing and not true, and int and double can be mixed in
 * calculations. An evaluation stops after 20,000 steps, even within a loop.
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
    const root = parsed.ast as unknown as Node;
    if (isCalculation(root)) return { problem: 'must be true or false, not a calculation' };
    const run: Run = { steps: 0, missing: false, misread: false, regex };
    const problem = instrument(root, run);
    if (problem !== undefined) return { problem };
    const paths = () => variablesOf(root, new Set(names));
    return {
      evaluate(variables) {
        try {
          return evaluate(parsed, run, variables);
        } catch (error) {
          // Few data need maps, so they are not searched before.
          if (!run.misread) throw error;
          return evaluate(parsed, run, variablesWithMaps(variables, paths()));
        }
      },
      variables: paths,
    };
  } catch (error) {
    return { problem: summary(error) };
  }
}

const CALCULATIONS = new Set(['+', '-', '*', '/', '%']);

/** Whether a node calculates with a literal. Its type is only known when it is evaluated: int or double. */
function isCalculation({ op, args }: Node): boolean {
  return CALCULATIONS.has(op) && (args as Node[]).some(({ checkedType }) => checkedType.kind !== 'dyn');
}

function evaluate(
  parsed: (variables: Record<string, unknown>) => unknown,
  run: Run,
  variables: Readonly<Record<string, unknown>>,
): unknown {
  run.steps = MAX_STEPS;
  run.missing = false;
  run.misread = false;
  try {
    return parsed(variables);
  } catch (error) {
    const cause = run.steps < 0 ? OUT_OF_STEPS : error; // `||` and loops continue after an error
    run.misread = cause !== OUT_OF_STEPS && (run.misread || isMisreadClass(cause));
    throw new CelError(summary(cause), { missing: run.missing && run.steps >= 0, cause });
  }
}

/** Returns the variables, with maps in those that the expression reads. */
function variablesWithMaps(
  variables: Readonly<Record<string, unknown>>,
  paths: readonly VariablePath[],
): Record<string, unknown> {
  const read = [...new Set(paths.map(([name]) => String(name)))];
  return { ...variables, ...Object.fromEntries(read.map((name) => [name, withMaps(variables[name])])) };
}

// Shared, because a loop may throw it for each element and creating an error takes longer than throwing it.
const OUT_OF_STEPS = new Error(`needs more than ${MAX_STEPS} steps`);

function summary(error: unknown): string {
  if (error instanceof RangeError) return 'out of range';
  const thrown = error instanceof Error ? error : new Error(String(error));
  const text = 'summary' in thrown ? String(thrown.summary) : (thrown.message.split('\n')[0] ?? '');
  return inPlainWords(text).slice(0, 300);
}

/** A syntax error of the library without the names of its tokens. */
function inPlainWords(text: string): string {
  const [, expected, found] = /^Expected (\w+), got (\w+)$/.exec(text) ?? [];
  if (expected !== undefined && found !== undefined)
    return `expected ${TOKENS[expected] ?? expected}, found ${TOKENS[found] ?? found}`;
  if (text === 'Unexpected token: EOF') return 'it ends too early';
  const [, token] = /^Unexpected token: (\w+)$/.exec(text) ?? [];
  if (token !== undefined) return `unexpected ${TOKENS[token] ?? token}`;
  return text === 'Unexpected character: =' ? `unexpected '=': equality is '=='` : text;
}

const TOKENS: Readonly<Record<string, string>> = {
  ...{ EOF: 'the end', NUMBER: 'a number', STRING: 'a text', BYTES: 'bytes', BOOLEAN: 'a boolean' },
  ...{
    NULL: 'null',
    IDENTIFIER: 'a name',
    PLUS: `'+'`,
    MINUS: `'-'`,
    MULTIPLY: `'*'`,
    DIVIDE: `'/'`,
    MODULO: `'%'`,
  },
  ...{ EQ: `'=='`, NE: `'!='`, LT: `'<'`, LE: `'<='`, GT: `'>'`, GE: `'>='`, AND: `'&&'`, OR: `'||'` },
  ...{ NOT: `'!'`, IN: `'in'`, LPAREN: `'('`, RPAREN: `')'`, LBRACKET: `'['`, RBRACKET: `']'` },
  ...{ LBRACE: `'{'`, RBRACE: `'}'`, DOT: `'.'`, COMMA: `','`, COLON: `':'`, QUESTION: `'?'` },
};

/** The state of the current evaluation. Only one runs at a time, because evaluation is synchronous. */
interface Run {
  steps: number;
  /** Whether a missing member or null was read. */
  missing: boolean;
  /** Whether a member `constructor` was taken for the class of a value. */
  misread: boolean;
  regex: typeof RE2JS;
}

// The parts of the library's syntax tree that are used here. The version is pinned, and tests cover this
// shape.
interface Node {
  op: string;
  args: unknown;
  checkedType: { kind: string };
  /** The operands of a binary operator. */
  left: Node;
  right: Node;
  /** Evaluates the operator for the operands, or the call for the list of operands. */
  handle(...operands: unknown[]): unknown;
  meta: { evaluate: Evaluate; alternate?: Node; macro?: { evaluate: Evaluate; args?: unknown } };
  setMeta(key: string, value: unknown): void;
}
type Evaluator = { run(node: Node, context: unknown): unknown };
type Evaluate = (evaluator: Evaluator, node: Node, context: unknown) => unknown;

/** Replaces the evaluation of every node by one that counts steps. Returns the first problem of a node. */
function instrument(value: unknown, run: Run, seen = new Set<unknown>()): string | undefined {
  if (typeof value !== 'object' || value === null || seen.has(value)) return undefined;
  seen.add(value);
  if (Array.isArray(value)) return firstOf(value, (one) => instrument(one, run, seen));
  if (!isNode(value)) {
    // A comprehension.
    const { iterable, init, step } = value as { iterable?: unknown; init?: unknown; step?: unknown };
    return firstOf([iterable, init, step], (one) => instrument(one, run, seen));
  }
  const problem = problemOfCall(value, run);
  if (problem !== undefined) return problem;
  countBefore(value, run);
  const { alternate, macro } = value.meta;
  if (macro !== undefined) value.setMeta('macro', { ...macro, evaluate: hasMember(macro.evaluate) });
  value.setMeta('evaluate', counted(meaningOf(value, run), run));
  const below = firstOf([value.args, alternate, macro?.args], (one) => instrument(one, run, seen));
  // After the operands, which replace their evaluation themselves.
  for (const operand of truthsOf(value)) operand.setMeta('evaluate', asTruth(operand.meta.evaluate, run));
  return below;
}

/** The operands of a node that must be true or false. */
function truthsOf({ op, args }: Node): readonly Node[] {
  if (op === '&&' || op === '||') return args as Node[];
  return op === '?:' ? (args as Node[]).slice(0, 1) : [];
}

/** Evaluates an operand that must be true or false: null is not true. */
function asTruth(evaluate: Evaluate, run: Run): Evaluate {
  return (evaluator, node, context) => {
    try {
      return evaluate(evaluator, node, context) ?? false;
    } catch (error) {
      run.misread ||= isMisreadClass(error); // `||` and loops may continue with another error
      throw error;
    }
  };
}

/** Returns the variables of these names that a node reads. */
function variablesOf(value: unknown, names: ReadonlySet<string>): VariablePath[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((one) => variablesOf(one, names));
  if (!isNode(value)) return [];
  const { alternate } = value.meta;
  if (alternate !== undefined) return variablesOf(alternate, names);
  if (value.op === 'comprehension') {
    const { iterable, iterVarName, step } = value.args as Comprehension;
    const inner = new Set(names);
    inner.delete(iterVarName);
    return [...variablesOf(iterable, names), ...variablesOf(step, inner)];
  }
  const path = pathOf(value);
  if (path === undefined) return variablesOf(value.args, names);
  const indexes = indexesOf(value).flatMap((index) => variablesOf(index, names));
  return names.has(String(path[0])) ? [path, ...indexes] : indexes;
}

interface Comprehension {
  iterable: Node;
  iterVarName: string;
  step: Node;
}

/** The names and indexes of a node that reads a variable or its members; undefined for other nodes. */
function pathOf({ op, args }: Node): VariablePath | undefined {
  if (op === 'id') return [String(args)];
  if (!MEMBERS.has(op)) return undefined;
  const [object, member] = args as [Node, Node | string];
  const parent = pathOf(object);
  if (parent === undefined) return undefined;
  if (typeof member === 'string') return [...parent, member];
  if (member.op !== 'value') return [...parent, undefined];
  return [...parent, typeof member.args === 'string' ? member.args : Number(member.args)];
}

const MEMBERS = new Set(['.', '.?', '[]', '[?]']);

/** The indexes within a path. */
function indexesOf({ op, args }: Node): unknown[] {
  if (!MEMBERS.has(op)) return [];
  const [object, member] = args as [Node, unknown];
  return [...indexesOf(object), member];
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
  patternOf(String(argument.args), run.regex, (steps) => spend(run, steps)); // throws for an invalid pattern
  return undefined;
}

/** Returns the evaluation of a node: the library's own, except where ours differs. */
function meaningOf(node: Node, run: Run): Evaluate {
  const own = node.meta.evaluate;
  if (node.op === '.' || node.op === '[]') return memberOrNull(own);
  if (node.op === '==' || node.op === '!=' || node.op === 'in') return comparing(run);
  if (ORDERING.has(node.op)) return ordering;
  if (node.op === 'map') return buildingMap;
  if (node.op === 'comprehension') return looping(run);
  const name = calledBy(node);
  if (name === 'matches') return matching(run);
  // With a time zone these call Intl, which takes about 50 µs.
  if (name?.startsWith('get')) return spendingFirst(500, own, run);
  return own;
}

function counted(evaluate: Evaluate, run: Run): Evaluate {
  return (evaluator, node, context) => {
    spend(run, 1);
    const value = evaluate(evaluator, node, context);
    if (value === null && READS.has(node.op)) run.missing = true;
    else if (typeof value === 'string') spend(run, value.length >> 6);
    else if (Array.isArray(value) && !LIST_BUILDING.has(node.op)) spend(run, value.length >> 2);
    return value;
  };
}

const ORDERING = new Set(['<', '<=', '>', '>=']);
const READS = new Set(['id', '.', '[]']);
// These return the list under construction of map() and filter() for every element. Its elements were counted
// when they were added.
const LIST_BUILDING = new Set(['accuPush', 'accuValue', '?:']);

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

/** Makes a call spend its additional cost before it runs. */
function countBefore(node: Node, run: Run): void {
  const cost = costOf(calledBy(node) ?? '');
  if (cost === undefined) return;
  const own = node.handle;
  node.handle = (operands, ...rest) => {
    spend(run, cost(operands as readonly unknown[]));
    return own.call(node, operands, ...rest);
  };
}

/** Iterates over the keys of a map. Listing them costs steps first. */
function looping(run: Run): Evaluate {
  return (evaluator, node, context) => {
    const { args } = node as unknown as { args: { iterable: Node } };
    const items = evaluator.run(args.iterable, context);
    if (!isMap(items) && !(items instanceof Map)) return node.handle(items, args, evaluator, context);
    const keys = items instanceof Map ? [...items.keys()] : Object.keys(items);
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

/** `has(user.address.city)` is false if there is no address. */
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

/** Compares objects and lists deeply, so their size is spent first. */
function comparing(run: Run): Evaluate {
  return (evaluator, node, context) => {
    const left = evaluator.run(node.left, context);
    const right = evaluator.run(node.right, context);
    if (node.op === 'in') {
      if (right === null) return false;
      // The library would list all keys.
      if (isMap(right)) return typeof left === 'string' && Object.hasOwn(right, left);
      if (right instanceof Map) return right.has(left);
    }
    spend(run, weightOf(left, run.steps));
    spend(run, weightOf(right, run.steps));
    return node.handle(left, right, node, evaluator);
  };
}

/** Null is ordered with nothing. */
const ordering: Evaluate = (evaluator, node, context) => {
  const left = evaluator.run(node.left, context);
  const right = evaluator.run(node.right, context);
  return left === null || right === null ? false : node.handle(left, right, node, evaluator);
};

const buildingMap: Evaluate = (evaluator, node, context) => {
  const entries = node.args as readonly (readonly [Node, Node])[];
  return mapOf(entries.map(([name, value]) => [evaluator.run(name, context), evaluator.run(value, context)]));
};

/**
 * Evaluates `text.matches(pattern)` with RE2, whose time grows with the length of the text times that of the
 * pattern.
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

// Loaded on first use: the libraries take some megabytes, which a server without conditions need not spend.
const environments = new Map<string, () => Promise<Loaded>>();

function load(names: readonly string[]): Promise<Loaded> {
  const key = names.join(' ');
  let loaded = environments.get(key);
  if (loaded === undefined) {
    loaded = loadOnce(async () => {
      const [cel, re2] = await Promise.all([import('@marcbachmann/cel-js'), import('@bufbuild/re2')]);
      const environment = new cel.Environment({ limits: LIMITS, homogeneousAggregateLiterals: false });
      for (const name of names) environment.registerVariable(name, 'dyn');
      registerOperators(environment);
      return { environment, regex: re2.RE2JS };
    });
    environments.set(key, loaded);
  }
  return loaded();
}

/** Adds what the standard leaves out. All numbers of JSON are double, and whole literals are int. */
function registerOperators(environment: Environment): void {
  environment.registerOperator('!null: bool', () => true);
  for (const [left, right] of [
    ['double', 'int'],
    ['int', 'double'],
  ]) {
    const register = (op: string, calculate: (a: number, b: number) => number) =>
      environment.registerOperator(`${left} ${op} ${right}: double`, (a, b) =>
        calculate(Number(a), Number(b)),
      );
    register('+', (a, b) => a + b);
    register('-', (a, b) => a - b);
    register('*', (a, b) => a * b);
    register('/', (a, b) => a / b);
    register('%', remainder);
  }
  environment.registerOperator('double % double: double', remainder);
}

function remainder(a: number, b: number): number {
  if (!Number.isInteger(a) || !Number.isInteger(b)) throw new Error('% needs whole numbers');
  if (b === 0) throw new Error('modulo by zero');
  return a % b;
}

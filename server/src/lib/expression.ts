import { CelError, type Expression, parseExpression } from './cel.ts';
import { isPlainObject } from './members.ts';
import { type Output, parseOutput, TemplateError } from './template.ts';
import type { VariablePath } from './variables.ts';

/**
 * A parsed condition. It is written in CEL: `user.custom_attributes.plan == 'premium'`. It may contain Liquid
 * outputs as values: `{{ user.email | downcase }} == 'ada@example.com'`, `'{{ user.first_name }} L' == 'Ada
 * L'`.
 */
export interface Condition {
  readonly text: string;
  readonly expression: Expression;
  /** In the order of the variables that replace them. */
  readonly outputs: readonly { output: Output; inText: boolean }[];
  /** The names that it may use. */
  readonly names: readonly DataName[];
}

/**
 * The data of a condition. A missing member is null. Its largest map should have at most about ten thousand
 * members, because they are listed before they can be counted.
 */
export interface ConditionData {
  input?: unknown;
  user?: unknown;
  steps?: unknown;
  run?: unknown;
  notification?: unknown;
  /** Only in conditions that were parsed with this name. */
  event?: unknown;
}

type DataName = keyof ConditionData;

/** A condition that cannot be evaluated with this data: types do not match, or it exceeds the work limit. */
export class ConditionError extends Error {}

/** The length limit of a condition. */
export const MAX_CONDITION_CHARACTERS = 2_000;
// Measured: up to 260.
const BYTES_PER_CHARACTER = 300;

/** Estimates the memory that a parsed condition takes, in bytes. */
export function conditionBytes(text: string): number {
  return BYTES_PER_CHARACTER * text.length;
}

// The total length of all outputs: enough for 16 outputs with a name and two filters each.
const MAX_LIQUID_CHARACTERS = 1_000;

/** Returns the variables that a condition reads. */
export function variablesOf({ expression, outputs }: Condition): VariablePath[] {
  return [
    ...expression.variables().filter(([name]) => !String(name).startsWith(OUTPUT)),
    ...outputs.flatMap(({ output }) => output.variables()),
  ];
}

/** Parses a condition over this data, or returns the problem. */
export async function parseCondition(
  text: string,
  names: readonly DataName[] = DATA,
): Promise<Condition | { problem: string }> {
  if (text.length > MAX_CONDITION_CHARACTERS)
    return { problem: `has more than ${MAX_CONDITION_CHARACTERS} characters` };
  if (text.includes(OUTPUT)) return { problem: `unknown variable: ${OUTPUT}` };
  const { source, outputs: found, problem } = withoutLiquid(text);
  if (problem !== undefined) return { problem };
  if (found.reduce((sum, { liquid }) => sum + liquid.length, 0) > MAX_LIQUID_CHARACTERS)
    return { problem: `has more than ${MAX_LIQUID_CHARACTERS} characters of Liquid` };
  const outputs: { output: Output; inText: boolean }[] = [];
  for (const { liquid, inText } of found) {
    const output = await parseOutput(liquid);
    if ('problem' in output) return output;
    outputs.push({ output, inText });
  }
  const expression = await parseExpression(source, [...names, ...OUTPUTS]);
  return 'problem' in expression ? expression : { text, expression, outputs, names };
}

/**
 * Returns whether a condition holds. A missing member is null: equal only to null, ordered with nothing, and
 * not true, so `!user.vip` holds. A condition that calls a function of null or calculates with it does not
 * hold. Throws ConditionError. The work of CEL is limited
 * in steps and that of Liquid in characters, both relative to the size of the data: the worst of 300 hostile
 * conditions over lists of a million members and texts of a million characters took 40 ms of CPU time. Usual
 * conditions take some microseconds.
 */
export function evaluate(condition: Condition, data: ConditionData): boolean {
  const { expression, outputs, names } = condition;
  const variables: Record<string, unknown> = {};
  for (const name of names) variables[name] = data[name] ?? null;
  try {
    for (const [index, { output, inText }] of outputs.entries()) {
      const value = output.value(data, outputs.length);
      variables[`${OUTPUT}${index}`] = inText ? textOf(value) : literalValue(value);
    }
    return truth(expression.evaluate(variables));
  } catch (error) {
    if (error instanceof CelError && error.missing) return false;
    if (error instanceof CelError || error instanceof TemplateError)
      throw new ConditionError(error.message, { cause: error });
    throw error;
  }
}

function truth(value: unknown): boolean {
  if (value === null) return false; // a missing member
  if (typeof value === 'boolean') return value;
  throw new ConditionError('is neither true nor false');
}

const DATA: readonly DataName[] = ['input', 'user', 'steps', 'run', 'notification'];
/** What conditions about an event of a run may use. */
export const DATA_WITH_EVENT: readonly DataName[] = [...DATA, 'event'];
const OUTPUT = 'liquid_output_';
const MAX_OUTPUTS = 16;
const OUTPUTS: readonly string[] = Array.from({ length: MAX_OUTPUTS }, (_none, index) => `${OUTPUT}${index}`);

interface Pure {
  source: string;
  outputs: { liquid: string; inText: boolean }[];
  problem?: string;
}

// A CEL string's opening quotes, a comment, or the start of Liquid; string contents are skipped.
const TOKENS = /(\b[bBrR]{1,2})?("""|'''|"|')|\/\/[^\n]*|\{\{|\{%/g;

/**
 * Replaces each output by a variable. If Liquid were rendered into the text before parsing, a user's name
 * could become code; a variable can only be a value, and the condition is parsed once for all users.
 */
function withoutLiquid(text: string): Pure {
  const pure: Pure = { source: '', outputs: [] };
  let at = 0;
  while (at < text.length) {
    TOKENS.lastIndex = at;
    const token = TOKENS.exec(text);
    if (token === null) break;
    pure.source += text.slice(at, token.index);
    const [found, prefix = '', quote] = token;
    if (found === '{%')
      return { ...pure, problem: 'Liquid tags are not allowed in conditions, only {{ outputs }}' };
    if (found === '{{') at = takeOutput(pure, text, token.index, false);
    else if (quote === undefined) {
      pure.source += found;
      at = token.index + found.length;
    } else {
      const start = token.index + found.length;
      const end = endOfString(text, start, quote);
      if (end === undefined) return { ...pure, problem: `unclosed string: ${quote}` };
      takeString(pure, text.slice(start, end), { open: found, quote, bytes: /b/i.test(prefix) });
      at = end + quote.length;
    }
    if (pure.problem !== undefined) return pure;
  }
  pure.source += text.slice(at);
  if (pure.outputs.length > MAX_OUTPUTS) pure.problem = `has more than ${MAX_OUTPUTS} Liquid outputs`;
  return pure;
}

/** Moves the output that begins at `start` into `pure`. Returns the index after it. */
function takeOutput(pure: Pure, text: string, start: number, inText: boolean): number {
  const end = text.indexOf('}}', start);
  if (end < 0) {
    pure.problem = '{{ without }}';
    return text.length;
  }
  pure.source += `(${OUTPUT}${pure.outputs.length})`;
  pure.outputs.push({ liquid: text.slice(start + 2, end), inText });
  return end + 2;
}

function endOfString(text: string, start: number, quote: string): number | undefined {
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === '\\')
      at += 1; // also in a raw string, which keeps both characters
    else if (text.startsWith(quote, at)) return at;
  }
  return undefined;
}

/** Adds a string to the source. One with outputs becomes a concatenation of its parts. */
function takeString(
  pure: Pure,
  inner: string,
  { open, quote, bytes }: { open: string; quote: string; bytes: boolean },
): void {
  if (!inner.includes('{{')) {
    pure.source += `${open}${inner}${quote}`;
    return;
  }
  if (bytes) pure.problem = 'Liquid outputs are not allowed in bytes';
  pure.source += '(';
  let at = 0;
  for (let start = inner.indexOf('{{'); start >= 0; start = inner.indexOf('{{', at)) {
    pure.source += `${open}${inner.slice(at, start)}${quote} + `;
    at = takeOutput(pure, inner, start, true);
    pure.source += ' + ';
  }
  pure.source += `${open}${inner.slice(at)}${quote})`;
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/**
 * Outside of quotes a text is parsed as `true`, `false`, `null` or a number if it is one, else it stays a
 * text.
 */
function literalValue(value: unknown): unknown {
  if (typeof value !== 'string') return isData(value) ? value : null;
  const text = value.trim();
  if (text === '' || text === 'null') return null;
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : value;
}

/** Whether the value is data, not an object of Liquid (`empty`, `blank`). */
function isData(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value !== undefined;
  return Array.isArray(value) || isPlainObject(value);
}

import { keepNumbers, readJson, writeJson } from '../../../lib/exact-numbers.ts';
import { type ConditionData, ConditionError } from '../../../lib/expression.ts';
import { countTags, parsedBytes } from '../../../lib/liquid.ts';
import { isPlainObject } from '../../../lib/members.ts';
import { RenderingThread } from '../../../lib/rendering-thread.ts';
import {
  longestRenderingMs,
  type Output,
  parseOutput,
  parseTemplate,
  renderQuickly,
  SlowRendering,
  type Template,
  TemplateError,
} from '../../../lib/template.ts';
import { startThreadTime } from '../../../lib/thread-time.ts';
import { type Members, unknownVariables } from '../../../lib/variables.ts';
import { inTurn } from './in-turn.ts';

/**
 * Returns a value with its templates rendered, by a thread if the event loop would wait for too long, or
 * throws SlowRendering then if `mayWait` is false. Throws TemplateError.
 */
export type Rendering = (data: ConditionData, mayWait: boolean) => Promise<unknown>;

/** What the thread renders: the value and what its templates read, as JSON. */
export interface RenderTask {
  value: string;
  data: string;
}

/** The rendered value as JSON, or why it cannot be rendered. */
export type RenderResult = { rendered: string } | { problem: string };

/** A string that may be a template. */
export const TEMPLATE = /\{\{|\{%/;

// One output and nothing else.
const SINGLE_OUTPUT = /^\s*\{\{((?:(?!\}\}).)*)\}\}\s*$/s;
// The longest rendered input. Many runs may render theirs at the same time.
const MAX_CHARACTERS = 1_048_576;

const thread = new RenderingThread<'step', RenderTask, RenderResult>(
  new URL('./render-thread-main.ts', import.meta.url),
);

interface ParsedRendering {
  rendering: Rendering;
  /** Renders the value in this thread, which may take 150 ms. Throws TemplateError. */
  renderHere: (data: ConditionData) => unknown;
  problems: string[];
  /** An estimate of the memory that the templates take. */
  bytes: number;
}

/**
 * Parses the templates in all strings of a value. The problems name their place: also variables that `data`
 * does not have. Calls `between` between them.
 */
export async function parseRendering(
  value: unknown,
  path: string,
  { data, between }: Pick<Parsing, 'data' | 'between'>,
): Promise<ParsedRendering> {
  const parsing: Parsing = { problems: [], bytes: 0, data, between };
  const parts = await parsePart(value, path, parsing);
  const { problems, bytes } = parsing;
  return {
    rendering: (data, mayWait) => renderInTime(value, parts, data, mayWait),
    renderHere: (data) => new Budget().render(parts, data),
    problems,
    bytes,
  };
}

async function renderInTime(
  value: unknown,
  parts: Part,
  data: ConditionData,
  mayWait: boolean,
): Promise<unknown> {
  if (parts.kind === 'constant') return parts.value;
  try {
    return await inTurn(() => renderQuickly(() => new Budget().render(parts, data)));
  } catch (error) {
    if (!(error instanceof SlowRendering) || !mayWait) throw error;
  }
  const json = jsonOf(data);
  if (json === undefined) return inTurn(() => new Budget().render(parts, data));
  const result = await thread.run('step', { value: writeJson(value), data: json });
  if ('problem' in result) throw new TemplateError(result.problem);
  return readJson(result.rendered);
}

/** Returns undefined if a member cannot be read, such as attributes that are too large. */
function jsonOf(data: ConditionData): string | undefined {
  try {
    return writeJson(data);
  } catch (error) {
    if (error instanceof ConditionError) return undefined;
    throw error;
  }
}

/** A parsed value. Values without templates stay as they are. */
type Part =
  | { kind: 'constant'; value: unknown }
  | { kind: 'list'; value: object; items: Part[] }
  | { kind: 'object'; value: object; members: [string, Part][] }
  | { kind: 'template'; template: Template; output?: Output };

interface Parsing {
  problems: string[];
  bytes: number;
  /** What the templates may read; undefined if that was checked when they were saved. */
  data: Members | undefined;
  between: () => Promise<void>;
}

async function parsePart(value: unknown, path: string, parsing: Parsing): Promise<Part> {
  if (typeof value === 'string') return parseString(value, path, parsing);
  if (Array.isArray(value)) {
    const items: Part[] = [];
    for (const [index, item] of value.entries())
      items.push(await parsePart(item, `${path}.${index}`, parsing));
    return items.every(isConstant) ? { kind: 'constant', value } : { kind: 'list', value, items };
  }
  if (typeof value !== 'object' || value === null) return { kind: 'constant', value };
  const members: [string, Part][] = [];
  for (const [name, member] of Object.entries(value))
    members.push([name, await parsePart(member, `${path}.${name}`, parsing)]);
  return members.every(([, member]) => isConstant(member))
    ? { kind: 'constant', value }
    : { kind: 'object', value, members };
}

async function parseString(text: string, path: string, parsing: Parsing): Promise<Part> {
  const { problems, data, between } = parsing;
  if (!TEMPLATE.test(text)) return { kind: 'constant', value: text };
  await between();
  const template = await parseTemplate(text);
  const [, single] = SINGLE_OUTPUT.exec(text) ?? [];
  const output = single === undefined ? undefined : await parseOutput(single);
  if ('problem' in template) {
    problems.push(`Param '${path}' is not a template: ${template.problem}`);
    return { kind: 'constant', value: text };
  }
  parsing.bytes += (output === undefined ? 1 : 2) * parsedBytes(countTags(text));
  if (data !== undefined) problems.push(...unknownVariables(template.variables(), data, `Param '${path}'`));
  return output === undefined || 'problem' in output
    ? { kind: 'template', template }
    : { kind: 'template', template, output };
}

function isConstant({ kind }: Part): boolean {
  return kind === 'constant';
}

/** Limits the time and the size of one rendering: a single template stops after that time, too. */
class Budget {
  readonly #beganMs = performance.now();
  readonly #workedMs = startThreadTime();
  #characters = 0;

  render(part: Part, data: ConditionData): unknown {
    switch (part.kind) {
      case 'constant':
        return part.value;
      case 'list':
        return keepNumbers(
          part.value,
          part.items.map((item) => this.render(item, data)),
        );
      case 'object':
        return keepNumbers(
          part.value,
          Object.fromEntries(part.members.map(([name, member]) => [name, this.render(member, data)])),
        );
      default:
        return this.#renderTemplate(part, data);
    }
  }

  #renderTemplate({ template, output }: Part & { kind: 'template' }, data: ConditionData): unknown {
    const mostMs = longestRenderingMs();
    if (performance.now() - this.#beganMs > mostMs && this.#workedMs() > mostMs)
      throw new TemplateError(`takes more than ${mostMs} ms to render`);
    const value = output?.value(data);
    const isStructure = Array.isArray(value) || isPlainObject(value);
    const text = isStructure ? writeJson(value) : template.render(data);
    this.#characters += text.length;
    if (this.#characters > MAX_CHARACTERS)
      throw new TemplateError(`makes more than ${MAX_CHARACTERS} characters`);
    return isStructure ? value : text;
  }
}

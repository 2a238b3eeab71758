import { keepNumbers, writeJson } from '../../../lib/exact-numbers.ts';
import type { ConditionData } from '../../../lib/expression.ts';
import { countTags, parsedBytes } from '../../../lib/liquid.ts';
import { isPlainObject } from '../../../lib/members.ts';
import {
  type Output,
  parseOutput,
  parseTemplate,
  type Template,
  TemplateError,
} from '../../../lib/template.ts';
import { startThreadTime } from '../../../lib/thread-time.ts';
import { type Members, unknownVariables } from '../../../lib/variables.ts';

/** Returns a value with its templates rendered. Throws TemplateError. */
export type Rendering = (data: ConditionData) => unknown;

/** A string that may be a template. */
export const TEMPLATE = /\{\{|\{%/;

// One output and nothing else.
const SINGLE_OUTPUT = /^\s*\{\{((?:(?!\}\}).)*)\}\}\s*$/s;
// Rendering blocks the event loop. A single template stops after this time, too.
const MAX_MS = 100;
// The longest rendered input. Many runs may render theirs at the same time.
const MAX_CHARACTERS = 1_048_576;

/**
 * Parses the templates in all strings of a value. The problems name their place: also variables that `data`
 * does not have. Calls `between` between them. `bytes` is an estimate of the memory that they take.
 */
export async function parseRendering(
  value: unknown,
  path: string,
  { data, between }: Pick<Parsing, 'data' | 'between'>,
): Promise<{ rendering: Rendering; problems: string[]; bytes: number }> {
  const parsing: Parsing = { problems: [], bytes: 0, data, between };
  const parts = await parsePart(value, path, parsing);
  const { problems, bytes } = parsing;
  return { rendering: (data) => new Budget().render(parts, data), problems, bytes };
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
  data: Members;
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
  problems.push(...unknownVariables(template.variables(), data, `Param '${path}'`));
  return output === undefined || 'problem' in output
    ? { kind: 'template', template }
    : { kind: 'template', template, output };
}

function isConstant({ kind }: Part): boolean {
  return kind === 'constant';
}

/** Limits the time and the size of one rendering. */
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
    if (performance.now() - this.#beganMs > MAX_MS && this.#workedMs() > MAX_MS)
      throw new TemplateError(`takes more than ${MAX_MS} ms to render`);
    const value = output?.value(data);
    const isStructure = Array.isArray(value) || isPlainObject(value);
    const text = isStructure ? writeJson(value) : template.render(data);
    this.#characters += text.length;
    if (this.#characters > MAX_CHARACTERS)
      throw new TemplateError(`makes more than ${MAX_CHARACTERS} characters`);
    return isStructure ? value : text;
  }
}

import type { Liquid, LiquidOptions, Operators } from 'liquidjs';

/** A Liquid text that has been parsed. */
export interface Template {
  /** The text with the data put in. Throws TemplateError. */
  render(data: object): string;
}

/** A single Liquid output, what stands between `{{` and `}}`. */
export interface Output {
  /**
   * Its value, of whatever type: `{{ user.tags }}` is a list. One of `number` that share what a condition may
   * take. Throws TemplateError.
   */
  value(data: object, number?: number): unknown;
}

/** A template that could not be rendered: it took too long, or became too large. */
export class TemplateError extends Error {}

// A broadcast's content may be a template; ten of these characters are parsed in a microsecond.
const MAX_CHARACTERS = 10_485_760;
// What a rendering may make of strings and lists on its way. The library counts characters and elements.
const MAX_MADE = 32 * 1024 * 1024;
// Nothing else happens meanwhile. The library looks at the clock before each tag and output.
const MAX_RENDER_MS = 100;
// An output of a condition is a name and a filter or two. All of a condition's together may make so much, and
// work on so much: about 30 ms.
const MAX_MADE_BY_OUTPUTS = 1024 * 1024;
const MAX_WORK_OF_OUTPUTS = 1024 * 1024;
// Work is counted in characters. A member of a list takes as long as so many.
const WORK_PER_MEMBER = 32;
// What is looked for in a text costs nothing up to this length: the runtime leaps.
const SHORT = 64;

/** Parses a Liquid text, or says what is wrong with it. Tags that read other templates do not exist. */
export async function parseTemplate(text: string): Promise<Template | { problem: string }> {
  const { texts } = await loadEngines();
  return guarded(() => {
    const parsed = texts.parse(text);
    return { render: (data: object) => rendered(() => String(texts.renderSync(parsed, data))) };
  });
}

/** Parses what stands between `{{` and `}}`, or says what is wrong with it. */
export async function parseOutput(text: string): Promise<Output | { problem: string }> {
  if (text.includes('}}')) return { problem: 'more than one output' };
  const { values } = await loadEngines();
  return guarded(() => {
    const parsed = values.parse(`{{${text}}}`);
    return {
      value(data: object, number = 1) {
        const memoryLimit = Math.floor(MAX_MADE_BY_OUTPUTS / number);
        work.left = Math.floor(MAX_WORK_OF_OUTPUTS / number);
        return rendered((): unknown => values.renderSync(parsed, data, { memoryLimit }));
      },
    };
  });
}

interface Engines {
  texts: Liquid;
  values: Liquid;
}

// The library takes some megabytes, which a server without templates need not have.
let engines: Promise<Engines> | undefined;

function loadEngines(): Promise<Engines> {
  engines ??= import('liquidjs').then(({ Liquid: Engine, defaultOperators }) => {
    const texts = new Engine({ ...OPTIONS, memoryLimit: MAX_MADE });
    const operators = Object.fromEntries(
      Object.entries(defaultOperators).map(([name, operator]) => [name, counted(operator as Operator)]),
    ) as Operators;
    const values = new Engine({
      ...OPTIONS,
      memoryLimit: MAX_MADE_BY_OUTPUTS,
      keepOutputType: true,
      operators,
    });
    for (const [name, filter] of Object.entries(values.filters)) {
      const handler = typeof filter === 'function' ? filter : filter.handler;
      // CEL has loops whose steps are counted.
      if (name.endsWith('_exp')) delete values.filters[name];
      else if (LOOKING.has(name)) continue;
      else values.registerFilter(name, counted(handler));
    }
    for (const { tags } of [texts, values]) for (const tag of READING_FILES) delete tags[tag];
    return { texts, values };
  });
  return engines;
}

type Operator = (...operands: unknown[]) => unknown;

/**
 * What the output that is evaluated may still work on: there is never more than one, because nothing in it
 * waits.
 */
const work = { left: 0 };

/** A filter or an operator that counts what it works on before it does. */
function counted<Operands extends unknown[], Value>(
  own: (this: never, ...operands: Operands) => Value,
): (this: unknown, ...operands: Operands) => Value {
  return function (this: unknown, ...operands) {
    work.left -= workOn(operands, work.left);
    if (work.left < 0) throw new Error(`works on more than ${MAX_WORK_OF_OUTPUTS} characters`);
    return own.apply(this as never, operands);
  };
}

/**
 * About how many characters there are to work on; no more than `most` are counted. The names that a filter
 * has for its arguments are none.
 */
function workOn([subject, ...others]: readonly unknown[], most: number): number {
  const lengths = others.map((other) => (typeof other === 'string' ? other.length : 0));
  const texts = lengths.reduce((sum, length) => sum + length, 0);
  if (typeof subject === 'string')
    return (
      subject.length + texts + (subject.length * Math.max(0, ...lengths.map((one) => one - SHORT))) / SHORT
    );
  const mostMembers = most / WORK_PER_MEMBER;
  const members = membersOf(subject, mostMembers);
  return members * (WORK_PER_MEMBER + texts) + texts + WORK_PER_MEMBER * membersOf(others, mostMembers);
}

/** How many members a list has, with those of the lists in it, or an object. */
function membersOf(value: unknown, most: number): number {
  if (!Array.isArray(value)) return isObject(value) ? Object.keys(value).length : 0;
  let members = 0;
  const open: (readonly unknown[])[] = [value];
  for (let next = open.pop(); next !== undefined && members <= most; next = open.pop()) {
    members += next.length;
    if (members <= most) for (const member of next) if (Array.isArray(member)) open.push(member);
  }
  return members;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

// Those that look at one member alone take no time.
const LOOKING = new Set(['size', 'first', 'last', 'default']);
const READING_FILES = ['include', 'render', 'layout', 'block'];

const OPTIONS: LiquidOptions = {
  strictFilters: true,
  ownPropertyOnly: true,
  parseLimit: MAX_CHARACTERS,
  renderLimit: MAX_RENDER_MS,
  timezoneOffset: 0,
  templates: {},
};

/** What the library throws is about the text: it is told, not thrown. */
function guarded<Parsed>(parse: () => Parsed): Parsed | { problem: string } {
  try {
    return parse();
  } catch (error) {
    return { problem: told(error) };
  }
}

function rendered<Value>(render: () => Value): Value {
  try {
    return render();
  } catch (error) {
    throw new TemplateError(told(error), { cause: error });
  }
}

/**
 * The library's first line, which names the place; the others draw it. A stack that overflowed is a text
 * nested too deeply.
 */
function told(error: unknown): string {
  if (error instanceof RangeError) return 'nested too deeply';
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.slice(0, 300);
}

import type { Liquid, LiquidOptions, Template as LiquidTemplate, Operators } from 'liquidjs';
import { countTags, type LiquidLibrary, loadLiquid } from './liquid.ts';
import { plainRendering } from './plain-template.ts';
import type { VariablePath } from './variables.ts';

/** A parsed Liquid template. */
export interface Template {
  /** Renders the template with the data. Throws TemplateError. */
  render(data: object): string;
  /** Returns the variables that it reads and does not assign itself. */
  variables(): VariablePath[];
}

/** A single Liquid output: the text between `{{` and `}}`. */
export interface Output {
  /**
   * Returns the value, of any type: `{{ user.tags }}` is a list. `number` is how many outputs share the
   * limits of a condition. Throws TemplateError.
   */
  value(data: object, number?: number): unknown;
  /** Returns the variables that it reads. */
  variables(): VariablePath[];
}

/** A template that could not be rendered: it took too long, or became too large. */
export class TemplateError extends Error {}

// A broadcast's content may be a template. The parser takes a microsecond for ten characters.
const MAX_CHARACTERS = 10_485_760;
// The limit of strings and lists that a rendering may create. The library counts characters and elements.
const MAX_MADE = 32 * 1024 * 1024;
// Rendering blocks the event loop. The library checks the time before each tag and output.
const MAX_RENDER_MS = 100;
// The limits of all outputs of a condition together, about 30 ms. An output is a name and one or two filters.
const MAX_MADE_BY_OUTPUTS = 1024 * 1024;
const MAX_WORK_OF_OUTPUTS = 1024 * 1024;
// Work is counted in characters. A member of a list takes as long as 32 characters.
const WORK_PER_MEMBER = 32;
// A search for up to this many characters costs nothing extra, because the runtime skips positions.
const SHORT_NEEDLE = 64;

/** Parses a Liquid template, or returns the problem. Tags that read other templates are not available. */
export async function parseTemplate(text: string): Promise<Template | { problem: string }> {
  const { library, texts } = await loadEngines();
  return orProblem(() => {
    countTags(text);
    const parsed = texts.parse(text);
    const plain = plainRendering(library, parsed, 'text');
    return {
      render: (data: object) => plain?.(data) ?? renderedInTime(() => String(texts.renderSync(parsed, data))),
      variables: () => variablesOf(texts, parsed),
    };
  });
}

/** Parses the text between `{{` and `}}`, or returns the problem. */
export async function parseOutput(text: string): Promise<Output | { problem: string }> {
  if (text.includes('}}')) return { problem: 'more than one output' };
  const { values } = await loadEngines();
  return orProblem(() => {
    const parsed = values.parse(`{{${text}}}`);
    return {
      value(data: object, number = 1) {
        const memoryLimit = Math.floor(MAX_MADE_BY_OUTPUTS / number);
        work.left = Math.floor(MAX_WORK_OF_OUTPUTS / number);
        return rendered((): unknown => values.renderSync(parsed, data, { memoryLimit }));
      },
      variables: () => variablesOf(values, parsed),
    };
  });
}

/** Returns the variables that a template reads and does not assign itself; on request, with its partials. */
export function variablesOf(engine: Liquid, parsed: LiquidTemplate[], partials = false): VariablePath[] {
  try {
    const { globals } = engine.analyzeSync(parsed, { partials });
    return Object.values(globals)
      .flat()
      .map(({ segments }) => segments.map((part) => (typeof part === 'object' ? undefined : part)));
  } catch (error) {
    // Nested too deeply: rendering reports it.
    if (error instanceof RangeError) return [];
    throw error;
  }
}

interface Engines {
  library: LiquidLibrary;
  texts: Liquid;
  values: Liquid;
}

let engines: Promise<Engines> | undefined;

function loadEngines(): Promise<Engines> {
  engines ??= loadLiquid().then((library) => {
    const { Liquid: Engine, defaultOperators } = library;
    const texts = new Engine(TEXT_OPTIONS);
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
      // CEL has loops, with counted steps.
      if (name.endsWith('_exp')) delete values.filters[name];
      else if (CONSTANT_TIME.has(name)) continue;
      else values.registerFilter(name, counted(handler));
    }
    for (const { tags } of [texts, values]) for (const tag of FILE_TAGS) delete tags[tag];
    return { library, texts, values };
  });
  return engines;
}

type Operator = (...operands: unknown[]) => unknown;

/**
 * The work that the current output may still do. Only one is evaluated at a time, because evaluation is
 * synchronous.
 */
const work = { left: 0 };

/** Wraps a filter or an operator: counts its work before it runs. */
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
 * Estimates the work in characters; stops counting at `most`. The names of a filter's named arguments do not
 * count.
 */
function workOn([subject, ...others]: readonly unknown[], most: number): number {
  const lengths = others.map((other) => (typeof other === 'string' ? other.length : 0));
  const texts = lengths.reduce((sum, length) => sum + length, 0);
  if (typeof subject === 'string')
    return (
      subject.length +
      texts +
      (subject.length * Math.max(0, ...lengths.map((one) => one - SHORT_NEEDLE))) / SHORT_NEEDLE
    );
  const mostMembers = most / WORK_PER_MEMBER;
  const members = membersOf(subject, mostMembers);
  return members * (WORK_PER_MEMBER + texts) + texts + WORK_PER_MEMBER * membersOf(others, mostMembers);
}

/** Returns the number of members of an object, or of a list with its nested lists. */
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

// Filters that read a single member and take no time.
const CONSTANT_TIME = new Set(['size', 'first', 'last', 'default']);
const FILE_TAGS = ['include', 'render', 'layout', 'block'];

const OPTIONS = {
  strictFilters: true,
  ownPropertyOnly: true,
  parseLimit: MAX_CHARACTERS,
  renderLimit: MAX_RENDER_MS,
  timezoneOffset: 0,
  templates: {},
} satisfies LiquidOptions;

/** The options of engines that render texts. */
export const TEXT_OPTIONS = { ...OPTIONS, memoryLimit: MAX_MADE };

/** Returns a parse error as a problem, because it concerns the template. */
export function orProblem<Parsed>(parse: () => Parsed): Parsed | { problem: string } {
  try {
    return parse();
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

// A rendering is repeated while other processes take the processor: it may then take longer than its limit.
const MAX_RENDERINGS = 5;

/** Renders a text. The library measures time, so a rendering that used little of it is repeated. */
export function renderedInTime(render: () => string): string {
  return rendered(() => {
    for (let number = 1; ; number += 1) {
      const before = usedBefore();
      try {
        return render();
      } catch (error) {
        const { user, system } = process.threadCpuUsage(before);
        const isOwn = user + system > (MAX_RENDER_MS * 1_000) / 2;
        if (number === MAX_RENDERINGS || isOwn || !messageOf(error).includes(TOO_LATE)) throw error;
      }
    }
  });
}

// A measurement takes as long as a short rendering, so one is for all renderings of a millisecond.
const PRECISION_MS = 1;
let measured = { atMs: Number.NEGATIVE_INFINITY, usage: { user: 0, system: 0 } };

/** Returns the CPU time of this thread before a rendering, at most a millisecond less. */
function usedBefore(): NodeJS.CpuUsage {
  const atMs = performance.now();
  if (atMs - measured.atMs > PRECISION_MS) measured = { atMs, usage: process.threadCpuUsage() };
  return measured.usage;
}

const TOO_LATE = 'template render limit exceeded';

/** Renders; throws TemplateError for every failure. */
function rendered<Value>(render: () => Value): Value {
  try {
    return render();
  } catch (error) {
    throw new TemplateError(messageOf(error), { cause: error });
  }
}

/**
 * Returns the first line of the library's error, which has the position; the other lines quote the source. A
 * stack overflow means a text that is nested too deeply.
 */
function messageOf(error: unknown): string {
  if (error instanceof RangeError) return 'nested too deeply';
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.slice(0, 300);
}

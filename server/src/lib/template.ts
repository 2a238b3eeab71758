import type {
  Context,
  FilterImplOptions,
  Liquid,
  LiquidOptions,
  Template as LiquidTemplate,
  Operators,
} from 'liquidjs';
import { countTags, type LiquidLibrary, loadLiquid } from './liquid.ts';
import { loadOnce } from './load-once.ts';
import { isPlainObject } from './members.ts';
import { plainRendering } from './plain-template.ts';
import { startThreadTime } from './thread-time.ts';
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

/** `renderQuickly` has reached its limits: what it rendered may need more, within its own limits. */
export class SlowRendering extends Error {}

// A broadcast's content may be a template. The parser takes a microsecond for ten characters.
const MAX_CHARACTERS = 10_485_760;
// Rendering blocks the event loop. The library checks the time before each tag and output only, so what a
// single output does has limits: about 100 ms.
const MAX_RENDER_MS = 100;
// A thread that was just started runs the same code several times slower.
const MAX_RENDER_MS_IN_THREAD = 400;
let renderLimitMs = MAX_RENDER_MS;
// The characters that filters of a rendering may read and make.
const MAX_WORK_OF_TEXT = 2 * 1024 * 1024;
// The members of ranges such as `(1..10)` and of lists made by `split`.
const MAX_MEMBERS_OF_TEXT = 64 * 1024;
// What `renderQuickly` may take: about 20 ms.
const QUICK_MS = 20;
const QUICK_WORK = 256 * 1024;
// The limits of all outputs of a condition together, about 30 ms. An output is a name and one or two filters.
const MAX_MADE_BY_OUTPUTS = 1024 * 1024;
const MAX_WORK_OF_OUTPUTS = 1024 * 1024;
// Work is counted in characters. A member of a list takes as long as this many characters.
const WORK_PER_MEMBER = 32;
// A search for up to this many characters costs nothing extra, because the runtime skips positions.
const SHORT_NEEDLE = 64;

/** How long renderings in this thread may take. */
export const longestRenderingMs = (): number => renderLimitMs;

/** Gives renderings more time. For threads that render and do nothing else. */
export function allowSlowRendering(): void {
  renderLimitMs = MAX_RENDER_MS_IN_THREAD;
}

/** Parses a Liquid template, or returns the problem. Tags that read other templates are not available. */
export async function parseTemplate(text: string): Promise<Template | { problem: string }> {
  const { library, texts } = await loadEngines();
  return orProblem(() => {
    countTags(text);
    const parsed = texts.parse(text);
    const plain = plainRendering(library, parsed, 'text', true);
    return {
      render: (data: object) =>
        countQuick(plain?.(data)) ??
        renderedInTime(parsed, (limits) => String(texts.renderSync(parsed, data, limits))),
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
        const render = (most: number): unknown =>
          values.renderSync(parsed, data, { memoryLimit: Math.floor(most / number) });
        if (quick !== undefined) return withinQuick(quick, ({ work }) => render(work));
        startWork(Math.floor(MAX_WORK_OF_OUTPUTS / number));
        return rendered(() => render(MAX_MADE_BY_OUTPUTS));
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

/** Returns JSON of an object, and of a list with objects. Liquid makes `[object Object]` of them. */
function structuresAsJson(value: unknown): string {
  // Liquid makes texts of the others.
  if (!isPlainObject(value) && !(Array.isArray(value) && value.some(isPlainObject))) return value as string;
  const text = JSON.stringify(value);
  doWork(text.length);
  return text;
}

interface Engines {
  library: LiquidLibrary;
  texts: Liquid;
  values: Liquid;
}

const loadEngines = loadOnce(async (): Promise<Engines> => {
  const library = await loadLiquid();
  const { Liquid: Engine, defaultOperators } = library;
  const texts = openTextEngine(library, { outputEscape: structuresAsJson });
  const operators = Object.fromEntries(
    Object.entries(defaultOperators).map(([name, operator]) => [
      name,
      counted(operator as Operator, SEARCHES.has(name)),
    ]),
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
    else if (!CONSTANT_TIME.has(name)) values.registerFilter(name, counted(handler, SEARCHES.has(name)));
  }
  for (const { tags } of [texts, values]) for (const tag of FILE_TAGS) delete tags[tag];
  return { library, texts, values };
});

/** Opens an engine that renders texts, with limits for what filters do. */
export function openTextEngine({ Liquid: Engine }: LiquidLibrary, options: LiquidOptions = {}): Liquid {
  const engine = new Engine({ ...OPTIONS, memoryLimit: MAX_MEMBERS_OF_TEXT, ...options });
  for (const [name, filter] of Object.entries(engine.filters)) {
    if (CONSTANT_TIME.has(name)) continue;
    const { handler, raw = false } = typeof filter === 'function' ? { handler: filter } : filter;
    engine.registerFilter(name, {
      raw,
      handler: limited(counted(handler, SEARCHES.has(name)), MAKES_LISTS.has(name)),
    });
  }
  return engine;
}

type FilterHandler = Extract<FilterImplOptions, (...operands: never) => unknown>;

/**
 * Wraps a filter of texts. Characters that it makes are work, unless it `makesLists`; and one that evaluates
 * something for each member ends when the time is over.
 */
export function limited(own: FilterHandler, makesLists = false): FilterHandler {
  return function (...operands: Parameters<FilterHandler>) {
    const context: Context = makesLists ? this.context : Object.create(this.context, MADE_IS_WORK);
    const value: unknown = own.apply({ ...this, context }, operands);
    return isGenerator(value) ? inTime(value, this.context) : value;
  };
}

const MADE_IS_WORK = { memoryLimit: { value: { use: doWork } } };

/** Checks the time at each step of a filter. */
function* inTime(steps: Generator<unknown, unknown>, { renderLimit }: Context): Generator<unknown, unknown> {
  for (let step = steps.next(); ; step = steps.next(yield step.value)) {
    if (step.done) return step.value;
    renderLimit.check(performance.now());
  }
}

function isGenerator(value: unknown): value is Generator<unknown, unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.prototype.toString.call(value) === '[object Generator]'
  );
}

type Operator = (...operands: unknown[]) => unknown;

/**
 * The work that the current output may still do. Only one is evaluated at a time, because evaluation is
 * synchronous.
 */
const work = { most: 0, left: 0 };

const TOO_MUCH_WORK = 'works on more than';

function startWork(most: number): void {
  work.most = most;
  work.left = most;
}

function doWork(characters: number): void {
  work.left -= characters;
  if (work.left < 0) throw new Error(`${TOO_MUCH_WORK} ${work.most} characters`);
}

/** Wraps a filter or an operator: counts its work before it runs. One that `searches` looks for a text. */
function counted<Operands extends unknown[], Value>(
  own: (this: never, ...operands: Operands) => Value,
  searches: boolean,
): (this: unknown, ...operands: Operands) => Value {
  return function (this: unknown, ...operands) {
    doWork(workOn(operands, searches, work.left));
    return own.apply(this as never, operands);
  };
}

/**
 * Estimates the work in characters; stops counting at `most`. The names of a filter's named arguments do not
 * count.
 */
function workOn([subject, ...others]: readonly unknown[], searches: boolean, most: number): number {
  const lengths = others.map((other) => (typeof other === 'string' ? other.length : 0));
  const texts = lengths.reduce((sum, length) => sum + length, 0);
  if (typeof subject === 'string') {
    const longest = searches ? Math.max(0, ...lengths.map((one) => one - SHORT_NEEDLE)) : 0;
    return subject.length + texts + (subject.length * longest) / SHORT_NEEDLE;
  }
  const mostMembers = most / WORK_PER_MEMBER;
  const members = membersOf(subject, mostMembers);
  return members * (WORK_PER_MEMBER + texts) + texts + WORK_PER_MEMBER * membersOf(others, mostMembers);
}

/** Returns the number of members of an object, or of a list with its nested lists. */
function membersOf(value: unknown, most: number): number {
  if (!Array.isArray(value)) return isPlainObject(value) ? Object.keys(value).length : 0;
  let members = 0;
  const open: (readonly unknown[])[] = [value];
  for (let next = open.pop(); next !== undefined && members <= most; next = open.pop()) {
    members += next.length;
    if (members <= most) for (const member of next) if (Array.isArray(member)) open.push(member);
  }
  return members;
}

// Filters that read a single member and take no time.
const CONSTANT_TIME = new Set(['size', 'first', 'last', 'default', 'raw']);
// Filters and operators that look for a text in another.
const SEARCHES = new Set([
  'contains',
  'remove',
  'remove_first',
  'remove_last',
  'replace',
  'replace_first',
  'replace_last',
  'split',
]);
// Filters that make many members of a text.
const MAKES_LISTS = new Set(['sample', 'split']);
const FILE_TAGS = ['include', 'render', 'layout', 'block'];

const OPTIONS = {
  strictFilters: true,
  ownPropertyOnly: true,
  parseLimit: MAX_CHARACTERS,
  renderLimit: MAX_RENDER_MS,
  timezoneOffset: 0,
  templates: {},
} satisfies LiquidOptions;

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

/** The texts whose last rendering was too slow. */
const slow = new WeakSet<object>();

/**
 * Renders a parsed text. The library measures time by the clock, so a rendering during which the thread
 * worked little is repeated. A slow one is repeated once, within half of the time, because a garbage
 * collection or cold code may have used it; but not if the text was too slow the last time as well.
 */
export function renderedInTime(text: object, render: (limits: { renderLimit: number }) => string): string {
  if (quick !== undefined) return withinQuick(quick, ({ renderLimit }) => render({ renderLimit }));
  return rendered(() => {
    let renderLimit = renderLimitMs;
    for (let number = 1; ; number += 1) {
      const workedMs = startThreadTime();
      startWork(MAX_WORK_OF_TEXT);
      try {
        const result = render({ renderLimit });
        slow.delete(text);
        return result;
      } catch (error) {
        const isSlow = workedMs() > renderLimit / 2;
        const isFinal = number === MAX_RENDERINGS || (isSlow && slow.has(text));
        if (isFinal || !messageOf(error).includes(TOO_LATE)) throw error;
        if (!isSlow) continue;
        slow.add(text);
        renderLimit = renderLimitMs / 2;
      }
    }
  });
}

const TOO_LATE = 'template render limit exceeded';
const OVER_LIMITS = [TOO_LATE, TOO_MUCH_WORK, 'memory alloc limit exceeded'];

interface Quick {
  /** The work that is left for the renderings. */
  work: number;
  beganMs: number;
}

let quick: Quick | undefined;

/**
 * Calls `render`, whose renderings together may block the event loop for about 20 ms. Throws SlowRendering if
 * that is not enough: call `render` itself then, in a thread.
 */
export function renderQuickly<Result>(render: () => Result): Result {
  quick = { work: QUICK_WORK, beganMs: performance.now() };
  try {
    return render();
  } finally {
    quick = undefined;
  }
}

/** Counts a text that was rendered by other means. */
export function countQuick(text: string | undefined): string | undefined {
  if (quick === undefined || text === undefined) return text;
  quick.work -= text.length;
  if (quick.work < 0) throw new SlowRendering(`${TOO_MUCH_WORK} ${QUICK_WORK} characters`);
  return text;
}

function withinQuick<Result>(
  left: Quick,
  render: (limits: { work: number; renderLimit: number }) => Result,
): Result {
  startWork(left.work);
  try {
    return render({ work: left.work, renderLimit: QUICK_MS + left.beganMs - performance.now() });
  } catch (error) {
    const message = messageOf(error);
    if (OVER_LIMITS.some((limit) => message.includes(limit))) throw new SlowRendering(message);
    throw new TemplateError(message, { cause: error });
  } finally {
    left.work = Math.max(0, work.left);
  }
}

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

import type { Liquid, LiquidOptions } from 'liquidjs';

/** A Liquid text that has been parsed. */
export interface Template {
  /** The text with the data put in. Throws TemplateError. */
  render(data: object): string;
}

/** A single Liquid output, what stands between `{{` and `}}`. */
export interface Output {
  /** Its value, of whatever type: `{{ user.tags }}` is a list. One of `number` that share what a condition may take. Throws TemplateError. */
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
// An output of a condition is a name and a filter or two. All of a condition's together: so much takes about 20 ms.
const MAX_MADE_BY_OUTPUTS = 1024 * 1024;

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
  engines ??= import('liquidjs').then(({ Liquid: Engine }) => {
    const texts = new Engine({ ...OPTIONS, memoryLimit: MAX_MADE });
    const values = new Engine({ ...OPTIONS, memoryLimit: MAX_MADE_BY_OUTPUTS, keepOutputType: true });
    for (const { tags } of [texts, values]) for (const tag of READING_FILES) delete tags[tag];
    return { texts, values };
  });
  return engines;
}

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

/** The library's first line, which names the place; the others draw it. A stack that overflowed is a text nested too deeply. */
function told(error: unknown): string {
  if (error instanceof RangeError) return 'nested too deeply';
  const [line = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
  return line.slice(0, 300);
}

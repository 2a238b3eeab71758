import type { Context, Drop, Liquid, LiquidOptions } from 'liquidjs';
import type { LiquidLibrary } from './liquid.ts';
import { limited, openTextEngine } from './template.ts';

/** An engine that renders HTML. */
export interface HtmlEngine {
  engine: Liquid;
  /** Makes a value of a text that is HTML already. */
  html(text: string): object;
}

type OwnFilters = Record<
  'default' | 'escape' | 'escape_once' | 'xml_escape' | 'newline_to_br',
  (this: unknown, value: unknown, ...others: unknown[]) => string
>;

/**
 * Opens an engine whose outputs are escaped once: what `capture` holds, and what the filters `escape`,
 * `escape_once`, `xml_escape` and `newline_to_br` return, is HTML already. Other filters make texts of it,
 * except for `default`.
 */
export function openHtmlEngine(library: LiquidLibrary, options: LiquidOptions): HtmlEngine {
  const { CaptureTag, filters } = library;
  const Html = htmlClass(library);
  const own = filters as unknown as OwnFilters;
  const engine = openTextEngine(library, {
    ...options,
    outputEscape: limited(function (this: unknown, value: unknown) {
      return value instanceof Html ? value.valueOf() : own.escape.call(this, value);
    }),
  });
  for (const name of ['escape', 'escape_once', 'xml_escape'] as const)
    engine.registerFilter(
      name,
      limited(function (this: unknown, value: unknown) {
        return value instanceof Html ? value : new Html(own[name].call(this, value));
      }),
    );
  engine.registerFilter(
    'newline_to_br',
    limited(function (this: unknown, value: unknown) {
      const html = value instanceof Html ? value.valueOf() : own.escape.call(this, value);
      return new Html(own.newline_to_br.call(this, html));
    }),
  );
  engine.registerFilter('default', function (this: unknown, value: unknown, ...others: unknown[]) {
    return value instanceof Html && value.valueOf() !== '' ? value : own.default.call(this, value, ...others);
  });
  class CaptureHtml extends CaptureTag {
    override *render(context: Context): Generator<unknown, void, string> {
      yield* super.render(context);
      const scope = context.bottom() as Record<string, unknown>;
      scope[this.variable] = new Html(String(scope[this.variable]));
    }
  }
  engine.registerTag('capture', CaptureHtml);
  return { engine, html: (text) => new Html(text) };
}

/** The library knows a `Drop` as a value: operators and other filters read its text. */
function htmlClass({ Drop: Value }: LiquidLibrary): new (text: string) => Drop & { valueOf(): string } {
  return class extends Value {
    readonly #text: string;

    constructor(text: string) {
      super();
      this.#text = text;
    }

    /** For the filter `size`. */
    get length(): number {
      return this.#text.length;
    }

    /** For `value.size`. */
    get size(): number {
      return this.#text.length;
    }

    override valueOf(): string {
      return this.#text;
    }
  };
}

import type { Liquid, Parser, TagToken, TopLevelToken } from 'liquidjs';
import { openHtmlEngine } from './html-engine.ts';
import { countTags, type LiquidLibrary, loadLiquid, type TagCount } from './liquid.ts';
import { plainRendering } from './plain-template.ts';
import {
  countQuick,
  openTextEngine,
  orProblem,
  renderedInTime,
  type Template,
  variablesOf,
} from './template.ts';

/** What a template makes: in `html` every output is escaped, except after the filter `raw`. */
export type TextForm = 'html' | 'text';

/** A parsed template that may render partials. */
export interface SetTemplate extends Template {
  /** The partials that it renders itself. If the set has them, `variables` includes theirs. */
  partials: ReadonlySet<string>;
  /** Whether its text, or one of the partials if it renders any, matches. */
  mentions(pattern: RegExp): boolean;
}

/** Templates that share partials, which they render by `{% render 'name' %}`. */
export class TemplateSet {
  readonly #library: LiquidLibrary;
  readonly #partials: ReadonlyMap<string, string>;
  readonly #engines: Record<TextForm, Liquid>;
  readonly #html: (text: string) => object;
  /** The partials of the template that is being parsed. */
  readonly #rendered: Set<string>;
  #count: TagCount | undefined;

  private constructor(
    library: LiquidLibrary,
    partials: ReadonlyMap<string, string>,
    engines: Record<TextForm, Liquid>,
    html: (text: string) => object,
    found: Set<string>,
  ) {
    this.#library = library;
    this.#partials = partials;
    this.#engines = engines;
    this.#html = html;
    this.#rendered = found;
  }

  /** `partials` are texts by name. `locale` is the language of names of months and days. */
  static async open(partials: ReadonlyMap<string, string>, locale = 'en'): Promise<TemplateSet> {
    const library = await loadLiquid();
    const { RenderTag } = library;
    const found = new Set<string>();
    class Render extends RenderTag {
      constructor(token: TagToken, remaining: TopLevelToken[], liquid: Liquid, parser: Parser) {
        super(token, remaining, liquid, parser);
        const name = this.partialScope()?.name;
        if (name === undefined) throw new Error('the name must be in quotes');
        found.add(name);
      }
    }
    // Without a prototype, because the library looks names up as members.
    const templates: Record<string, string> = Object.create(null);
    for (const [name, text] of partials) templates[name] = text;
    const options = { cache: true, locale, templates };
    const { engine, html } = openHtmlEngine(library, options);
    const engines = { html: engine, text: openTextEngine(library, options) };
    for (const one of Object.values(engines)) {
      one.registerTag('render', Render);
      for (const tag of ['include', 'layout', 'block']) delete one.tags[tag];
    }
    return new TemplateSet(library, partials, engines, html, found);
  }

  /** Makes a value of a text that is HTML already: its output is not escaped. */
  html(text: string): object {
    return this.#html(text);
  }

  #countOfPartials(): TagCount {
    if (this.#count === undefined) {
      let count: TagCount = { tags: 0, characters: 0 };
      for (const text of this.#partials.values()) count = countTags(text, count);
      this.#count = count;
    }
    return this.#count;
  }

  /** Parses a template, or returns the problem. */
  parse(text: string, form: TextForm): SetTemplate | { problem: string } {
    const engine = this.#engines[form];
    return orProblem(() => {
      // Together with the partials, which may be parsed with it.
      if (text.includes('{')) countTags(text, this.#countOfPartials());
      this.#rendered.clear();
      const nodes = engine.parse(text);
      const partials = new Set(this.#rendered);
      const plain = plainRendering(this.#library, nodes, form);
      return {
        partials,
        mentions: (pattern) =>
          [text, ...(partials.size > 0 ? this.#partials.values() : [])].some((one) => pattern.test(one)),
        variables: () =>
          variablesOf(
            engine,
            nodes,
            [...partials].every((name) => this.#partials.has(name)),
          ),
        // Partials see global values alone.
        render: (data: object) =>
          countQuick(plain?.(data)) ??
          renderedInTime(nodes, (limits) =>
            String(engine.renderSync(nodes, {}, { globals: data, ...limits })),
          ),
      };
    });
  }
}

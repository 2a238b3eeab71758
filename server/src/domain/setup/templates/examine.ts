import { LAYOUT_DATA, TEMPLATE_DATA } from '../../../contract/readable.ts';
import { localeProblems } from '../../../lib/locale.ts';
import { memberOf } from '../../../lib/members.ts';
import { takeTurns } from '../../../lib/take-turns.ts';
import { TemplateSet } from '../../../lib/template-set.ts';
import { unknownVariables, type VariablePath } from '../../../lib/variables.ts';
import { partialsIn } from './locales.ts';
import type { TemplatePart } from './parts.ts';

/** What a template consists of, apart from its kind. */
export interface Examined {
  problems: string[];
  /** The partials that it renders itself, each with the first place that renders it. */
  partials: ReadonlyMap<string, string>;
}

/**
 * Examines a template of any shape. The problems are those that its schema does not find; each names its
 * place. `parts` are the templates that it uses, if they are known.
 */
export async function examineTemplate(
  template: unknown,
  parts?: ReadonlyMap<string, TemplatePart>,
): Promise<Examined> {
  const between = takeTurns();
  const kind = memberOf(template, 'kind') ?? 'message';
  const problems: string[] = [];
  const partials = new Map<string, string>();
  const locales = Object.entries(memberOf(template, 'locales') ?? {}).slice(0, MAX_LOCALES);
  for (const [locale, texts] of locales) {
    const path = `locales.${locale.slice(0, 100)}`;
    problems.push(...localeProblems(locale, path), ...shapeProblems(kind, texts, path));
    const set = await TemplateSet.open(parts === undefined ? new Map() : partialsIn(parts, locale));
    for (const { name, text, place } of textsIn(texts, path)) {
      await between();
      const parsed = set.parse(text, name === 'content' ? 'html' : 'text');
      if ('problem' in parsed) {
        problems.push(`Param '${place}' is not a template: ${parsed.problem}`);
        continue;
      }
      for (const partial of parsed.partials) if (!partials.has(partial)) partials.set(partial, place);
      await between();
      const variables = parsed.variables();
      problems.push(...variableProblems(kind, variables, place));
      if (kind === 'layout' && !variables.some(([root]) => root === 'content'))
        problems.push(`Param '${place}' must have {{ content }}`);
    }
  }
  const defaultLocale = memberOf(template, 'default_locale');
  if (typeof defaultLocale === 'string' && !locales.some(([locale]) => locale === defaultLocale))
    problems.push(`Param 'default_locale' must be one of the locales`);
  if (kind !== 'message' && memberOf(template, 'layout') != null)
    problems.push("Param 'layout' is only for a message");
  return { problems, partials };
}

// Further ones are not examined: the schema rejects their number.
const MAX_LOCALES = 200;

function shapeProblems(kind: unknown, texts: unknown, path: string): string[] {
  const required = kind === 'message' ? 'title' : 'content';
  const problems = memberOf(texts, required) == null ? [`Param '${path}.${required}' is missing`] : [];
  if (kind === 'message') return problems;
  for (const name of ['title', 'action_url', 'overrides'])
    if (memberOf(texts, name) != null)
      problems.push(`Param '${path}' doesn't allow key: ${name}, which only a message has`);
  return problems;
}

type TextName = 'title' | 'content' | 'action_url';
const TEXT_NAMES: readonly TextName[] = ['title', 'content', 'action_url'];

/** The texts in one language, with those of single channels. */
function textsIn(texts: unknown, path: string): { name: TextName; text: string; place: string }[] {
  const channels = memberOf(memberOf(texts, 'overrides'), 'channels');
  const places: [string, unknown][] = [
    [path, texts],
    ...(typeof channels === 'object' && channels !== null ? Object.entries(channels) : []).map(
      ([channel, own]): [string, unknown] => [`${path}.overrides.channels.${channel.slice(0, 100)}`, own],
    ),
  ];
  return places.flatMap(([place, of]) =>
    TEXT_NAMES.flatMap((name) => {
      const text = memberOf(of, name);
      return typeof text === 'string' ? [{ name, text, place: `${place}.${name}` }] : [];
    }),
  );
}

/** A partial has arguments of any name. */
function variableProblems(kind: unknown, paths: readonly VariablePath[], place: string): string[] {
  const known = paths.filter(([root = '']) => kind !== 'partial' || Object.hasOwn(TEMPLATE_DATA, root));
  return unknownVariables(known, kind === 'layout' ? LAYOUT_DATA : TEMPLATE_DATA, `Param '${place}'`);
}

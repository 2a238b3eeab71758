import { fallbacksOf } from '../../../lib/locale.ts';
import type { TemplateContent } from './get.ts';
import type { TemplatePart } from './parts.ts';

/** Returns the first of these locales, or a more general one, that the template has; or else its default. */
export function localeIn(
  { locales, default_locale }: TemplateContent,
  ...wanted: readonly (string | null)[]
): string {
  const tags = wanted.flatMap((locale) => (locale === null ? [] : fallbacksOf(locale)));
  return tags.find((tag) => Object.hasOwn(locales, tag)) ?? default_locale;
}

/** Returns the partials among these templates, by key, with their texts for a locale. */
export function partialsIn(
  parts: ReadonlyMap<string, Pick<TemplatePart, 'key' | 'kind' | 'content'>>,
  locale: string,
): Map<string, string> {
  return new Map(
    [...parts.values()].flatMap(({ key, kind, content }) =>
      kind === 'partial' ? [[key, contentIn(content, locale)] as const] : [],
    ),
  );
}

/** Returns the content of a layout or a partial for a locale. */
export function contentIn(content: TemplateContent, locale: string): string {
  return content.locales[localeIn(content, locale)]?.content ?? '';
}

import { fallbacksOf } from '../../../lib/locale.ts';
import type { TemplateContent } from './get.ts';
import type { TemplatePart } from './parts.ts';

/** Returns the locale that users with this one get: itself, a more general one, or the default. */
export function localeIn({ locales, default_locale }: TemplateContent, locale: string | null): string {
  const found = fallbacksOf(locale ?? default_locale).find((name) => Object.hasOwn(locales, name));
  return found ?? default_locale;
}

/** Returns the partials among these templates, by key, with their texts for a locale. */
export function partialsIn(
  parts: ReadonlyMap<string, Pick<TemplatePart, 'key' | 'kind' | 'content'>>,
  locale: string | null,
): Map<string, string> {
  return new Map(
    [...parts.values()].flatMap(({ key, kind, content }) =>
      kind === 'partial' ? [[key, contentIn(content, locale)] as const] : [],
    ),
  );
}

/** Returns the content of a layout or a partial for a locale. */
export function contentIn(content: TemplateContent, locale: string | null): string {
  return content.locales[localeIn(content, locale)]?.content ?? '';
}

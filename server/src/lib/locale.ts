// The longest canonical tag that is accepted. Tags in use have fewer than 20 characters.
export const MAX_LOCALE_CHARACTERS = 64;

/** Returns a BCP 47 language tag in canonical form (`pt-br` as `pt-BR`); undefined if it is not one. */
export function canonicalLocale(tag: string): string | undefined {
  try {
    const [locale = ''] = Intl.getCanonicalLocales(tag);
    return locale.length <= MAX_LOCALE_CHARACTERS ? locale : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the problem of a key of `locales` that is not a language tag in canonical form. */
export function localeProblems(locale: string, path: string): string[] {
  const canonical = canonicalLocale(locale);
  if (canonical === locale) return [];
  const expected = canonical === undefined ? 'be a language tag, such as en or pt-BR' : `be ${canonical}`;
  return [`Param '${path}' must ${expected}`];
}

/** Returns a locale and the more general ones: `zh-Hant-TW`, `zh-Hant`, `zh` (RFC 4647, lookup). */
export function fallbacksOf(locale: string): string[] {
  const subtags = locale.split('-');
  return subtags.map((_, index) => subtags.slice(0, subtags.length - index).join('-'));
}

// Browsers send fewer than ten.
const MAX_ACCEPTED = 20;

/** Returns the locales of an Accept-Language header in canonical form, the preferred one first. */
export function acceptedLocales(header = ''): string[] {
  return header
    .split(',', MAX_ACCEPTED)
    .flatMap((range) => {
      const [, tag = '', quality = '1'] = /^\s*([a-z0-9-]+)\s*(?:;\s*q=([\d.]+)\s*)?$/i.exec(range) ?? [];
      const locale = canonicalLocale(tag);
      return locale !== undefined && Number(quality) > 0 ? [{ locale, quality: Number(quality) }] : [];
    })
    .sort((a, b) => b.quality - a.quality)
    .map(({ locale }) => locale);
}

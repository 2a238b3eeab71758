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

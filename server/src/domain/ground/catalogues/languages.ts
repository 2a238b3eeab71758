import { fallbacksOf } from '../../../lib/locale.ts';
import { ar } from './ar.ts';
import { de } from './de.ts';
import { type Catalogue, en } from './en.ts';
import { es } from './es.ts';
import { fr } from './fr.ts';
import { ja } from './ja.ts';

/** A language that the fixed texts are translated to. */
export interface Language {
  /** The tag of BCP 47. */
  lang: string;
  dir: 'ltr' | 'rtl';
  texts: Catalogue;
}

export const ENGLISH: Language = { lang: 'en', dir: 'ltr', texts: en };

/** All languages, by their tag. */
export const LANGUAGES: ReadonlyMap<string, Language> = new Map(
  [
    ENGLISH,
    { lang: 'de', dir: 'ltr', texts: de } as const,
    { lang: 'es', dir: 'ltr', texts: es } as const,
    { lang: 'fr', dir: 'ltr', texts: fr } as const,
    { lang: 'ja', dir: 'ltr', texts: ja } as const,
    { lang: 'ar', dir: 'rtl', texts: ar } as const,
  ].map((language) => [language.lang, language]),
);

/** Returns the language of the first of these locales that has one; English if none has. */
export function languageFor(locales: readonly (string | null | undefined)[]): Language {
  for (const locale of locales) {
    for (const tag of fallbacksOf(locale ?? '')) {
      const language = LANGUAGES.get(tag);
      if (language !== undefined) return language;
    }
  }
  return ENGLISH;
}

/** Inserts values into a text with placeholders: `{category}`. */
export function withValues(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (placeholder, name: string) => values[name] ?? placeholder);
}

import { en, type ListMessages, type Messages } from './en.ts';

// English is part of the element. The others are loaded when they are needed.
const OTHERS: Record<string, () => Promise<Messages>> = {
  de: async () => (await import('./de.ts')).de,
  es: async () => (await import('./es.ts')).es,
  fr: async () => (await import('./fr.ts')).fr,
  ja: async () => (await import('./ja.ts')).ja,
  ar: async () => (await import('./ar.ts')).ar,
};

/**
 * Resolves with the texts of a language; with those of the list in English if there are none. Rejects if they
 * cannot be loaded.
 */
export async function loadMessages(locale: string): Promise<ListMessages> {
  return OTHERS[languageOf(locale)]?.() ?? en;
}

/** Replaces `{name}` in a text by values. */
export function filled(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

export function isRightToLeft(locale: string): boolean {
  return 'ar fa he ur ps sd ug yi dv ckb'.split(' ').includes(languageOf(locale));
}

function languageOf(locale: string): string {
  return locale.toLowerCase().split(/[-_]/)[0] ?? '';
}

/** The name of "no category" in the preferences API, unless a category of that name is configured. */
export const UNCATEGORIZED = 'uncategorized';

/** Returns the key under which preferences for a category are stored; the empty text for no category. */
export function storedKey(category: string | null): string {
  return category ?? '';
}

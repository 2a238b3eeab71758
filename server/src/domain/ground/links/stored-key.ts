/**
 * What stands for "no category" where preferences are read and saved, unless a category of that name is
 * configured.
 */
export const UNCATEGORIZED = 'uncategorized';

/**
 * Under what the preferences for a category, or for broadcasts without one, are kept: no category's name is
 * empty.
 */
export function storedKey(category: string | null): string {
  return category ?? '';
}

export const MAX_EXTERNAL_ID_CHARACTERS = 255;

/**
 * Whether a text, of whatever length, can be a user's id in the project's own system: not blank, and
 * PostgreSQL can store it.
 */
export function isExternalId(text: string): boolean {
  return /\S/.test(text) && text.isWellFormed() && !text.includes('\0');
}

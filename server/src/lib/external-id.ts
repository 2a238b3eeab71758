export const MAX_EXTERNAL_ID_CHARACTERS = 255;

/** Whether a text of any length can be a user's external id: not blank, and storable in PostgreSQL. */
export function isExternalId(text: string): boolean {
  return !isBlank(text) && text.isWellFormed() && !text.includes('\0');
}

export function isBlank(text: string): boolean {
  return text.trim() === '';
}

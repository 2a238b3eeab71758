export const MAX_EXTERNAL_ID_CHARACTERS = 255;

/** Whether a text of any length can be a user's external id: not blank, and storable in PostgreSQL. */
export function isExternalId(text: string): boolean {
  return !isBlank(text) && text.isWellFormed() && !text.includes('\0');
}

export const EXTERNAL_ID_RULE =
  'must be a whole number or a string that is not blank, of at most ' +
  `${MAX_EXTERNAL_ID_CHARACTERS} characters, without U+0000 or half of a surrogate pair`;

/**
 * Returns the external id that a parsed value is: a valid text, or a whole number as text. Rejects unsafe
 * integers: parsing changes them, so that two users would share one id.
 */
export function readExternalId(value: unknown): string | undefined {
  const text = Number.isSafeInteger(value) ? String(value) : value;
  return typeof text === 'string' && isShort(text) && isExternalId(text) ? text : undefined;
}

/** Counts characters as JSON Schema does, so that all readers accept the same ids. */
function isShort(text: string): boolean {
  return (
    text.length <= MAX_EXTERNAL_ID_CHARACTERS ||
    (text.length <= 2 * MAX_EXTERNAL_ID_CHARACTERS && [...text].length <= MAX_EXTERNAL_ID_CHARACTERS)
  );
}

export function isBlank(text: string): boolean {
  return text.trim() === '';
}

/**
 * JSON; bytes where it is long, as those need no heap, and are not converted for the database and the
 * response.
 */
export type JsonText = string | Buffer;

/** The parts one after the other. */
export function joinTexts(parts: readonly JsonText[]): JsonText {
  if (parts.every((part) => typeof part === 'string')) return parts.join('');
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
}

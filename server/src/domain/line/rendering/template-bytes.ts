import { countTags, parsedBytes } from '../../../lib/liquid.ts';

const BYTES_PER_CHARACTER = 10;
// Measured: up to 74 kB for the engines of a language, whatever its texts are.
const BYTES_PER_LANGUAGE = 90_000;

/**
 * Estimates the memory of an open template with the texts of all its languages, in bytes. The contents of the
 * message and of its parts are JSON.
 */
export function templateBytes(message: string, parts: readonly string[], languages: number): number {
  // Each language of the message parses the parts, too.
  const ofLanguage = parts.reduce((sum, part) => sum + contentBytes(part), BYTES_PER_LANGUAGE);
  return contentBytes(message) + languages * ofLanguage;
}

function contentBytes(json: string): number {
  return BYTES_PER_CHARACTER * json.length + parsedBytes(countTags(json, undefined, { isSeveral: true }));
}

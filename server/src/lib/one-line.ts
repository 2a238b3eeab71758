/**
 * Text from outside as a line that can be stored and shown: no control characters, no half of a character,
 * and at most so many UTF-16 units.
 */
export function oneLine(text: string, length = Number.POSITIVE_INFINITY): string {
  if (PLAIN.test(text)) return text.slice(0, length); // as nearly all are
  // Well-formed last: what is cut may be cut within a character.
  return text
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, length)
    .toWellFormed();
}

const PLAIN = /^[ -~]*$/;

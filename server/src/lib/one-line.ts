/**
 * Returns a text from outside as one line that can be stored and shown: no control characters, no lone
 * surrogates, and at most `length` UTF-16 units.
 */
export function oneLine(text: string, length = Number.POSITIVE_INFINITY): string {
  if (PLAIN.test(text)) return text.slice(0, length); // nearly always
  // Applied last, because slicing may split a character.
  return text
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, length)
    .toWellFormed();
}

const PLAIN = /^[ -~]*$/;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** The index of the quote that ends the string of JSON text whose first character is at `start`, or the end of a text that has none. */
export function endOfString(json: Uint8Array, start: number): number {
  let at = start;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

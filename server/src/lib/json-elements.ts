import { endOfString } from './json-string.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/**
 * The texts of an array's elements, as they stand in the text of the array, which JSON.parse has read before.
 */
export function jsonElements(json: Buffer): Buffer[] {
  const elements: Buffer[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) at = endOfString(json, at + 1);
    else if (byte === OPENING_BRACKET || byte === OPENING_BRACE) {
      depth += 1;
      if (depth === 1) start = at + 1;
    } else if (byte === COMMA) {
      if (depth !== 1) continue;
      elements.push(json.subarray(start, at));
      start = at + 1;
    } else if (byte === CLOSING_BRACKET || byte === CLOSING_BRACE) {
      depth -= 1;
      if (depth === 0) elements.push(json.subarray(start, at));
    }
  }
  // Nothing but space between the brackets is no element.
  return elements.length === 1 && elements[0]?.toString().trim() === '' ? [] : elements;
}

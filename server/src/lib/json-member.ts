import { endOfString } from './json-string.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** Where an object's member stands in the text of the object. */
export interface FoundMember {
  start: number;
  end: number;
  /** Commas between the values that it holds, one as soon as `cutBytes` have passed since the last. */
  cuts: readonly number[];
}

/**
 * The text of an object's member, as it stands in the text of the object, which JSON.parse has read before. Of members with the same name
 * it is the last, the one that JSON.parse takes: parsed, it is what `JSON.parse(json)[name]` is. `name` is ASCII.
 */
export function jsonMember(json: Buffer, name: string): Buffer | undefined {
  const found = findJsonMember(json, name);
  return found && json.subarray(found.start, found.end);
}

/** Where that member stands. Of a text that is no JSON it may be anywhere, or a name throw a SyntaxError. */
export function findJsonMember(
  json: Buffer,
  name: string,
  cutBytes = Number.POSITIVE_INFINITY,
): FoundMember | undefined {
  let member: FoundMember | undefined;
  let cuts: number[] = [];
  let cutAt = 0;
  let depth = 0;
  let named = false;
  let valueAt = 0; // 0 before the colon
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) {
      const start = at + 1;
      at = endOfString(json, start);
      if (depth === 1 && valueAt === 0) named = spells(json, start, at, name);
    } else if (byte === OPENING_BRACKET || byte === OPENING_BRACE) depth += 1;
    else if (byte === COLON && depth === 1) {
      valueAt = at + 1;
      cutAt = valueAt + cutBytes;
      cuts = [];
    } else if (byte === COMMA || byte === CLOSING_BRACKET || byte === CLOSING_BRACE) {
      if (depth === 1) {
        if (named) member = { start: valueAt, end: at, cuts };
        named = false;
        valueAt = 0;
      } else if (byte === COMMA && depth === 2 && named && at >= cutAt) {
        cuts.push(at);
        cutAt = at + cutBytes;
      }
      if (byte !== COMMA) depth -= 1;
    }
  }
  return member;
}

/** Whether the string between `start` and `end` is `name`, which may be spelt with escapes. */
function spells(json: Buffer, start: number, end: number, name: string): boolean {
  const length = end - start;
  if (length < name.length) return false;
  if (length > name.length) return JSON.parse(json.toString('utf8', start - 1, end + 1)) === name;
  for (let at = 0; at < length; at += 1) if (json[start + at] !== name.charCodeAt(at)) return false;
  return true;
}

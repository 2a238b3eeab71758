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
 * The text of an object's member, as it stands in the text of the object, which JSON.parse has read before.
 * Of members with the same name it is the last, the one that JSON.parse takes: parsed, it is what
 * `JSON.parse(json)[name]` is. `name` is ASCII.
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
  return scanObject(json, { name, cutBytes }).member;
}

/** What a JSON text may hold. Keys and values are counted together: a member of an object is two. */
export interface JsonLimits {
  keysAndValues: number;
  /** Those within the member `name`, if it is an array. */
  inMember: number;
  levels: number;
}

/** What was found: the member, or the limit that the text exceeds. */
export interface ScannedObject {
  member: FoundMember | undefined;
  exceeded: keyof JsonLimits | undefined;
}

const NO_LIMITS: JsonLimits = {
  keysAndValues: Number.POSITIVE_INFINITY,
  inMember: Number.POSITIVE_INFINITY,
  levels: Number.POSITIVE_INFINITY,
};

/**
 * Looks for the member `name` of an object and counts keys and values, by one pass over the text before it is
 * parsed: what is built of `{"a":1,"b":1,…` takes a hundred times as long, and ten times the memory. Ends as
 * soon as a limit is exceeded.
 */
export function scanObject(
  json: Buffer,
  {
    name,
    cutBytes = Number.POSITIVE_INFINITY,
    limits = NO_LIMITS,
  }: { name?: string | undefined; cutBytes?: number; limits?: JsonLimits },
): ScannedObject {
  const { keysAndValues, inMember, levels } = limits;
  let member: FoundMember | undefined;
  let cuts: number[] = [];
  let cutAt = 0;
  let depth = 0;
  let named = false;
  let valueAt = 0; // 0 before the colon
  // One counter, which is set aside while the scan is within the member.
  let count = 1;
  let limit = keysAndValues;
  let aside = 0;
  let within = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) {
      const start = at + 1;
      at = endOfString(json, start);
      if (depth === 1 && valueAt === 0 && name !== undefined) named = spells(json, start, at, name);
    } else if (byte === COMMA || byte === COLON) {
      count += 1;
      if (depth > 2) continue;
      if (depth === 1) {
        if (byte === COLON) {
          valueAt = at + 1;
          cutAt = valueAt + cutBytes;
          cuts = [];
        } else {
          if (named) member = { start: valueAt, end: at, cuts };
          named = false;
          valueAt = 0;
        }
      } else if (named && byte === COMMA && depth === 2 && at >= cutAt) {
        cuts.push(at);
        cutAt = at + cutBytes;
      }
      if (count > limit) break;
    } else if (byte === OPENING_BRACKET || byte === OPENING_BRACE) {
      count += 1;
      if (count > limit) break;
      if (depth === 1 && named && byte === OPENING_BRACKET) {
        [aside, count, limit, within] = [count, 0, inMember, true];
      }
      depth += 1;
      if (depth > levels) return { member: undefined, exceeded: 'levels' };
    } else if (byte === CLOSING_BRACKET || byte === CLOSING_BRACE) {
      if (count > limit) break;
      if (depth === 1) {
        if (named) member = { start: valueAt, end: at, cuts };
        named = false;
        valueAt = 0;
      }
      depth -= 1;
      if (depth === 1 && within) [count, limit, within] = [aside, keysAndValues, false];
    }
  }
  if (count > limit) return { member: undefined, exceeded: within ? 'inMember' : 'keysAndValues' };
  return { member, exceeded: undefined };
}

/** Whether the string between `start` and `end` is `name`, which may be spelt with escapes. */
function spells(json: Buffer, start: number, end: number, name: string): boolean {
  const length = end - start;
  if (length < name.length) return false;
  if (length > name.length) return JSON.parse(json.toString('utf8', start - 1, end + 1)) === name;
  for (let at = 0; at < length; at += 1) if (json[start + at] !== name.charCodeAt(at)) return false;
  return true;
}

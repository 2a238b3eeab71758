import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { ImportPage } from '../../domain/people/imports/create.ts';
import { ClientError } from '../../errors.ts';
import { readJson } from '../../lib/exact-numbers.ts';
import { type FoundMember, type JsonLimits, jsonMember, scanObject } from '../../lib/json-member.ts';
import { memberOf } from '../../lib/members.ts';
import { pagesOfUsers, parseRows, type RowFormat } from './parse-rows.ts';

/** How the body of a route is parsed. Plain data, which can be sent to a thread. */
export interface BodyRules {
  limits: JsonLimits;
  /** The member that may be a long array, with a limit of its own. */
  longArray?: string | undefined;
  /** The body may be wrapped in an object, as its only member with this key. */
  unwrap?: string | undefined;
  /** `value` keeps the wrapper; the texts are those of the body within. */
  keepWrapper?: boolean;
  /** Compute `hash`. */
  hashed: boolean;
  /** The body is a list of users: the member `users` of an object, or lines in this format. */
  users?: 'json' | RowFormat;
}

/** A parsed body. */
export interface ParsedBody {
  value: unknown;
  /** The text that the body was parsed from, without a wrapper. */
  json: Buffer | undefined;
  /** The text of the member `longArray`, if the scan found it. */
  longArray: Buffer | undefined;
  /** SHA-256 of the bytes as they were sent. */
  hash: Buffer | undefined;
  /** The users of the body, which `value` does not have. */
  pages?: ImportPage[];
}

/** Parses a body like `parseBody`, or into pages of users. */
export function parseAny(sent: Buffer, rules: BodyRules): ParsedBody {
  const { users, hashed } = rules;
  if (users === undefined) return parseBody(sent, rules);
  const none = { json: undefined, longArray: undefined };
  if (users !== 'json') {
    const hash = hashed ? createHash('sha256').update(sent).digest() : undefined;
    return { ...none, value: '', hash, pages: parseRows(sent, users) };
  }
  const { value, hash } = parseBody(sent, rules);
  const body = Object(bodyWithin(value, rules)) as { users?: unknown };
  if (!Array.isArray(body.users)) return { ...none, value, hash };
  const pages = pagesOfUsers(body.users, rules.keepWrapper ? rules.unwrap : undefined);
  body.users = [];
  return { ...none, value, hash, pages };
}

/** The parsed body without its wrapper. */
export function bodyWithin(value: unknown, { unwrap, keepWrapper }: BodyRules): unknown {
  return keepWrapper && unwrap !== undefined ? memberOf(value, unwrap) : value;
}

const BOM = Buffer.from('\ufeff');

/**
 * Parses a body of JSON in UTF-8. Throws `payload_too_large` or `validation_failed` for one that exceeds a
 * limit, before it is parsed, and `invalid_json`. A member named `__proto__` becomes an own member like any
 * other.
 */
function parseBody(sent: Buffer, { limits, longArray, unwrap, keepWrapper, hashed }: BodyRules): ParsedBody {
  const hash = hashed ? createHash('sha256').update(sent).digest() : undefined;
  // Some programs write a byte order mark, which has no meaning in UTF-8 (RFC 8259, 8.1).
  const json = sent.subarray(0, BOM.length).equals(BOM) ? sent.subarray(BOM.length) : sent;
  // v1 clients send the content type with no body.
  if (json.length === 0) return { value: undefined, json: undefined, longArray: undefined, hash };
  if (!isUtf8(json)) {
    throw new ClientError('invalid_json', ['The request body is not valid JSON: it is not UTF-8']);
  }
  const read = (text: Buffer): ParsedBody => {
    const { member, exceeded } = scanUnlessBroken(text, { name: longArray, limits });
    if (exceeded !== undefined) throw tooMuch(exceeded, limits, longArray);
    return {
      value: parse(text, longArray, member),
      json: text,
      longArray: member && text.subarray(member.start, member.end),
      hash,
    };
  };
  if (unwrap === undefined) return read(json);
  const inner = innerText(json, unwrap);
  const body = inner && unlessInvalid(() => read(inner));
  if (body !== undefined) return keepWrapper ? { ...body, value: { [unwrap]: body.value } } : body;
  const whole = read(json);
  if (!isOnlyMember(whole.value, unwrap)) return whole;
  // The key is written with escapes, or twice.
  const value = keepWrapper ? whole.value : whole.value[unwrap];
  return { ...whole, value, json: jsonMember(json, unwrap), longArray: undefined };
}

function unlessInvalid(read: () => ParsedBody): ParsedBody | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ClientError && error.code === 'invalid_json') return undefined;
    throw error;
  }
}

function parse(json: Buffer, longArray?: string, member?: FoundMember): unknown {
  try {
    return parseInPieces(json, longArray, member) ?? readJson(json.toString());
  } catch (error) {
    throw new ClientError('invalid_json', [
      `The request body is not valid JSON: ${error instanceof Error ? error.message : error}`,
    ]);
  }
}

// From this length on V8 places a text, and what it parses of it, in memory that is mapped for it alone or
// collected last.
const LONG_BYTES = 100 * 1024;
// A longer text stays whole, outside of the heap: joined parts of it would be copied into the heap.
const VERY_LONG_BYTES = 4 * 1024 * 1024;

/**
 * Parses an object whose member `name` is a long array, and the elements of the array in pieces, which die
 * young: a broadcast to 1,000 recipients with details takes a third less of Node's time until it is accepted.
 * Returns undefined if the text has no such array or is not valid: parsing the whole then reports the
 * position. The same if it has numbers as elements, whose digits are kept by the array that has them.
 */
function parseInPieces(json: Buffer, name = '', member?: FoundMember): unknown {
  const { opening, closing, cuts } = member?.array ?? { opening: 0, closing: 0, cuts: [] };
  if (closing - opening < LONG_BYTES || json.length > VERY_LONG_BYTES) return undefined;
  try {
    const emptied = json.toString('utf8', 0, opening + 1) + json.toString('utf8', closing);
    const value = readJson(emptied) as Record<string, unknown>;
    const elements: unknown[] = [];
    let start = opening + 1;
    for (const end of [...cuts, closing]) {
      const piece = readJson(`[${json.toString('utf8', start, end)}]`) as unknown[];
      if (piece.length === 0) return undefined; // a comma without an element
      for (const element of piece) {
        if (typeof element === 'number') return undefined;
        elements.push(element);
      }
      start = end + 1;
    }
    value[name] = elements;
    return value;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** An invalid name ends the scan. JSON.parse also fails there, and the text before is within the limits. */
function scanUnlessBroken(...how: Parameters<typeof scanObject>): ReturnType<typeof scanObject> {
  try {
    return scanObject(...how);
  } catch (error) {
    if (error instanceof SyntaxError) return { member: undefined, exceeded: undefined };
    throw error;
  }
}

/** The text of an object's only member, if the object begins with this key. It may be invalid JSON. */
function innerText(json: Buffer, key: string): Buffer | undefined {
  const name = `"${key}"`;
  const brace = skipSpace(json, 0);
  const nameAt = skipSpace(json, brace + 1);
  const nameEnd = nameAt + name.length;
  if (json[brace] !== OPENING_BRACE || json.toString('latin1', nameAt, nameEnd) !== name) return undefined;
  const colon = skipSpace(json, nameEnd);
  let end = json.length - 1;
  while (isSpace(json[end])) end -= 1;
  return json[colon] === COLON && json[end] === CLOSING_BRACE ? json.subarray(colon + 1, end) : undefined;
}

function skipSpace(json: Buffer, start: number): number {
  let at = start;
  while (isSpace(json[at])) at += 1;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;
const COLON = 0x3a;

function isOnlyMember(value: unknown, key: string): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === key;
}

function tooMuch(exceeded: keyof JsonLimits, limits: JsonLimits, longArray = ''): ClientError {
  const limit = limits[exceeded].toLocaleString('en');
  if (exceeded === 'levels') {
    return new ClientError('validation_failed', [
      `The request is nested too deeply: at most ${limit} levels`,
    ]);
  }
  if (exceeded === 'inMember') {
    return new ClientError('payload_too_large', [
      `Param '${longArray}' has more than ${limit} keys and values`,
    ]);
  }
  const besides = longArray === '' ? '' : ` besides '${longArray}'`;
  return new ClientError('payload_too_large', [
    `The request body has more than ${limit} keys and values${besides}`,
  ]);
}

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { ImportPage } from '../domain/people/imports/create.ts';
import { ClientError } from '../errors.ts';
import { findJsonMember, type JsonLimits, jsonMember, scanObject } from '../lib/json-member.ts';
import { pagesOfUsers, parseRows, type RowFormat } from './parse-rows.ts';

/** How the body of a route is parsed. Plain data, which can be sent to a thread. */
export interface BodyRules {
  limits: JsonLimits;
  /** The member that may be a long array, with a limit of its own. */
  longArray?: string | undefined;
  /** The body may be wrapped in an object, as its only member with this key. */
  unwrap?: string | undefined;
  /** Compute `hash`. */
  hashed: boolean;
  /** The body is a list of users: the member `users` of an object, or lines in this format. */
  users?: 'json' | RowFormat;
}

/** A parsed body. */
export interface ParsedBody {
  value: unknown;
  /** The text that `value` was parsed from. */
  json: Buffer | undefined;
  /** The text of its member `longArray`, if the scan found it. */
  longArray: Buffer | undefined;
  /** SHA-256 of the bytes as they were sent. */
  hash: Buffer | undefined;
  /** The users of the body, which `value` does not have. */
  pages?: ImportPage[];
}

/** Parses a body like `parseBody`, or into pages of users; `value` then has the wrapper. */
export function parseAny(sent: Buffer, rules: BodyRules): ParsedBody {
  const { users, hashed, unwrap } = rules;
  if (users === undefined) return parseBody(sent, rules);
  const none = { json: undefined, longArray: undefined };
  if (users !== 'json') {
    const hash = hashed ? createHash('sha256').update(sent).digest() : undefined;
    return { ...none, value: '', hash, pages: parseRows(sent, users) };
  }
  const { value, hash } = parseBody(sent, rules);
  const wrap = (inner: unknown) =>
    unwrap === undefined || value === undefined ? inner : { [unwrap]: inner };
  const body = Object(value) as { users?: unknown };
  if (!Array.isArray(body.users)) return { ...none, value: wrap(value), hash };
  return { ...none, value: wrap({ ...body, users: [] }), hash, pages: pagesOfUsers(body.users) };
}

const BOM = Buffer.from('\ufeff');

/**
 * Parses a body of JSON in UTF-8. Throws `payload_too_large` or `validation_failed` for one that exceeds a
 * limit, before it is parsed, and `invalid_json`. A member named `__proto__` becomes an own member like any
 * other.
 */
function parseBody(sent: Buffer, { limits, longArray, unwrap, hashed }: BodyRules): ParsedBody {
  const hash = hashed ? createHash('sha256').update(sent).digest() : undefined;
  // Some programs write a byte order mark, which has no meaning in UTF-8 (RFC 8259, 8.1).
  const json = sent.subarray(0, BOM.length).equals(BOM) ? sent.subarray(BOM.length) : sent;
  // v1 clients send the content type with no body.
  if (json.length === 0) return { value: undefined, json: undefined, longArray: undefined, hash };
  if (!isUtf8(json)) {
    throw new ClientError('invalid_json', ['The request body is not valid JSON: it is not UTF-8']);
  }
  const { text, wrapped, ...scanned } = scan(json, { limits, longArray, unwrap });
  if (scanned.exceeded !== undefined) throw tooMuch(scanned.exceeded, limits, longArray);
  const value = parse(text);
  if (wrapped || unwrap === undefined || !isOnlyMember(value, unwrap)) {
    const { member } = scanned;
    return { value, json: text, longArray: member && text.subarray(member.start, member.end), hash };
  }
  return { value: value[unwrap], json: jsonMember(text, unwrap), longArray: undefined, hash };
}

function parse(json: Buffer): unknown {
  try {
    return JSON.parse(json.toString());
  } catch (error) {
    throw new ClientError('invalid_json', [
      `The request body is not valid JSON: ${error instanceof Error ? error.message : error}`,
    ]);
  }
}

/** Scans a body. If it is wrapped and has a long array, `text` is the text within the wrapper. */
function scan(
  json: Buffer,
  { limits, longArray, unwrap }: Pick<BodyRules, 'limits' | 'longArray' | 'unwrap'>,
) {
  const how = { name: longArray, limits };
  const scanned = scanUnlessBroken(json, how);
  if (scanned.exceeded === 'keysAndValues' && longArray !== undefined && unwrap !== undefined) {
    const inner = innerText(json, unwrap);
    if (inner !== undefined) return { ...scanUnlessBroken(inner, how), text: inner, wrapped: true };
  }
  return { ...scanned, text: json, wrapped: false };
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

// A key with its brackets and some white space.
const WRAPPER_BYTES = 256;

/** The text of the only member of an object; undefined for other texts. */
function innerText(json: Buffer, key: string): Buffer | undefined {
  try {
    const found = findJsonMember(json, key);
    if (found === undefined || json.length - (found.end - found.start) > WRAPPER_BYTES) return undefined;
    const around = `${json.toString('utf8', 0, found.start)}0${json.toString('utf8', found.end)}`;
    return isOnlyMember(JSON.parse(around), key) ? json.subarray(found.start, found.end) : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

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

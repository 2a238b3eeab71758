import { jsonMember } from './json-member.ts';

/** JSON text. Long texts are bytes, which need no heap and no conversion for the database and responses. */
export type JsonText = string | JsonBytes;

/** JSON text in UTF-8. Its parts are not joined: copying 30 MB blocks the event loop for 20 ms and more. */
export class JsonBytes {
  readonly parts: readonly Buffer[];
  /** In bytes. */
  readonly length: number;

  constructor(parts: readonly Buffer[]) {
    this.parts = parts;
    this.length = parts.reduce((length, part) => length + part.length, 0);
  }

  /** The members of an object, without its braces. */
  withoutBraces(): JsonBytes {
    const parts = [...this.parts];
    parts[0] = (parts[0] as Buffer).subarray(1);
    parts.push((parts.pop() as Buffer).subarray(0, -1));
    return new JsonBytes(parts);
  }

  /** Copies the text, unless it has one part. */
  toBuffer(): Buffer {
    const [first] = this.parts;
    return first !== undefined && this.parts.length === 1 ? first : Buffer.concat(this.parts, this.length);
  }

  toString(): string {
    return this.toBuffer().toString();
  }
}

/** Concatenates JSON texts. */
export function joinTexts(texts: readonly JsonText[]): JsonText {
  if (texts.every((text) => typeof text === 'string')) return texts.join('');
  return new JsonBytes(texts.flatMap((text) => (typeof text === 'string' ? Buffer.from(text) : text.parts)));
}

/**
 * Returns the JSON of a member in one line, with its numbers as they were sent. `value` is the parsed member;
 * `json` the whole object. If `value` contains a number that is not a safe integer, the text is copied from
 * `json`, because parsing may have changed the number.
 */
export function exactJson(json: Buffer | undefined, name: string, value: unknown): string {
  const text = json !== undefined && mayBeInexact(value) ? jsonMember(json, name) : undefined;
  if (text === undefined) return writeJson(value);
  // JSON has no raw line breaks within strings.
  return text
    .toString()
    .replace(/[\t\n\r]/g, '')
    .trim();
}

function mayBeInexact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isSafeInteger(value);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(mayBeInexact);
  for (const name in value) if (mayBeInexact((value as Record<string, unknown>)[name])) return true;
  return false;
}

// ECMAScript 2026, not yet declared by TypeScript 6.
declare global {
  interface JSON {
    parse(
      text: string,
      reviver: (this: object, key: string, value: unknown, context: { source: string }) => unknown,
    ): unknown;
    rawJSON(text: string): object;
  }
}

/** Parses JSON so that JSON.stringify writes every number as it was written. Numbers become objects. */
export function parseExact(json: string): unknown {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value,
  );
}

/** The numbers that parsing changed, as they were written, by the object or array that holds them. */
const written = new WeakMap<object, Map<string, string>>();

/**
 * Parses JSON like `JSON.parse`. `writeJson` writes the numbers of the result as they were written, as long
 * as they stay in their object or array.
 */
export function readJson(json: string): unknown {
  const value: unknown = JSON.parse(json);
  if (!mayBeInexact(value)) return value;
  return JSON.parse(json, function (key, value, { source }) {
    if (typeof value === 'number') rememberNumber(this, key, value, source);
    return value;
  });
}

/** Remembers how the number of a member was written. */
export function rememberNumber(holder: object, key: string, value: number, source: string): void {
  if (String(value) === source) return;
  const numbers = written.get(holder) ?? new Map<string, string>();
  written.set(holder, numbers.set(key, source));
}

/** Remembers the same of the members of a copy. Returns the copy. */
export function keepNumbers<Copy extends object>(original: object, copy: Copy): Copy {
  const numbers = written.get(original);
  if (numbers !== undefined) written.set(copy, numbers);
  return copy;
}

/** Writes JSON like `JSON.stringify`, with numbers as `readJson` has read them. */
export function writeJson(value: unknown): string {
  if (!mayBeInexact(value)) return JSON.stringify(value);
  return JSON.stringify(value, function (this: object, key: string, member: unknown) {
    const source = typeof member === 'number' ? written.get(this)?.get(key) : undefined;
    return source !== undefined && Number(source) === member ? JSON.rawJSON(source) : member;
  });
}

/**
 * Returns a value of `readJson` for code that calls `JSON.stringify`, which then writes its numbers as they
 * were written.
 */
export function withExactNumbers(value: unknown): unknown {
  return mayBeInexact(value) ? parseExact(writeJson(value)) : value;
}

/** A number that parsing changed, with the members that lead to it. */
export type WrittenNumber = [path: string[], source: string];

/** Returns the numbers that `readJson` remembers in a value. They can be sent to another thread. */
export function writtenNumbers(value: unknown): WrittenNumber[] {
  const found: WrittenNumber[] = [];
  if (mayBeInexact(value)) collect(value as object, [], found);
  return found;
}

function collect(holder: object, path: readonly string[], found: WrittenNumber[]): void {
  for (const [key, source] of written.get(holder) ?? []) found.push([[...path, key], source]);
  for (const [key, member] of Object.entries(holder))
    if (typeof member === 'object' && member !== null) collect(member, [...path, key], found);
}

/** Remembers them in a clone of the value. */
export function rememberWritten(clone: unknown, numbers: readonly WrittenNumber[]): void {
  for (const [path, source] of numbers) {
    const key = path.at(-1) as string;
    let holder = clone as Record<string, unknown>;
    for (const name of path.slice(0, -1)) holder = holder[name] as Record<string, unknown>;
    rememberNumber(holder, key, Number(source), source);
  }
}

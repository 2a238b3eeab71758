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
  if (text === undefined) return JSON.stringify(value);
  // JSON has no raw line breaks within strings.
  return text
    .toString()
    .replace(/[\t\n\r]/g, '')
    .trim();
}

function mayBeInexact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isSafeInteger(value);
  if (typeof value !== 'object' || value === null) return false;
  for (const name in value) if (mayBeInexact((value as Record<string, unknown>)[name])) return true;
  return false;
}

// ECMAScript 2026, not yet declared by TypeScript 6.
declare global {
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { source: string }) => unknown,
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

import { jsonMember } from './json-member.ts';

/** JSON, as bytes where it is long: these need no heap, and no conversion for the database and responses. */
export type JsonText = string | Buffer;

/** Concatenates texts. */
export function joinTexts(parts: readonly JsonText[]): JsonText {
  if (parts.every((part) => typeof part === 'string')) return parts.join('');
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
}

/**
 * The JSON of a member in one line, with its numbers as they were sent. `value` is the parsed member: only
 * its safe integers are certain to be exact, so with any other number its text is copied from `json`, which
 * is the whole object.
 */
export function exactJson(json: Buffer | undefined, name: string, value: unknown): string {
  const text = json !== undefined && mayBeInexact(value) ? jsonMember(json, name) : undefined;
  if (text === undefined) return JSON.stringify(value);
  // JSON has no raw line ends within strings.
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

// ECMAScript 2026, which TypeScript 6 does not describe yet.
declare global {
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { source: string }) => unknown,
    ): unknown;
    rawJSON(text: string): object;
  }
}

/** Parses JSON; JSON.stringify then writes every number as it was written. Numbers are objects meanwhile. */
export function parseExact(json: string): unknown {
  return JSON.parse(json, (_key, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value,
  );
}

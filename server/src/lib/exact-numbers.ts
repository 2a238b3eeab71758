import { randomUUID } from 'node:crypto';

/** Whether the value has a number that is not a safe integer, so that parsing may have changed it. */
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
    rawJSON(text: string): object;
  }
}

/** The numbers that parsing changed, as they were written, by the object or array that holds them. */
const written = new WeakMap<object, Map<string, string>>();

// A double holds any number of 15 digits.
const MAY_CHANGE = /[\d.]{16}|[\d.]+[eE]/;
// Such a number in a text. Most texts with fractions have none, and need not be parsed once more.
const MAY_HAVE_CHANGED = new RegExp(`[[:,\\s]-?(?:${MAY_CHANGE.source})`);

/**
 * Parses JSON like `JSON.parse`. `writeJson` writes the numbers of the result as they were written, as long
 * as they stay in their object or array.
 */
export function readJson(json: string): unknown {
  const value: unknown = JSON.parse(json);
  if (!mayBeInexact(value)) return value;
  return json.length > LONG || MAY_HAVE_CHANGED.test(json) ? readNumbers(json, value) : value;
}

// Matching a longer text may take more than 10 ms. It is mostly strings, which `readNumbers` skips.
const LONG = 1024 * 1024;

/**
 * Parses JSON once more, with a string for each number that a double may not hold, and replaces the strings.
 * A reviver of `JSON.parse` takes ten times as long.
 */
function readNumbers(json: string, plain: unknown): unknown {
  const tag = `${randomUUID()} `; // no string of the text begins with it
  const tagged = tagNumbers(json, tag);
  const value: unknown = tagged === undefined ? undefined : JSON.parse(tagged);
  if (typeof value !== 'object' || value === null) return plain;
  replaceTagged(value as Record<string, unknown>, tag);
  return value;
}

/**
 * Replaces the numbers that a double may not hold by strings that begin with the tag. Undefined if there are
 * none. `json` must be valid JSON. Not a regular expression, whose stack would not suffice for long strings.
 */
function tagNumbers(json: string, tag: string): string | undefined {
  const parts: string[] = [];
  const from = (index: number) => (index < 0 ? json.length : index);
  const number = /-?\d[\d.eE+-]*/y;
  let copied = 0;
  let backslash = from(json.indexOf('\\'));
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) {
      const quote = from(json.indexOf('"', at + 1));
      if (quote < backslash) at = quote;
      else {
        // Searching once for each of many escapes takes longer.
        at = backslash + 2;
        for (let inner = json.charCodeAt(at); inner !== QUOTE && at < json.length; ) {
          at += inner === BACKSLASH ? 2 : 1;
          inner = json.charCodeAt(at);
        }
        backslash = from(json.indexOf('\\', at));
      }
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      number.lastIndex = at;
      const [source] = number.exec(json) as RegExpExecArray;
      if (MAY_CHANGE.test(source) && String(Number(source)) !== source) {
        parts.push(json.slice(copied, at), `"${tag}${source}"`);
        copied = at + source.length;
      }
      at += source.length - 1;
    }
  }
  return parts.length === 0 ? undefined : parts.join('') + json.slice(copied);
}

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const BACKSLASH = 0x5c;

function replaceTagged(holder: Record<string, unknown>, tag: string): void {
  for (const name of Object.keys(holder)) {
    const member = holder[name];
    if (typeof member === 'object' && member !== null) replaceTagged(member as typeof holder, tag);
    else if (typeof member === 'string' && member.startsWith(tag)) {
      const source = member.slice(tag.length);
      const value = Number(source);
      holder[name] = value;
      rememberNumber(holder, name, value, source);
    }
  }
}

/** Remembers how the number of a member was written. */
export function rememberNumber(holder: object, key: string, value: number, source: string): void {
  if (String(value) === source) return;
  const numbers = written.get(holder) ?? new Map<string, string>();
  written.set(holder, numbers.set(key, source));
}

/** Remembers the same of the members of a copy, which may be of several originals. Returns the copy. */
export function keepNumbers<Copy extends object>(original: object, copy: Copy): Copy {
  const numbers = written.get(original);
  if (numbers !== undefined) written.set(copy, new Map([...(written.get(copy) ?? []), ...numbers]));
  return copy;
}

/** Returns how many characters the members of an object or array have that are written as they were read. */
export function writtenCharacters(holder: object): number {
  const numbers = written.get(holder);
  if (numbers === undefined) return 0;
  let characters = 0;
  for (const source of numbers.values()) characters += source.length;
  return characters;
}

/** Writes JSON like `JSON.stringify`, with numbers as `readJson` has read them. */
export function writeJson(value: unknown): string {
  return JSON.stringify(withExactNumbers(value));
}

/**
 * Returns a value of `readJson` for code that calls `JSON.stringify`, which then writes its numbers as they
 * were written. A replacer of `JSON.stringify` takes ten times as long.
 */
export function withExactNumbers(value: unknown): unknown {
  return hasWritten(value) ? exact(value) : value;
}

/** Whether a member of the value, at any depth, is written as it was read. Few are: copying takes longer. */
function hasWritten(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (written.has(value)) return true;
  if (Array.isArray(value)) return value.some(hasWritten);
  for (const name in value) if (hasWritten((value as Record<string, unknown>)[name])) return true;
  return false;
}

function exact(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const holder = value as Record<string, unknown>;
  let copy: typeof holder | undefined;
  const copied = () => (Array.isArray(value) ? [...value] : { ...value }) as typeof holder;
  for (const name in holder) {
    const member = holder[name];
    if (typeof member !== 'object' || member === null) continue;
    const exactMember = exact(member);
    if (exactMember === member) continue;
    copy ??= copied();
    copy[name] = exactMember;
  }
  const numbers = written.get(value);
  if (numbers === undefined) return copy ?? value;
  for (const [name, source] of numbers) {
    if (holder[name] !== Number(source)) continue;
    copy ??= copied();
    copy[name] = JSON.rawJSON(source);
  }
  return copy ?? value;
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

/*
 * The costs of CEL functions in steps, in addition to those of reading their operands. A step takes about 0.1
 * µs.
 */

/**
 * Returns the additional cost of a function; undefined if it has none. The cost function throws if it cannot
 * be bounded.
 */
export function costOf(name: string): ((operands: readonly unknown[]) => number) | undefined {
  return COSTS.get(name);
}

const COSTS: ReadonlyMap<string, (operands: readonly unknown[]) => number> = new Map([
  // Searching backwards compares the whole needle at every position. Searching forwards skips positions, but
  // only for needles of up to 250 characters.
  ['lastIndexOf', ([text, needle]) => Math.ceil((lengthOf(text) * lengthOf(needle)) / 128)],
  ...['contains', 'indexOf', 'split'].map(
    (name) =>
      [name, ([text, needle]: readonly unknown[]) => searchCost(lengthOf(text), lengthOf(needle))] as const,
  ),
  ['size', ([value]) => (isMap(value) ? STEPS_PER_KEY * Object.keys(value).length : 0)],
  ['duration', ([text]) => withinCharacters(text, MAX_DURATION_CHARACTERS)],
]);

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

const MAX_FREE_NEEDLE = 250;

function searchCost(length: number, needle: number): number {
  return needle <= MAX_FREE_NEEDLE ? 0 : Math.ceil((length * needle) / 512);
}

// The library's regular expression for durations takes cubic time.
const MAX_DURATION_CHARACTERS = 64;

function withinCharacters(text: unknown, most: number): number {
  if (lengthOf(text) > most) throw new Error(`a duration has at most ${most} characters`);
  return 0;
}

/** The cost of listing a key of a map: 0.15 µs. */
export const STEPS_PER_KEY = 2;

/** Whether the value is a map of the data, not an object of the library (a timestamp, a set, a map). */
export function isMap(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function membersOf(value: object): Iterable<unknown> {
  if (Array.isArray(value)) return value;
  return value instanceof Map ? value.values() : Object.values(value);
}

/** Returns the number of values within a value. Stops counting at `most`. */
export function weightOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  let weight = 0;
  const open: object[] = [value];
  for (let next = open.pop(); next !== undefined && weight <= most; next = open.pop()) {
    for (const member of membersOf(next)) {
      weight += 1;
      if (weight > most) break;
      if (typeof member === 'object' && member !== null) open.push(member);
    }
  }
  return weight;
}

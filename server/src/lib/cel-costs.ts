/*
 * What CEL's operations cost in steps, beyond what is counted when their operands are read. A step is about 0.1 µs.
 */

/** What a call of a function costs, where it is more than its operands; throws where it cannot be bounded. */
export function costOf(name: string): ((operands: readonly unknown[]) => number) | undefined {
  return COSTS.get(name);
}

const COSTS: ReadonlyMap<string, (operands: readonly unknown[]) => number> = new Map([
  // Backwards every place is compared with all that is looked for; forwards the runtime leaps, but over no
  // more than 250 characters.
  ['lastIndexOf', ([text, wanted]) => Math.ceil((lengthOf(text) * lengthOf(wanted)) / 128)],
  ...['contains', 'indexOf', 'split'].map(
    (name) =>
      [name, ([text, wanted]: readonly unknown[]) => forwards(lengthOf(text), lengthOf(wanted))] as const,
  ),
  ['size', ([value]) => (isMap(value) ? STEPS_PER_KEY * Object.keys(value).length : 0)],
  ['duration', ([text]) => withinCharacters(text, MAX_DURATION_CHARACTERS)],
]);

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

const LEAP = 250;

function forwards(length: number, wanted: number): number {
  return wanted <= LEAP ? 0 : Math.ceil((length * wanted) / 512);
}

// The library's pattern for durations takes the third power of their length.
const MAX_DURATION_CHARACTERS = 64;

function withinCharacters(text: unknown, most: number): number {
  if (lengthOf(text) > most) throw new Error(`a duration has at most ${most} characters`);
  return 0;
}

/** To list the keys of a map takes 0.15 µs for each. */
export const STEPS_PER_KEY = 2;

/** A map of the data, and not what the library makes (a time, a set, a map). */
export function isMap(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** How many values there are in a value; no more than `most` are looked at. */
export function weightOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  let weight = 0;
  const open: object[] = [value];
  for (let next = open.pop(); next !== undefined && weight <= most; next = open.pop()) {
    for (const member of Array.isArray(next) ? next : Object.values(next)) {
      weight += 1;
      if (weight > most) break;
      if (typeof member === 'object' && member !== null) open.push(member);
    }
  }
  return weight;
}

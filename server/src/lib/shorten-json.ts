import { keepNumbers, writeJson } from './exact-numbers.ts';

// Tried in this order: how many items of each list are kept, and how many characters of each text.
const STEPS: readonly (readonly [items: number, characters: number])[] = [
  [1_000, 16_384],
  [200, 4_096],
  [50, 4_096],
  [20, 1_024],
  [5, 1_024],
  [1, 256],
];

/**
 * Returns the object if it takes at most `maxBytes` as JSON, else a copy with its long lists and texts cut.
 * Undefined if it has so many members that it is still longer.
 */
export function shortenJson<Value extends object>(value: Value, maxBytes: number): Value | undefined {
  const fits = (one: Value) =>
    bytesAtLeast(one, maxBytes) <= maxBytes && Buffer.byteLength(writeJson(one)) <= maxBytes;
  let shortened = value;
  for (const [items, characters] of STEPS) {
    if (fits(shortened)) return shortened;
    shortened = shorten(shortened, items, characters) as Value;
  }
  return fits(shortened) ? shortened : undefined;
}

/** A lower bound of the bytes of a value as JSON, not counted beyond `enough`: writing it takes longer. */
function bytesAtLeast(value: unknown, enough: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 1;
  let bytes = 2;
  const add = (more: number) => {
    bytes += more;
    return bytes > enough;
  };
  if (Array.isArray(value)) value.some((item) => add(bytesAtLeast(item, enough - bytes)));
  else
    Object.entries(value).some(([name, member]) =>
      add(name.length + 3 + bytesAtLeast(member, enough - bytes)),
    );
  return bytes;
}

function shorten(value: unknown, items: number, characters: number): unknown {
  if (typeof value === 'string')
    return value.length <= characters ? value : `${value.slice(0, characters - 1).toWellFormed()}…`;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const kept = value.slice(0, items).map((item) => shorten(item, items, characters));
    return keepNumbers(value, kept);
  }
  const members = Object.entries(value).map(([name, member]) => [name, shorten(member, items, characters)]);
  return keepNumbers(value, Object.fromEntries(members));
}

import { isMap } from './cel-costs.ts';

/**
 * Returns the value with a Map in place of each object that has a member `constructor`: the library reads the
 * class of a value from there. Returns the value itself if it contains no such object.
 */
export function withMaps(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withMaps);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  if (!isMap(value)) return value;
  const entries = Object.entries(value);
  const members = entries.map(([name, member]) => [name, withMaps(member)] as const);
  if (Object.hasOwn(value, 'constructor')) return new Map(members);
  const isSame = members.every(([, member], index) => member === entries[index]?.[1]);
  return isSame ? value : Object.fromEntries(members);
}

/** Whether an evaluation failed because the library took a member `constructor` for the class of a value. */
export function isMisreadClass(error: unknown): boolean {
  // A TypeError if the member is null.
  if (error instanceof TypeError) return true;
  return error instanceof Error && 'code' in error && error.code === 'unsupported_type';
}

/** Returns a map with these entries. The library would leave out names such as `constructor`. */
export function mapOf(entries: readonly (readonly [unknown, unknown])[]): object {
  const needsMap = entries.some(([name]) => name === 'constructor');
  return needsMap ? new Map(entries) : Object.fromEntries(entries as [string, unknown][]);
}

/**
 * A member of a value that may be anything: undefined where it is no object, or has none of its own with this
 * name.
 */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}

/** The items of a value that may be anything: none where it is no array. */
export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

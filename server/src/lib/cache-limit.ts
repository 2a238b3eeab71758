/**
 * Returns the size options of an `LRUCache` that allocates memory only for the entries it has. With the
 * option `max`, it preallocates 28 bytes for each possible entry, 44 with a `ttl`.
 */
export function cacheLimit(entries: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: () => 1 };
}

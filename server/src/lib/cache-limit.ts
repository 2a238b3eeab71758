/**
 * The limit of an `LRUCache` that may hold many entries but takes memory only for those it has. With the
 * option `max` it lays out room for all of them at once: 28 bytes each, 44 with a `ttl`.
 */
export function cacheLimit(entries: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: () => 1 };
}

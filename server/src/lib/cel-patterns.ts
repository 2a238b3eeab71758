import type { RE2JS } from '@bufbuild/re2';
import { LRUCache } from 'lru-cache';

const MAX_PATTERN_CHARACTERS = 250;

/**
 * Returns the compiled pattern, cached for all conditions. Compiling takes longer than matching, so its steps
 * are spent first. Throws if the pattern is invalid or too long.
 */
export function patternOf(pattern: string, regex: typeof RE2JS, spend: (steps: number) => void): RE2JS {
  const known = patterns.get(pattern);
  if (known !== undefined) return known;
  if (pattern.length > MAX_PATTERN_CHARACTERS)
    throw new Error(`a pattern has at most ${MAX_PATTERN_CHARACTERS} characters`);
  const size = 1 + sizeOfPattern(pattern);
  spend(4 * size);
  const made = new regex(pattern);
  patterns.set(pattern, made, { size });
  return made;
}

// For all conditions together. An instruction takes up to 600 bytes, so the cache takes at most 20 MB.
const MAX_INSTRUCTIONS = 32_000;
const patterns = new LRUCache<string, RE2JS>({ maxSize: MAX_INSTRUCTIONS });

/**
 * Estimates the number of instructions of a compiled pattern. A part that is repeated `{n}` times counts n
 * times, a group with everything in it.
 */
export function sizeOfPattern(pattern: string): number {
  let size = pattern.length;
  for (const [, group, least = '0', most = ''] of pattern.matchAll(/(\)?)\{(\d{1,4})(?:,(\d{0,4}))?\}/g)) {
    const count = Math.max(Number(least), Number(most), 1);
    if (group === ')') size *= count;
    else size += count;
  }
  return size;
}

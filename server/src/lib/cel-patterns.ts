import type { RE2JS } from '@bufbuild/re2';
import { LRUCache } from 'lru-cache';

const MAX_PATTERN_CHARACTERS = 250;

/**
 * A pattern, made once for all who match it. Making it takes longer than using it: its steps are spent
 * before. Throws for what is none.
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

// Of all conditions together. An instruction takes up to 600 bytes: 20 MB at most, whoever writes patterns.
const MAX_INSTRUCTIONS = 32_000;
const patterns = new LRUCache<string, RE2JS>({ maxSize: MAX_INSTRUCTIONS });

/**
 * About how many instructions a pattern becomes: what is repeated `{n}` times stands there n times, groups
 * with all that is in them.
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

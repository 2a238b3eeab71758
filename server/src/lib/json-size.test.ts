import { describe, expect, it } from 'vitest';
import { holdsMoreValues } from './json-size.ts';

const holdsMore = (json: string, limit: number) => holdsMoreValues(Buffer.from(json), limit);

describe('holdsMoreValues', () => {
  it.each([
    ['[0,0,0]', 4],
    ['[[],[],[]]', 7],
    ['{"a":{},"b":[]}', 5],
  ])('counts %s as %i values at most', (json, count) => {
    expect(holdsMore(json, count)).toBe(false);
    expect(holdsMore(json, count - 1)).toBe(true);
  });

  it.each([
    [JSON.stringify(',,,[[[{{{')],
    [JSON.stringify('a quote " and then ,,,,')],
    [JSON.stringify('a backslash at the end \\')],
    ['"no end ,,,'],
    ['"no end \\'],
  ])('does not count what stands in the string %s', (json) => {
    expect(holdsMore(json, 1)).toBe(false);
  });

  it('goes on behind a string that ends with a backslash', () => {
    expect(holdsMore('["\\\\",0,0]', 3)).toBe(true);
  });
});

import type { Token } from 'liquidjs';

export type LiquidLibrary = typeof import('liquidjs');

/** Loads the Liquid library on first use: it takes megabytes, which a server without templates can save. */
export async function loadLiquid(): Promise<LiquidLibrary> {
  const library = await import('liquidjs');
  library.Token.prototype.getPosition = positionOf;
  return library;
}

let lines = { of: '', starts: [0] };

/**
 * Returns line and column of a token. The library's own method reads the text from its start, and is called
 * for each variable: a text of 262,144 characters with 50,000 variables took 13 s.
 */
function positionOf(this: Token): [number, number] {
  if (lines.of !== this.input) lines = { of: this.input, starts: lineStarts(this.input) };
  let [low, high] = [0, lines.starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((lines.starts[middle] as number) <= this.begin) low = middle;
    else high = middle;
  }
  return [low + 1, this.begin - (lines.starts[low] as number) + 1];
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) starts.push(end + 1);
  return starts;
}

// From 16,384 tokens on, two for each tag and the text behind it, the library takes time that grows with the
// square of their number.
const MAX_TAGS = 5_000;
// Each two characters may be a variable.
const MAX_TAG_CHARACTERS = 32_768;

/** How many outputs and tags texts have, and their characters. */
export interface TagCount {
  tags: number;
  characters: number;
}

/**
 * Adds the outputs and tags of a text. Throws if they are too many, or too long, to be parsed in one go,
 * unless the text `isSeveral`.
 */
export function countTags(
  text: string,
  before: TagCount = { tags: 0, characters: 0 },
  { isSeveral = false } = {},
): TagCount {
  let { tags, characters } = before;
  const unclosed = new Set<string>();
  for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', at + 1)) {
    const close = { '{': '}}', '%': '%}' }[text[at + 1] ?? ''];
    if (close === undefined) continue;
    const end = unclosed.has(close) ? -1 : text.indexOf(close, at + 2);
    if (end < 0) unclosed.add(close);
    const tag = text.slice(at, end < 0 ? at + 2 : end);
    characters += tag.length;
    // Each line of this tag is one.
    tags += LIQUID_TAG.test(tag) ? tag.split('\n').length : 1;
    if (isSeveral) {
      at += tag.length - 1;
      continue;
    }
    if (tags > MAX_TAGS) throw new Error(`it has more than ${MAX_TAGS} outputs and tags`);
    if (characters > MAX_TAG_CHARACTERS)
      throw new Error(`its outputs and tags have more than ${MAX_TAG_CHARACTERS} characters`);
    at += tag.length - 1;
  }
  return { tags, characters };
}

// Measured: `{{1}}` takes 600 bytes, each further argument or member of two characters up to 240.
const BYTES_PER_TAG = 700;
const BYTES_PER_CHARACTER = 150;

/** Estimates the memory that the parsed outputs and tags take, in bytes. */
export function parsedBytes({ tags, characters }: TagCount): number {
  return BYTES_PER_TAG * tags + BYTES_PER_CHARACTER * characters;
}

const LIQUID_TAG = /^\{%-?\s*liquid\b/;

import { type FoundMember, findJsonMember } from './json-member.ts';

/** What a text says, and the text of the member that was asked for. */
export interface ParsedObject {
  value: Record<string, unknown>;
  member: Buffer;
}

// What V8 parses from 100 KiB and more it lays among what it expects to live long (kPretenureTreshold of its
// json-parser.cc). A request's body does not: gone over again and again by the slow collector, such bodies
// cost more than it takes to parse them.
const LONG_BYTES = 100 * 1024;
/** How long a piece is. */
export const PIECE_BYTES = 32 * 1024;
const SIZES = { longBytes: LONG_BYTES, pieceBytes: PIECE_BYTES };

/**
 * `JSON.parse` for an object of which one member is a long array: that is parsed in pieces, which die young.
 * Undefined for a text that is short, is no JSON, or has no such array: `JSON.parse` can say which. `found`
 * is where the member is, with cuts every `PIECE_BYTES`, if that is known.
 */
export function parseLongArray(
  json: Buffer,
  name: string,
  { longBytes, pieceBytes, found }: typeof SIZES & { found?: FoundMember | undefined } = SIZES,
): ParsedObject | undefined {
  if (json.length < longBytes) return undefined;
  try {
    return parseInPieces(json, name, found ?? findJsonMember(json, name, pieceBytes));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

// If the object with `[]` in the array's place is JSON, and so is each piece in brackets of its own, and none
// of them is empty, then the whole is JSON, and says this.
function parseInPieces(json: Buffer, name: string, found: FoundMember | undefined): ParsedObject | undefined {
  if (found === undefined) return undefined;
  const member = json.subarray(found.start, found.end);
  const [opening, closing] = [found.start + startOf(member), found.start + endOf(member)];
  if (json[opening] !== OPENING_BRACKET || json[closing] !== CLOSING_BRACKET) return undefined;
  const value = JSON.parse(`${json.toString('utf8', 0, opening)}[]${json.toString('utf8', closing + 1)}`);
  const elements: unknown[] = [];
  let start = opening + 1;
  for (const end of [...found.cuts, closing]) {
    const piece: unknown[] = JSON.parse(`[${json.toString('utf8', start, end)}]`);
    if (piece.length === 0) return undefined;
    for (const element of piece) elements.push(element);
    start = end + 1;
  }
  value[name] = elements;
  return { value, member };
}

const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const SPACE = 0x20;

/** Of the first byte that is no white space. */
function startOf(text: Buffer): number {
  let at = 0;
  while ((text[at] ?? SPACE + 1) <= SPACE) at += 1;
  return at;
}

/** Of the last one. */
function endOf(text: Buffer): number {
  let at = text.length - 1;
  while ((text[at] ?? SPACE + 1) <= SPACE) at -= 1;
  return at;
}

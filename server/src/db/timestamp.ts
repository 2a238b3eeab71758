import pg from 'pg';

/**
 * A time that knows the text it was read from. `Date.toISOString` takes longer than all else that a row of a
 * list needs: with these times a page of 50 takes about a tenth less.
 */
class Timestamp extends Date {
  readonly #text: string;

  constructor(text: string) {
    super(utcOf(text));
    this.#text = text;
  }

  override toISOString(): string {
    const text = this.#text;
    return `${text.slice(0, 10)}T${text.slice(11, 19)}.${msOf(text)}Z`;
  }
}

const ZONE = '+00';
const MS_AT = 20;

const parseAny: (text: string) => Date | number = pg.types.getTypeParser(
  pg.types.builtins.TIMESTAMPTZ,
  'text',
);

/** Parses a `timestamptz` such as `2026-11-21 02:13:33.5+00`. Infinity is a number. */
export function parseTimestamp(text: string): Date | number {
  // Other time zones, and years before 1000 or beyond 9999, are rare.
  return text[0] !== '0' && text[4] === '-' && text.endsWith(ZONE) ? new Timestamp(text) : parseAny(text);
}

function utcOf(text: string): number {
  const at = (index: number) => (text.charCodeAt(index) - ZERO) * 10 + text.charCodeAt(index + 1) - ZERO;
  return Date.UTC(at(0) * 100 + at(2), at(5) - 1, at(8), at(11), at(14), at(17), Number(msOf(text)));
}

function msOf(text: string): string {
  return text.slice(MS_AT, Math.min(MS_AT + 3, text.length - ZONE.length)).padEnd(3, '0');
}

const ZERO = '0'.charCodeAt(0);

import { styleText } from 'node:util';

/** Ends the process when standard output ends: its reader closes the pipe (`| head`), or a disk is full. */
export function watchOutput(): void {
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') process.exit();
    process.stderr.write(`belfry: the output cannot be written (${code})\n`);
    process.exit(1);
  });
}

/** Prints a line on standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Prints a value as one line of JSON, for streams. */
export function printJsonLine(value: unknown): void {
  print(JSON.stringify(value));
}

export type Format = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Text in a colour, if standard output is a terminal and NO_COLOR is not set. */
export function colored(format: Format, text: string): string {
  return styleText(format, text, { stream: process.stdout });
}

/** A cell of a table with a colour. */
export interface Cell {
  text: string;
  format: Format;
}

/** Prints names and aligned values. */
export function printMembers(members: Record<string, unknown>): void {
  const width = Math.max(...Object.keys(members).map(widthOf));
  for (const [name, value] of Object.entries(members))
    print(`${colored('dim', padded(name, width))}  ${value ?? '-'}`);
}

/** Prints records as a table with the member names of the first as heads, or `none` without records. */
export function printTable(rows: readonly Record<string, string | Cell>[], none: string): void {
  const [first] = rows;
  if (first === undefined) {
    print(none);
    return;
  }
  const names = Object.keys(first);
  const heads = names.map((name): Cell => ({ text: name.toUpperCase(), format: 'bold' }));
  const lines = [heads, ...rows.map((row) => names.map((name) => row[name] ?? ''))];
  const widths = names.map((_, column) => Math.max(...lines.map((line) => widthOf(textOf(line[column])))));
  for (const line of lines) {
    const cells = line.map((cell, column) => {
      const text = column === names.length - 1 ? textOf(cell) : padded(textOf(cell), widths[column] ?? 0);
      return typeof cell === 'string' ? text : colored(cell.format, text);
    });
    print(cells.join('  ').trimEnd());
  }
}

function textOf(cell: string | Cell = ''): string {
  return plain(typeof cell === 'string' ? cell : cell.text);
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

// Terminals show most East Asian scripts, full-width forms and emoji two columns wide.
const SCRIPTS = ['Han', 'Hangul', 'Hiragana', 'Katakana'].map((name) => `\\p{Script=${name}}`).join('');
const WIDE = new RegExp(`[${SCRIPTS}\\p{Emoji_Presentation}\\u3000-\\u303f\\uff01-\\uff60]`, 'u');
// Created with the first table: it takes a megabyte, which a server does not need.
let characters: Intl.Segmenter | undefined;

/** The number of terminal columns of a text. */
function widthOf(text: string): number {
  characters ??= new Intl.Segmenter();
  let width = 0;
  for (const { segment } of characters.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/**
 * Foreign text as one line, without the characters that could move a terminal's cursor, rewrite its lines or
 * turn the direction of the text after it.
 */
export function plain(text: string): string {
  return text.replace(/[\t\n\u2028\u2029]+/g, ' ').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '');
}

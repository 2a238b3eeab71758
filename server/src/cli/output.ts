import { styleText } from 'node:util';

/**
 * Prints lines on standard output. A reader that has seen enough (`| head`) ends the process, as it does with
 * any program.
 */
export function print(text: string): void {
  if (!watched) {
    watched = true;
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  }
  process.stdout.write(`${text}\n`);
}

let watched = false;

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** One value as a line of JSON, for commands that go on. */
export function printJsonLine(value: unknown): void {
  print(JSON.stringify(value));
}

export type Format = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/**
 * Text in a colour where standard output is a terminal and NO_COLOR is not set; elsewhere the text as it is.
 */
export function colored(format: Format, text: string): string {
  return styleText(format, text, { stream: process.stdout });
}

/** A cell of a table, with a colour. It is padded by its text. */
export interface Cell {
  text: string;
  format: Format;
}

/** Names and values, the values one below the other. */
export function printMembers(members: Record<string, unknown>): void {
  const width = Math.max(...Object.keys(members).map(widthOf));
  for (const [name, value] of Object.entries(members))
    print(`${colored('dim', padded(name, width))}  ${value ?? '-'}`);
}

/**
 * Records as columns, with the names of the first one's members as heads; `none` where there are no records.
 */
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

// What terminals show two columns wide: most of East Asia's scripts, their full-width forms, and emoji.
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303f\uff01-\uff60]/u;
const characters = new Intl.Segmenter();

/** How many columns of a terminal a text takes. */
function widthOf(text: string): number {
  let width = 0;
  for (const { segment } of characters.segment(text)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/**
 * Text that somebody else wrote, safe for a terminal: without the control characters that could move its
 * cursor or rewrite its lines.
 */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is being removed
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

/** Converts HTML to mrkdwn, Slack's markup. https://docs.slack.dev/messaging/formatting-message-text */
import { createRequire } from 'node:module';
import type { DomNode, FormatCallback, HtmlToTextOptions } from 'html-to-text';
import { HIDDEN_ELEMENTS } from '../../lib/hidden-elements.ts';

/** Escapes Slack's three special characters, so that no text becomes a link or a mention. */
export function escapeMrkdwn(text: string): string {
  return text.replace(/[&<>]/g, (character) => ESCAPES[character] ?? character);
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** Converts HTML to mrkdwn: keeps bold, links, lists, quotes and code, and the text of everything else. */
export function htmlToMrkdwn(html: string): string {
  convert ??= (require('html-to-text') as typeof import('html-to-text')).compile(OPTIONS);
  return placeMarks(convert(html.slice(0, SOURCE_LIMIT).replace(PLACEHOLDERS, ''))).trim();
}

/**
 * Cuts mrkdwn to `maxLength` UTF-16 units. Never splits a character, an entity (`&amp;`) or a `<link|text>`.
 */
export function cutMrkdwn(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const beginning = text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '');
  return `${beginning
    .replace(/<[^<>]*$/, '')
    .replace(/&(?:amp?|lt?|gt?)?$/, '')
    .trimEnd()}…`;
}

const SOURCE_LIMIT = 50_000; // characters of HTML; a message shows 3,000 characters of their text

// Loaded with the first HTML, because it takes 2 MB. By `require`, because messages are built synchronously.
const require = createRequire(import.meta.url);
let convert: ((html: string) => string) | undefined;

/** The marks, each with the characters that stand for its beginning and its end until `placeMarks`. */
const MARKS = [
  { mark: '*', begin: '\ufdd0', end: '\ufdd1' },
  { mark: '_', begin: '\ufdd2', end: '\ufdd3' },
  { mark: '~', begin: '\ufdd4', end: '\ufdd5' },
  { mark: '`', begin: '\ufdd6', end: '\ufdd7' },
] as const;
/** These stand for the fences around lines of code. */
const FENCES = { begin: '\ufdd8', end: '\ufdd9' } as const;
const PLACEHOLDERS = /[\ufdd0-\ufdd9]/g;
/**
 * A placeholder of a mark, lines of code, spaces, or a word. A line of a quotation begins with '> '; any
 * other '>' of the text is escaped.
 */
const PARTS = /[\ufdd0-\ufdd7]|\ufdd8[^\ufdd8\ufdd9]*\ufdd9|(?:\n(?:> )*|\s)+|[^\s\ufdd0-\ufdd9]+/g;

/** Encloses text in placeholders of a mark. */
const around = (mark: (typeof MARKS)[number]['mark']): FormatCallback => {
  const { begin, end } = MARKS.find((one) => one.mark === mark) ?? MARKS[0];
  return (element, walk, builder) => {
    builder.addLiteral(begin);
    walk(element.children, builder);
    builder.addLiteral(end);
  };
};

/**
 * Replaces the placeholders by marks where Slack reads them as such: around text without spaces at its ends,
 * on each line by itself, and a mark only once.
 */
function placeMarks(text: string): string {
  const depths = new Map<string, number>(); // of the elements around the current text
  const open: string[] = [];
  let spaces = '';
  let result = '';
  for (const [part] of text.matchAll(PARTS)) {
    const mark = MARKS.find(({ begin, end }) => part === begin || part === end);
    if (mark !== undefined)
      depths.set(mark.mark, Math.max(0, (depths.get(mark.mark) ?? 0) + (part === mark.begin ? 1 : -1)));
    // Spaces on both sides of a mark are one, and so are the empty lines between blocks.
    else if (/^\s/.test(part)) {
      if (spaces === '') spaces = part;
      else if (part.includes('\n')) spaces = (spaces + part).replace(/\n{3,}/, '\n\n');
    } else {
      const keeps = spaces.includes('\n') ? 0 : open.findIndex((one) => !depths.get(one));
      const closed = open.splice(keeps < 0 ? open.length : keeps).reverse();
      // Slack shows marks within code as they are.
      const isCode = part.startsWith(FENCES.begin) || open.includes('`');
      const opened = MARKS.flatMap(({ mark: one }) =>
        !isCode && depths.get(one) && !open.includes(one) ? one : [],
      );
      open.push(...opened);
      result += closed.join('') + spaces + opened.join('') + part;
      spaces = '';
    }
  }
  return (result + open.reverse().join('') + spaces).replace(/[\ufdd8\ufdd9]/g, '```');
}

function hasText({ data, children }: Pick<DomNode, 'data' | 'children'>): boolean {
  return (data ?? '').trim() !== '' || (children ?? []).some(hasText);
}

const link: FormatCallback = (element, walk, builder) => {
  const url = URL.parse(String(element.attribs.href ?? ''));
  const isLink = url !== null && LINKABLE.has(url.protocol);
  if (isLink && hasText(element))
    builder.addLiteral(`<${escapeMrkdwn(url.href.replace(/[|<>]/g, encodeURIComponent))}|`);
  walk(element.children, builder);
  if (isLink && hasText(element)) builder.addLiteral('>');
};
const LINKABLE = new Set(['https:', 'http:', 'mailto:', 'tel:']);

const heading: FormatCallback = (element, walk, builder) => {
  builder.openBlock({ leadingLineBreaks: 2 });
  around('*')(element, walk, builder, {});
  builder.closeBlock({ trailingLineBreaks: 1 });
};

const quote: FormatCallback = (element, walk, builder) => {
  builder.openBlock({ leadingLineBreaks: 2 });
  walk(element.children, builder);
  builder.closeBlock({
    trailingLineBreaks: 2,
    blockTransform: (text) => text.replace(/^/gm, '> '),
  });
};

const code: FormatCallback = (element, walk, builder) => {
  builder.openBlock({ isPre: true, leadingLineBreaks: 2 });
  walk(element.children, builder);
  // The converter escapes all text except preformatted text.
  builder.closeBlock({
    trailingLineBreaks: 2,
    blockTransform: (text) =>
      `${FENCES.begin}\n${escapeMrkdwn(text.replace(PLACEHOLDERS, ''))}\n${FENCES.end}`,
  });
};

// The converter's own way writes all cells of a table as one word.
const cell: FormatCallback = (element, walk, builder) => {
  walk(element.children, builder);
  builder.addInline(' ');
};

const OPTIONS: HtmlToTextOptions = {
  wordwrap: false,
  limits: { maxDepth: 100, ellipsis: '…' }, // the converter recurses
  encodeCharacters: ESCAPES,
  formatters: {
    bold: around('*'),
    italic: around('_'),
    strike: around('~'),
    inlineCode: around('`'),
    link,
    heading,
    quote,
    code,
    cell,
  },
  selectors: [
    ...['b', 'strong'].map((selector) => ({ selector, format: 'bold' })),
    ...['i', 'em'].map((selector) => ({ selector, format: 'italic' })),
    ...['s', 'del', 'strike'].map((selector) => ({ selector, format: 'strike' })),
    { selector: 'code', format: 'inlineCode' },
    { selector: 'pre', format: 'code' },
    { selector: 'a', format: 'link' },
    { selector: 'blockquote', format: 'quote' },
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, format: 'heading' })),
    { selector: 'ul', options: { itemPrefix: '• ' } },
    { selector: 'tr', format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    { selector: 'td', format: 'cell' },
    { selector: 'th', format: 'cell' },
    { selector: 'img', format: 'skip' },
    { selector: 'style', format: 'skip' },
    { selector: 'script', format: 'skip' },
    ...HIDDEN_ELEMENTS.map((selector) => ({ selector, format: 'skip' })),
  ],
};

import { createRequire } from 'node:module';
import type { FormatCallback, HtmlToTextOptions } from 'html-to-text';
import { HIDDEN_ELEMENTS } from '../../../lib/hidden-elements.ts';

/**
 * Whether the text has the addresses of its links in brackets. They are hidden where they cannot be followed.
 */
export type Targets = 'shown' | 'hidden';

// No provider but those of e-mail accepts a text of half this length.
const MAX_CONTENT = 500_000; // characters

// A tap opens the whole push: links in its text cannot be followed.
const NO_LINKS: ReadonlySet<string> = new Set(['mobile_push', 'web_push']);

/**
 * A broadcast's content, HTML or not, as a channel that takes no HTML shows it. Very long content is cut.
 * Linear in the content whatever is in it, and up to 50 ms for long HTML: once for a broadcast.
 */
export function plainTextOn(channel: string, content: string | null): string {
  const body = clean((content ?? '').slice(0, MAX_CONTENT));
  return looksLikeHtml(body) ? htmlToText(body, NO_LINKS.has(channel) ? 'hidden' : 'shown') : body.trim();
}

/**
 * Text that can be shown anywhere: no half characters, no NUL, no control characters but line breaks and
 * tabs.
 */
export function clean(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is being removed
  return text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, '');
}

/** Elements of HTML mail. A list, because `Bob <bob@example.com>` and `a <b and c> d` are plain text. */
const ELEMENTS =
  'a abbr article b big blockquote body br button center code dd del details div dl dt em figure font ' +
  'footer h[1-6] head header hr html i img ins kbd label li link main mark meta nav ol p picture pre q ' +
  's section small span strike strong style sub summary sup svg table tbody td tfoot th thead time ' +
  'title tr tt u ul video';
const ELEMENT = new RegExp(`<(?:!doctype|!--|/?(?:${ELEMENTS.replaceAll(' ', '|')})(?=[\\s/>]))`, 'i');
const CHARACTER_REFERENCE = /&(?:[a-z][a-z0-9]{1,31}|#[0-9]{1,7}|#x[0-9a-f]{1,6});/i;

/** Whether content is HTML: many senders write plain text. */
export function looksLikeHtml(content: string): boolean {
  return hasElements(content) || CHARACTER_REFERENCE.test(content);
}

export function hasElements(content: string): boolean {
  return ELEMENT.test(content);
}

/** The text part is for the few who cannot see HTML, and is cut: converting costs 250 ms a megabyte. */
const TEXT_SOURCE_LIMIT = 200_000; // characters of HTML
const MAX_DEPTH = 100; // the converter recurses; real mail nests tables some 20 deep

/**
 * A row of a table is a line, and its cells are separated: the converter's own way would write them as one
 * word.
 */
const cell: FormatCallback = (element, walk, builder) => {
  walk(element.children, builder);
  builder.addInline(CELL_SEPARATOR);
};
const CELL_SEPARATOR = ' ';

const options = (targets: Targets, hides: boolean): HtmlToTextOptions => ({
  wordwrap: false, // mail programs wrap; a hard wrap breaks links
  limits: { maxDepth: MAX_DEPTH, ellipsis: '…' },
  formatters: { cell },
  selectors: [
    { selector: 'a', options: { hideLinkHrefIfSameAsText: true, ignoreHref: targets === 'hidden' } },
    { selector: 'img', format: 'skip' },
    { selector: 'tr', format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    { selector: 'td', format: 'cell' },
    { selector: 'th', format: 'cell' },
    { selector: 'style', format: 'skip' },
    { selector: 'script', format: 'skip' },
    ...(hides ? HIDDEN_ELEMENTS.map((selector) => ({ selector, format: 'skip' })) : []),
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
  ],
});

// Loaded when the first HTML is sent: it holds 2 MB, of which a server that sends none has no use. `require`,
// because it can wait for nothing.
const require = createRequire(import.meta.url);
const converters = new Map<string, (html: string) => string>();
function convert(html: string, targets: Targets, hides: boolean): string {
  const key = `${targets} ${hides}`;
  const known = converters.get(key);
  if (known !== undefined) return known(html);
  const library: typeof import('html-to-text') = require('html-to-text');
  const compiled = library.compile(options(targets, hides));
  converters.set(key, compiled);
  return compiled(html);
}

/**
 * HTML as a reader sees it, in plain text. Very long HTML is cut. With `withHidden`, the text has what the
 * HTML hides, too.
 */
export function htmlToText(html: string, targets: Targets, { withHidden = false } = {}): string {
  const cut = html.length > TEXT_SOURCE_LIMIT;
  const source = cut ? html.slice(0, TEXT_SOURCE_LIMIT) : html;
  const text = clean(convert(source, targets, !withHidden)).trim();
  return cut ? `${text}\n…` : text;
}

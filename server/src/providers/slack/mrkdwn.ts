/** HTML in the markup that Slack shows. https://docs.slack.dev/messaging/formatting-message-text */
import { createRequire } from 'node:module';
import type { DomNode, FormatCallback, HtmlToTextOptions } from 'html-to-text';

/** Slack's three special characters, so that nothing in a text is taken for a link or a mention. */
export function escapeMrkdwn(text: string): string {
  return text.replace(/[&<>]/g, (character) => ESCAPES[character] ?? character);
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** HTML as mrkdwn: what Slack knows is kept (bold, links, lists, quotes, code), of the rest the text. */
export function htmlToMrkdwn(html: string): string {
  convert ??= (require('html-to-text') as typeof import('html-to-text')).compile(OPTIONS);
  return convert(html.slice(0, SOURCE_LIMIT)).trim();
}

/** The beginning of a mrkdwn text, with nothing cut in two: no character, no `&amp;`, no `<link|words>`. */
export function cutMrkdwn(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const beginning = text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '');
  return `${beginning
    .replace(/<[^<>]*$/, '')
    .replace(/&(?:amp?|lt?|gt?)?$/, '')
    .trimEnd()}…`;
}

const SOURCE_LIMIT = 50_000; // characters of HTML: a message shows 3,000 of what is in them

// Loaded when the first HTML is sent, as it holds 2 MB. `require`, because it can wait for nothing.
const require = createRequire(import.meta.url);
let convert: ((html: string) => string) | undefined;

/** Marks around the words, unless there are none: Slack shows `**` as it is. */
const around =
  (mark: string): FormatCallback =>
  (element, walk, builder) => {
    const isEmpty = !hasText(element);
    if (!isEmpty) builder.addLiteral(mark);
    walk(element.children, builder);
    if (!isEmpty) builder.addLiteral(mark);
  };

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
  // Preformatted text is the only one that the converter does not escape by itself.
  builder.closeBlock({
    trailingLineBreaks: 2,
    blockTransform: (text) => `\`\`\`\n${escapeMrkdwn(text)}\n\`\`\``,
  });
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
    { selector: 'img', format: 'skip' },
    { selector: 'style', format: 'skip' },
    { selector: 'script', format: 'skip' },
  ],
};

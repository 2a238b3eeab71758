import { createRequire } from 'node:module';
import type { TokenizerCallbacks } from 'htmlparser2';
import type { Link } from '../../ground/links/links.ts';

/** HTML that was cut at its links: made once for all recipients. */
export interface CutHtml {
  readonly first: string;
  readonly rest: readonly { readonly link: Link; readonly quote: string; readonly text: string }[];
}

/** Puts addresses into HTML that was cut. All else is as it was, byte for byte. */
export function fill({ first, rest }: CutHtml, clickUrl: (link: Link) => string): string {
  let filled = first;
  // What stands in it needs no escaping: see `encode`.
  for (const { link, quote, text } of rest) filled += quote + clickUrl(link) + quote + text;
  return filled;
}

/** The picture that is loaded when the e-mail is opened: one transparent pixel. */
export function pictureHtml(url: string): string {
  return `<img src="${url}" width="1" height="1" alt="" style="display:block;width:1px;height:1px;border:0">`;
}

/**
 * Cuts the parts of one document at the links that can be tracked: http and https in `a` and `area`. Links of
 * the server's own, with a name or password in them, that are too long for mail programs once they are
 * tracked, or that say `data-tracking="off"`, stay as they are.
 */
export function cutAtLinks(parts: readonly [string, string], publicUrl: string): [CutHtml, CutHtml] {
  const [before, after] = parts;
  const spots: (Href & { link: Link })[] = [];
  for (const href of findHrefs(before + after)) {
    const link = trackable(href.value, publicUrl);
    if (link !== undefined) spots.push({ ...href, link });
    if (spots.length === MAX_LINKS) break;
  }
  const size = before.length;
  return [
    cut(
      before,
      spots.filter(({ end }) => end <= size),
    ),
    cut(
      after,
      spots
        .filter(({ start }) => start >= size)
        .map((spot) => ({ ...spot, start: spot.start - size, end: spot.end - size })),
    ),
  ];
}

function cut(html: string, spots: readonly (Href & { link: Link })[]): CutHtml {
  const rest = spots.map(({ link, end, quoted }, index) => ({
    link,
    quote: quoted ? '' : '"',
    text: html.slice(end, spots[index + 1]?.start),
  }));
  return { first: html.slice(0, spots[0]?.start), rest };
}

// Each is signed for each recipient.
const MAX_LINKS = 500;
// Outlook cuts addresses after 2083 characters; a token and the address of the server stand before the
// target.
const MAX_TARGET = 1_500;
const MAX_ENCODED = 1_900;

function trackable(href: string, publicUrl: string): Link | undefined {
  if (href.length > 2 * MAX_TARGET) return undefined;
  const url = URL.parse(href);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  if (url.username !== '' || url.password !== '') return undefined;
  const target = url.href;
  if (target.startsWith(`${publicUrl}/unsubscribe/`) || target.startsWith(`${publicUrl}/t/`))
    return undefined;
  const encoded = encode(target);
  return target.length > MAX_TARGET || encoded.length > MAX_ENCODED ? undefined : { target, encoded };
}

/** For a query and, at the same time, for an attribute in whichever quotes. */
function encode(target: string): string {
  return encodeURIComponent(target).replaceAll("'", '%27');
}

/** The value of an attribute, and where it stands: between its quotes, if it has any. */
interface Href {
  value: string;
  start: number;
  end: number;
  quoted: boolean;
}

// Loaded with the first e-mail that is tracked.
const require = createRequire(import.meta.url);

/**
 * The links of a document as a browser would find them: not in comments, scripts or styles. Linear, whatever
 * is in it.
 */
function findHrefs(html: string): Href[] {
  const found: Href[] = [];
  let link = false; // in the tag of one
  let off = false;
  let href: Href | undefined;
  let seen = false;
  let name = '';
  let nameEnd = 0;
  let value = '';
  const leave = () => {
    if (link && !off && href !== undefined) found.push(href);
    link = false;
  };
  const nothing = () => {};
  const callbacks: TokenizerCallbacks = {
    onopentagname(start, end) {
      link = /^(?:a|area)$/i.test(html.slice(start, Math.min(end, start + 5)));
      off = false;
      href = undefined;
      seen = false;
    },
    onattribname(start, end) {
      if (!link) return;
      // The names that matter are shorter.
      name = html.slice(start, Math.min(end, start + 20)).toLowerCase();
      nameEnd = end;
      value = '';
    },
    onattribdata(start, end) {
      if (link) value += html.slice(start, end);
    },
    onattribentity(codepoint) {
      if (link) value += String.fromCodePoint(codepoint);
    },
    onattribend(quote, endIndex) {
      if (!link) return;
      if (name === 'data-tracking' && /^\s*off\s*$/i.test(value.slice(0, 50))) off = true;
      // If an attribute occurs twice, the first one counts.
      if (name !== 'href' || seen) return;
      seen = true;
      if (quote === NO_VALUE) return;
      const quoted = quote !== UNQUOTED;
      const start = valueStart(html, nameEnd) + (quoted ? 1 : 0);
      href = { value, start, end: endIndex - (quoted ? 1 : 0), quoted };
    },
    onopentagend: leave,
    onselfclosingtag: leave,
    onclosetag: nothing,
    oncdata: nothing,
    oncomment: nothing,
    ondeclaration: nothing,
    onend: nothing,
    onprocessinginstruction: nothing,
    ontext: nothing,
    ontextentity: nothing,
  };
  const { Tokenizer } = require('htmlparser2') as typeof import('htmlparser2');
  const tokenizer = new Tokenizer({ decodeEntities: true }, callbacks);
  tokenizer.write(html);
  tokenizer.end();
  return found;
}

// As the tokenizer numbers the quotes.
const NO_VALUE = 0;
const UNQUOTED = 1;

/**
 * Where the value of an attribute begins, its quote if it has one: behind the name, an equals sign and
 * blanks.
 */
function valueStart(html: string, nameEnd: number): number {
  let at = nameEnd;
  while (/[\s=]/.test(html[at] ?? '')) {
    if (html[at] === '=') {
      at += 1;
      while (/[ \n\t\f\r]/.test(html[at] ?? '')) at += 1;
      return at;
    }
    at += 1;
  }
  return at;
}

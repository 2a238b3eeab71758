import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Language, languageFor } from '../../domain/ground/catalogues/languages.ts';
import type { Sender } from '../../domain/setup/projects/sender.ts';
import { acceptedLocales } from '../../lib/locale.ts';
import { ICON_LINK } from './icons.ts';

/** A page for people, with at most one button. */
export interface Page {
  title: string;
  text: string;
  /** The sender of the message that led to the page. */
  sender?: Sender;
  /** The label of the button, and the field that it sends. */
  button?: { label: string; name: string; value: string; quiet?: boolean };
  /** Where to go from here. */
  links?: readonly { label: string; href: string }[];
  /** A small text at the end. */
  note?: string;
}

/** Responds with a page that works without scripts, and loads only the icon and the logo of the sender. */
export function sendPage(reply: FastifyReply, status: number, language: Language, page: Page): FastifyReply {
  const { title, text, sender, button, links = [], note } = page;
  // A form without an action is sent to the address of the page, also behind a proxy.
  const form =
    button === undefined
      ? ''
      : `<form method="post"><input type="hidden" name="${button.name}" value="${button.value}">` +
        `<button${button.quiet ? ' class="quiet"' : ''}>${escaped(button.label)}</button></form>`;
  const anchors = links.map(({ label, href }) => `<a href="${escaped(href)}">${escaped(label)}</a>`);
  const nav = anchors.length === 0 ? '' : `<nav>${anchors.join('')}</nav>`;
  const small = note === undefined ? '' : `<p><small>${escaped(note)}</small></p>`;
  const html = `<h1>${escaped(title)}</h1><p>${escaped(text)}</p>${form}${nav}${small}`;
  return sendCard(reply, status, language, { title, html, sender });
}

/** Responds with the page for a link of a message that was not signed by this server. */
export function sendBrokenLink(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const language = languageOf(request);
  const { brokenLinkTitle: title, brokenLinkText: text } = language.texts;
  return sendPage(reply, 404, language, { title, text });
}

/** Returns the language that the browser prefers. */
export function languageOf({ headers }: FastifyRequest): Language {
  return languageFor(acceptedLocales(headers['accept-language']));
}

/** A page on a card under the name or the logo of the sender. Its HTML, style and script are trusted. */
interface Card {
  title: string;
  html: string;
  sender: Sender | undefined;
  style?: string;
  script?: string;
}

export function sendCard(
  reply: FastifyReply,
  status: number,
  language: Language,
  { title, html, sender, style = '', script = '' }: Card,
): FastifyReply {
  const head = style === '' ? '' : `<style>${style}</style>`;
  const end = script === '' ? '' : `<script>${script}</script>`;
  const body = `<main>${senderHtml(sender)}${html}</main>${end}`;
  return reply
    .code(status)
    .headers(headers({ logoUrl: sender?.logoUrl ?? undefined, style, script }))
    .send(documentHtml(language, title, body, head));
}

function senderHtml({ name, logoUrl }: Sender = { name: null, logoUrl: null }): string {
  if (logoUrl !== null)
    return `<p class="sender"><img src="${escaped(logoUrl)}" alt="${escaped(name ?? '')}"></p>`;
  return name === null ? '' : `<p class="sender"><bdi>${escaped(name)}</bdi></p>`;
}

/** Returns the HTML of a page. `body` and `head` are trusted. */
export function documentHtml({ lang, dir }: Language, title: string, body: string, head = ''): string {
  return (
    `<!doctype html><html lang="${lang}" dir="${dir}"><head><meta charset="utf-8">` +
    `<meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>${escaped(title)}</title>${ICON_LINK}<style>${STYLE}</style>${head}</head>` +
    `<body>${body}</body></html>\n`
  );
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f4f5f7; --card: #fff; --text: #1c2430; --soft: #566172; --line: #dfe3e8;
  --button: #1c5fd4; --on-button: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --card: #1e232b; --text: #edf0f4; --soft: #a6b0be; --line: #323a46;
    --button: #7eaaf7; --on-button: #10151d;
  }
}
* { box-sizing: border-box }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
  background: var(--page); color: var(--text); font: 1rem/1.55 system-ui, sans-serif;
}
main {
  width: 100%; max-width: 26rem; padding: 2.25rem 2rem; border-radius: .875rem;
  background: var(--card); border: 1px solid var(--line);
}
h1 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.25; text-wrap: balance }
p { margin: 0; color: var(--soft); overflow-wrap: anywhere }
/* Texts of customers have a direction of their own, and stand on the side of the page's. */
[dir=auto] { text-align: -webkit-match-parent; text-align: match-parent }
.sender { margin: 0 0 1.25rem; font-weight: 600; color: var(--text) }
.sender img { height: 40px; max-width: 100%; object-fit: contain; display: block }
form { margin: 1.75rem 0 0 }
button {
  font: inherit; font-weight: 600; padding: .7rem 1.35rem; border-radius: .5rem; cursor: pointer;
  border: 1px solid var(--button); background: var(--button); color: var(--on-button);
}
button.quiet { background: none; border-color: var(--line); color: var(--text) }
button:hover { filter: brightness(1.08) }
nav { margin: 1.5rem 0 1rem }
nav:last-child { margin-bottom: -1rem }
nav a {
  display: flex; justify-content: space-between; padding: .65rem 0; border-top: 1px solid var(--line);
  color: var(--button); font-weight: 600; text-decoration: none;
}
nav a::after { content: "\\2192" / "" }
[dir=rtl] nav a::after { content: "\\2190" / "" }
nav a:hover { text-decoration: underline }
:is(a, button):focus-visible { outline: 3px solid var(--button); outline-offset: 3px }
`;

/** What every page has: its address may contain a token. */
export const PRIVATE = {
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
} as const;

/** Allows the style of a page in its Content-Security-Policy. */
export const STYLE_SOURCE = sourceOf(STYLE);

function sourceOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

interface Loaded {
  logoUrl: string | undefined;
  style: string;
  script: string;
}

function headers({ logoUrl, style, script }: Loaded): Record<string, string> {
  const styles = style === '' ? STYLE_SOURCE : `${STYLE_SOURCE} ${sourceOf(style)}`;
  const scripts = script === '' ? '' : ` script-src ${sourceOf(script)};`;
  const images = logoUrl === undefined ? "'self'" : `'self' ${new URL(logoUrl).origin}`;
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      `default-src 'none'; style-src ${styles};${scripts} img-src ${images}; form-action 'self'; ` +
      "base-uri 'none'; frame-ancestors 'none'",
    'cache-control': 'no-store',
    ...PRIVATE,
  };
}

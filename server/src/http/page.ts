import { createHash } from 'node:crypto';
import type { FastifyReply } from 'fastify';

/** A page for people, with at most one button. */
export interface Page {
  title: string;
  text: string;
  /** The label of the button, and the field that it sends. */
  button?: { label: string; name: string; value: string; quiet?: boolean };
}

/** Responds with a page that works without scripts, images and other hosts. */
export function sendPage(reply: FastifyReply, status: number, page: Page): FastifyReply {
  return reply.code(status).headers(HEADERS).send(cardHtml(page));
}

/** Responds with a text for readers. `html` is trusted. */
export function sendArticle(
  reply: FastifyReply,
  { title, html }: { title: string; html: string },
): FastifyReply {
  return reply.headers(HEADERS).send(documentHtml(title, `<article>${html}</article>`));
}

function cardHtml({ title, text, button }: Page): string {
  // A form without an action is sent to the address of the page, also behind a proxy.
  const form =
    button === undefined
      ? ''
      : `<form method="post"><input type="hidden" name="${button.name}" value="${button.value}">` +
        `<button${button.quiet ? ' class="quiet"' : ''}>${escaped(button.label)}</button></form>`;
  return documentHtml(title, `<main><h1>${escaped(title)}</h1><p>${escaped(text)}</p>${form}</main>`);
}

/** Returns the HTML of a page. `body` and `head` are trusted. */
export function documentHtml(title: string, body: string, head = ''): string {
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8">` +
    `<meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>${escaped(title)}</title><style>${STYLE}</style>${head}</head><body>${body}</body></html>\n`
  );
}

function escaped(text: string): string {
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
form { margin: 1.75rem 0 0 }
button {
  font: inherit; font-weight: 600; padding: .7rem 1.35rem; border-radius: .5rem; cursor: pointer;
  border: 1px solid var(--button); background: var(--button); color: var(--on-button);
}
button.quiet { background: none; border-color: var(--line); color: var(--text) }
button:hover { filter: brightness(1.08) }
article { width: 100%; max-width: 54rem; min-width: 0 }
article :is(h2, p, ul, pre, table) { margin: 0 0 1rem; color: var(--text) }
article h2 { margin-top: 2.5rem; font-size: 1.2rem }
article a { color: var(--button) }
article table { display: block; overflow-x: auto; border-collapse: collapse }
article :is(th, td) { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); text-align: left }
article pre {
  padding: 1rem; overflow-x: auto; border-radius: .5rem;
  background: var(--card); border: 1px solid var(--line);
}
code { font: .875em/1.5 ui-monospace, monospace }
button:focus-visible { outline: 3px solid var(--button); outline-offset: 3px }
`;
/** Allows the style of a page in its Content-Security-Policy. */
export const STYLE_SOURCE = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`;

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    `default-src 'none'; style-src ${STYLE_SOURCE}; form-action 'self'; ` +
    "base-uri 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
};

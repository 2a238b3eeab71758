import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { savePreferences } from '../domain/preferences/save.ts';
import { readUnsubscribeToken, type Unsubscription } from '../domain/preferences/unsubscribe-link.ts';
import type { App } from './route.ts';

// A form of one field. Mail providers may send it as multipart, which is hardly longer.
const BODY_LIMIT_BYTES = 16 * 1024;

/**
 * The page behind the unsubscribe link of an e-mail. Looking at it changes nothing, because scanners follow links; its button,
 * and the one-click request of mail programs (RFC 8058), switch the category off, without login or cookies.
 */
export async function unsubscribePage(app: App): Promise<void> {
  const { fastify, context, limits } = app;
  await fastify.register((scope, _options, done) => {
    // Whatever the content type: what counts is the address, and mail providers differ.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));
    scope.addHook('onRequest', async (request, reply) => limits.stranger(request, reply));

    const read = (request: FastifyRequest) =>
      readUnsubscribeToken(context.projects, (request.params as { token: string }).token);

    scope.get(
      '/unsubscribe/:token',
      { schema: { hide: true }, config: { operationId: 'showUnsubscribe', secretPath: true } },
      async (request, reply) => {
        const link = await read(request);
        return link === undefined ? sendPage(reply, 404, NOT_FOUND) : sendPage(reply, 200, question(link));
      },
    );

    scope.post(
      '/unsubscribe/:token',
      {
        schema: { hide: true },
        config: { operationId: 'unsubscribe', secretPath: true },
        bodyLimit: BODY_LIMIT_BYTES,
      },
      async (request, reply) => {
        const link = await read(request);
        if (link === undefined) return sendPage(reply, 404, NOT_FOUND);
        const enabled =
          typeof request.body === 'string' && new URLSearchParams(request.body).get('again') === 'yes';
        const { projectId, userId, channel, category } = link;
        const preferences = [{ category, channel, enabled }];
        await savePreferences(context, { projectId, userId, preferences });
        return sendPage(reply, 200, enabled ? resubscribed(link) : unsubscribed(link));
      },
    );
    done();
  });
}

interface Page {
  title: string;
  text: string;
  /** What the button says, and the field that it sends. */
  button?: { label: string; name: string; value: string; quiet?: boolean };
}

const NOT_FOUND: Page = {
  title: 'This link does not work',
  text: 'It is not complete. Please open it from the e-mail again, or copy all of it.',
};

const UNSUBSCRIBE = { name: 'List-Unsubscribe', value: 'One-Click' };
const RESUBSCRIBE = { name: 'again', value: 'yes' };

function question(link: Unsubscription): Page {
  return {
    title: 'Unsubscribe?',
    text: `You will no longer get ${messages(link)}.`,
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE },
  };
}

function unsubscribed(link: Unsubscription): Page {
  return {
    title: 'You are unsubscribed',
    text: `You will get no more ${messages(link)}.`,
    button: { label: 'Subscribe again', ...RESUBSCRIBE, quiet: true },
  };
}

function resubscribed(link: Unsubscription): Page {
  return {
    title: 'You are subscribed again',
    text: `You will get ${messages(link)}.`,
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE, quiet: true },
  };
}

function messages({ channel, category }: Unsubscription): string {
  const what = channel === 'email' ? 'e-mails' : 'messages';
  return category === null ? `${what} of this kind` : `${what} about “${category}”`;
}

// Everything is in the page: it has to work for whoever blocks scripts, pictures and foreign hosts.
const STYLE = `
:root { color-scheme: light dark; --page: #f4f5f7; --card: #fff; --text: #1c2430; --soft: #566172; --line: #dfe3e8; --button: #1c5fd4; --on-button: #fff }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1e232b; --text: #edf0f4; --soft: #a6b0be; --line: #323a46; --button: #7eaaf7; --on-button: #10151d } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--page); color: var(--text); font: 1rem/1.55 system-ui, sans-serif }
main { width: 100%; max-width: 26rem; padding: 2.25rem 2rem; background: var(--card); border: 1px solid var(--line); border-radius: .875rem }
h1 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.25; text-wrap: balance }
p { margin: 0; color: var(--soft); overflow-wrap: anywhere }
form { margin: 1.75rem 0 0 }
button { font: inherit; font-weight: 600; padding: .7rem 1.35rem; border: 1px solid var(--button); border-radius: .5rem; background: var(--button); color: var(--on-button); cursor: pointer }
button.quiet { background: none; border-color: var(--line); color: var(--text) }
button:hover { filter: brightness(1.08) }
button:focus-visible { outline: 3px solid var(--button); outline-offset: 3px }
`;
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
};

function sendPage(reply: FastifyReply, status: number, page: Page): FastifyReply {
  return reply.code(status).headers(HEADERS).send(html(page));
}

function html({ title, text, button }: Page): string {
  // A form without an action goes to the address of the page, wherever a proxy has put it.
  const form =
    button === undefined
      ? ''
      : `<form method="post"><input type="hidden" name="${button.name}" value="${button.value}">` +
        `<button${button.quiet ? ' class="quiet"' : ''}>${escaped(button.label)}</button></form>`;
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<title>${escaped(title)}</title><style>${STYLE}</style></head>` +
    `<body><main><h1>${escaped(title)}</h1><p>${escaped(text)}</p>${form}</main></body></html>\n`
  );
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

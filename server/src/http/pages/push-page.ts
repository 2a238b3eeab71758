import { readFileSync } from 'node:fs';
import type { FastifyReply } from 'fastify';
import type { Catalogue } from '../../domain/ground/catalogues/en.ts';
import type { Language } from '../../domain/ground/catalogues/languages.ts';
import type { App } from '../route.ts';
import { documentHtml, escaped, languageOf, PRIVATE, STYLE_SOURCE } from './page.ts';

/** The address of the page. The User JWT of the user follows as its fragment. */
export const SUBSCRIBE_PAGE = '/push/subscribe';

/**
 * The page on which a user turns on notifications in a browser: it registers a service worker and saves the
 * browser's subscription. For the user who did so before, it saves the subscription again without a click.
 */
export function pushPage({ fastify, limits }: App): void {
  const files: [string, string, (language: Language) => string][] = [
    [SUBSCRIBE_PAGE, 'text/html', pageHtml],
    [`${SUBSCRIBE_PAGE}.js`, 'text/javascript', ({ texts }) => scriptOf(texts)],
    ['/push/worker.js', 'text/javascript', () => WORKER],
  ];
  for (const [path, type, textIn] of files)
    fastify.get(path, { schema: { hide: true } }, async (request, reply) => {
      await limits.stranger(request, reply);
      return send(reply, type, textIn(languageOf(request)));
    });
}

function send(reply: FastifyReply, type: string, text: string): FastifyReply {
  return reply.headers({ ...HEADERS, 'content-type': `${type}; charset=utf-8` }).send(text);
}

// Any page may open this one with any token, also in a frame. So it acts only on a click, or for the user who
// turned on notifications here before.
const HEADERS = {
  'content-security-policy':
    `default-src 'none'; script-src 'self'; style-src ${STYLE_SOURCE}; connect-src 'self'; ` +
    "img-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors *",
  'cache-control': 'no-cache',
  vary: 'accept-language',
  ...PRIVATE,
};

function pageHtml(language: Language): string {
  const { pushTitle, pushText, pushButton } = language.texts;
  return documentHtml(
    language,
    pushTitle,
    `<main><h1>${escaped(pushTitle)}</h1><p role="status">${escaped(pushText)}</p>` +
      `<form><button id="on" type="button">${escaped(pushButton)}</button></form></main>`,
    '<script type="module" src="subscribe.js"></script>',
  );
}

function scriptOf(texts: Catalogue): string {
  const { pushDone, pushBlocked, pushUnreachable, pushExpired, pushFailed, pushUnsupported, pushIncomplete } =
    texts;
  const shown = { pushDone, pushBlocked, pushUnreachable, pushExpired, pushFailed, pushUnsupported };
  return `const texts = ${JSON.stringify({ ...shown, pushIncomplete })};\n${SCRIPT}`;
}

const SCRIPT = `const token = location.hash.slice(1);
const text = document.querySelector('p');
const button = document.querySelector('#on');

const colors = { background_color: '--card', text_color: '--text', accent_color: '--button' };
for (const [name, property] of Object.entries(colors)) {
  const color = new URLSearchParams(location.search).get(name);
  if (color && CSS.supports('color', color)) document.documentElement.style.setProperty(property, color);
}

async function call(path, body) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  if (!response.ok) throw Object.assign(new Error('HTTP ' + response.status), { status: response.status });
  return (await response.json()).web_push;
}

async function subscribe() {
  // Before anything else, because browsers ask the user only shortly after a click.
  await Notification.requestPermission();
  const { public_key: key } = await call('/integrations/web_push/installations/start');
  await navigator.serviceWorker.register('worker.js');
  const { active, pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: key.replace(/=/g, '') };
  const subscription = await inTime(pushManager.subscribe(options)).catch(async (error) => {
    // The browser is subscribed with another key.
    const other = await pushManager.getSubscription();
    if (!other) throw error;
    await other.unsubscribe();
    return inTime(pushManager.subscribe(options));
  });
  await call('/channels/web_push/tokens', { web_push: subscription.toJSON() });
  const baseUrl = new URL('../v2', location.href).href;
  active.postMessage({ type: 'belfry-configure', baseUrl, token, publicKey: options.applicationServerKey });
}

// Chromium waits for minutes if it cannot reach the push service.
function inTime(subscribing) {
  const tooLate = new DOMException('The push service did not respond', 'AbortError');
  return Promise.race([
    subscribing,
    new Promise((_resolve, reject) => setTimeout(() => reject(tooLate), 20_000)),
  ]);
}

function show(words, isDone) {
  text.textContent = words;
  button.hidden = isDone;
  button.ariaDisabled = 'false';
}

async function turnOn() {
  if (button.ariaDisabled === 'true') return;
  button.ariaDisabled = 'true'; // a disabled one would lose the focus
  try {
    await subscribe();
    show(texts.pushDone, true);
  } catch (error) {
    console.error(error);
    show(problemOf(error), false);
  }
}

function problemOf(error) {
  if (Notification.permission === 'denied') return texts.pushBlocked;
  // The error of subscribe() when the browser cannot register with its vendor's push service.
  if (error.name === 'AbortError') return texts.pushUnreachable;
  return error.status === 401 ? texts.pushExpired : texts.pushFailed;
}

// Whether this user turned on notifications here before, according to the service worker's config.
async function isKnown() {
  try {
    const config = await (await caches.open('belfry-web-push')).match('/belfry-web-push/config');
    return config !== undefined && userOf((await config.json()).token) === userOf(token);
  } catch {
    return false; // one of the tokens cannot be read
  }
}

function userOf(jwt) {
  const claims = jwt.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
  const { api_key, user_external_id, user_email } = JSON.parse(atob(claims));
  return JSON.stringify([api_key, user_external_id ?? user_email]);
}

if (!('PushManager' in window && 'serviceWorker' in navigator))
  show(texts.pushUnsupported, true);
else if (token === '') show(texts.pushIncomplete, true);
else {
  button.addEventListener('click', turnOn);
  if (Notification.permission === 'granted' && (await isKnown())) turnOn();
}
`;

// The worker that apps host on their own origin, too.
const WORKER = readFileSync(
  new URL('../../../../inbox/src/web-push/service-worker.js', import.meta.url),
  'utf8',
);

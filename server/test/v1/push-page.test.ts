import { createContext, runInContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LANGUAGES } from '../../src/domain/ground/catalogues/languages.ts';
import { startTestService, type TestService } from '../support/service.ts';

// Runs the script of the page with stand-ins of what a browser offers. The requests are real.

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  await service.project.as('ada')('POST', '/integrations/web_push/installations/start');
});
afterAll(() => service.stop());

const SUBSCRIPTION = {
  endpoint: 'https://push.example.com/1',
  expirationTime: null,
  keys: { auth: 'tBHItJI5svbpez7KI4CCXg', p256dh: 'BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA' },
};

interface Browser {
  subscribe: (options: { applicationServerKey: string }) => Promise<{ toJSON(): object }>;
  permission?: string;
  /** The subscription that the browser has. */
  existing?: { unsubscribe(): Promise<void> };
  token?: string;
  /** The time that the page waits for the push service is over at once. */
  isLate?: boolean;
  /** The config that the service worker has stored. */
  config?: object;
}

/** Opens the page, and presses its button. Returns the text and the button. */
async function turnOn(browser: Browser) {
  const { press, shown } = await open(browser);
  await press();
  return shown();
}

/** Opens the page. */
async function open({ subscribe, permission = 'default', existing, token, isLate, config }: Browser) {
  const { text: script } = await service.request('GET', '/push/subscribe.js');
  const { body } = await service.project.v1As('ada')('GET', '/config');
  const hash = new URL(body.channels.web_push.config.subscribe_url).hash;
  const text = { textContent: '' };
  let press = async () => {};
  const button = {
    hidden: false,
    disabled: false,
    addEventListener: (_type: string, listener: () => Promise<void>) => {
      press = listener;
    },
  };
  const pushManager = { subscribe, getSubscription: async () => existing };
  const registered: string[] = [];
  const messages: object[] = [];
  const active = { postMessage: (message: object) => messages.push(message) };
  const navigator = {
    serviceWorker: {
      register: async (path: string) => registered.push(path),
      ready: Promise.resolve({ active, pushManager }),
    },
  };
  const stored = config && { json: async () => config };
  const match = async (path: string) => (path === '/belfry-web-push/config' ? stored : undefined);
  // A module, whose `await` at the top level a script does not have.
  const loaded = runInContext(
    `(async () => {${script}\n})()`,
    createContext({
      URLSearchParams,
      atob,
      caches: { open: async () => ({ match }) },
      console: { error() {} },
      document: { querySelector: (selector: string) => (selector === 'p' ? text : button) },
      fetch: (path: string, init: RequestInit) => fetch(`${service.address}${path}`, init),
      location: {
        hash: token === undefined ? hash : `#${token}`,
        href: `${service.address}/push/subscribe`,
        search: '',
      },
      navigator,
      DOMException,
      Notification: { permission, requestPermission: async () => permission },
      setTimeout: (late: () => void) => setTimeout(late, isLate ? 0 : 60_000).unref(),
      URL,
      window: { PushManager: true, ...navigator },
    }),
  );
  await loaded;
  const shown = () => ({ text: text.textContent, button, registered, messages, token: hash.slice(1) });
  return { press: () => press(), shown };
}

const subscribed = async () => ({ toJSON: () => SUBSCRIPTION });
const rejected = (name: string) => () => Promise.reject(new DOMException('failed', name));

test('the button registers the worker and saves the subscription of the browser', async () => {
  const keys: string[] = [];
  const page = await turnOn({
    subscribe: ({ applicationServerKey }) => {
      keys.push(applicationServerKey);
      return subscribed();
    },
  });
  expect(page.text).toBe('Notifications are on in this browser. You can close this page.');
  expect([page.registered, page.button.hidden]).toEqual([['worker.js'], true]);
  expect(keys).toEqual([expect.stringMatching(/^[\w-]{87}$/)]);
  const { body } = await service.project.as('ada')('GET', '/channels/web_push/tokens');
  expect(body.data).toMatchObject([{ endpoint: SUBSCRIPTION.endpoint }]);
  const { token } = page;
  expect(page.messages).toEqual([
    { type: 'belfry-configure', baseUrl: `${service.address}/v2`, token, publicKey: keys[0] },
  ]);
});

test('a browser that is subscribed with another key is subscribed with this one', async () => {
  const steps: string[] = [];
  const existing = { unsubscribe: async () => void steps.push('unsubscribe') };
  const page = await turnOn({
    existing,
    subscribe: () => {
      steps.push('subscribe');
      return steps.length === 1 ? rejected('InvalidStateError')() : subscribed();
    },
  });
  expect(steps).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
  expect(page.text).toMatch(/^Notifications are on/);
});

test.each<[string, Partial<Browser>, string]>([
  [
    'the push service cannot be reached',
    { subscribe: rejected('AbortError') },
    'This browser cannot reach its push service. Check its network and its settings, and try again, or use ' +
      'another browser.',
  ],
  [
    'the push service does not respond',
    { subscribe: () => new Promise<never>(() => {}), isLate: true },
    'This browser cannot reach its push service. Check its network and its settings, and try again, or use ' +
      'another browser.',
  ],
  [
    'the user has blocked notifications',
    { subscribe: rejected('NotAllowedError'), permission: 'denied' },
    'This browser blocks notifications of this site. Allow them in its settings, and try again.',
  ],
  [
    'the link is no longer valid',
    { token: 'old' },
    'This link has expired. Open this page from the app again.',
  ],
  [
    'anything else fails',
    { subscribe: rejected('UnknownError') },
    'That did not work. Try again, or open this page from the app again.',
  ],
])('the page says so if %s, and its button works again', async (_name, browser, expected) => {
  const { text, button } = await turnOn({ subscribe: subscribed, ...browser });
  expect([text, button.hidden, button.disabled]).toEqual([expected, false, false]);
});

test.each([...LANGUAGES.values()])(
  'the page is shown in $lang if the browser accepts it',
  async (language) => {
    const { lang, dir, texts } = language;
    const read = async (path: string) =>
      (await fetch(`${service.address}${path}`, { headers: { 'accept-language': lang } })).text();
    const page = await read('/push/subscribe');
    expect(page).toContain(`<html lang="${lang}" dir="${dir}">`);
    for (const text of [
      `<title>${texts.pushTitle}`,
      `<h1>${texts.pushTitle}`,
      `>${texts.pushButton}</button>`,
    ])
      expect(page).toContain(text);
    const script = await read('/push/subscribe.js');
    expect(script).toContain(`"pushDone":"${texts.pushDone}"`);
    for (const [, name = ''] of script.matchAll(/\btexts\.(\w+)/g)) expect(script).toContain(`"${name}":"`);
  },
);

describe('without a click', () => {
  const configOf = (claims: object) => ({ token: `x.${encoded(claims)}.x` });
  const encoded = (claims: object) => Buffer.from(JSON.stringify(claims)).toString('base64url');
  const granted = { subscribe: subscribed, permission: 'granted' };
  const me = () => ({ api_key: service.project.apiKey, user_external_id: 'ada' });

  test('the page saves the subscription of the user who turned it on before', async () => {
    const { shown } = await open({ ...granted, config: configOf({ ...me(), exp: 1 }) });
    await expect.poll(() => shown().text).toMatch(/^Notifications are on/);
    expect(shown().messages).toHaveLength(1);
  });

  test.each<[string, () => object | undefined]>([
    ['a browser in which no one did', () => undefined],
    ['another user', () => configOf({ ...me(), user_external_id: 'eve' })],
    ['a user of another project', () => configOf({ ...me(), api_key: 'pk_other' })],
    ['a token that cannot be read', () => ({ token: '<!doctype html>' })],
  ])('it does nothing for %s', async (_name, config) => {
    const { press, shown } = await open({ ...granted, config: config() as object });
    const { text, registered, messages } = shown();
    expect([text, registered, messages]).toEqual(['', [], []]);
    await press();
    expect(shown().text).toMatch(/^Notifications are on/);
  });
});

test('a link without a token has no button', async () => {
  const { text, button } = await turnOn({ subscribe: subscribed, token: '' });
  expect([text, button.hidden]).toEqual(['This link is incomplete. Open it from the app again.', true]);
});

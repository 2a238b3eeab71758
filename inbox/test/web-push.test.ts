import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Browser, BrowserContextOptions, Page, Worker } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type AppPage, bundleApp, servePage, startAppPage } from '../../server/test/support/app-page.ts';
import { axeViolations, describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { runCommand } from '../../server/test/support/cli.ts';
import {
  describeInFirefox,
  type Firefox,
  type FirefoxPage,
  openFirefox,
} from '../../server/test/support/firefox.ts';
import {
  type MozillaPushStandIn,
  startMozillaPushStandIn,
} from '../../server/test/support/mozilla-push-stand-in.ts';
import { processed, startTestService, type TestService } from '../../server/test/support/service.ts';
import { pagesFor } from './support/shared-context.ts';

const WORKER = readFileSync(new URL('../src/web-push/service-worker.js', import.meta.url), 'utf8');

const GUIDE = readFileSync(new URL('../../docs/guides/web-push.md', import.meta.url), 'utf8');

// What a server responds with when the session has ended.
const LOGIN = '<!doctype html>\n<title>Log in</title>\n';

const APP = `
  import { createWebPush } from '@belfry/inbox/web-push';
  import '@belfry/inbox/web-push/element';

  window.push = createWebPush(settings);
  push.subscribe(() => {});
  window.element = document.createElement('belfry-web-push');
  element.webPush = push;
  document.body.append(element);
`;

const HOOKS = {
  React: `
    import { useWebPush } from '@belfry/inbox/react';
    import { createRoot } from 'react-dom/client';

    function Push() {
      const { status, isBusy, enable, disable } = useWebPush(settings);
      return <button disabled={isBusy} onClick={status === 'on' ? disable : enable}>{status}</button>;
    }
    createRoot(document.querySelector('#root')).render(<Push />);
  `,
  Vue: `
    import { useWebPush } from '@belfry/inbox/vue';
    import { createApp, h } from 'vue';

    createApp({
      setup() {
        const { state, enable, disable } = useWebPush(settings);
        return () => {
          const { status, isBusy } = state.value;
          return h('button', { disabled: isBusy, onClick: status === 'on' ? disable : enable }, status);
        };
      },
    }).mount('#root');
  `,
};

let service: TestService;
let files: Record<string, string>;
let app: AppPage;

beforeAll(async () => {
  service = await startTestService();
  const token = service.project.userJwt({ user_external_id: 'ada' });
  files = {
    ...(await bundleApp(APP, { baseUrl: `${service.address}/v2`, token })),
    '/belfry-service-worker.js': WORKER,
    '/blank.html': '',
    '/push/worker.js': WORKER,
    '/push/blank.html': '',
    '/token.txt': token,
    '/login.html': LOGIN,
    '/own-worker.js': `importScripts('/belfry-service-worker.js');`,
  };
  app = await servePage(files);
});
afterAll(async () => {
  await app.stop();
  await service.stop();
});

const send = (message: object) =>
  service.project.call('POST', '/broadcasts', { ...message, recipients: [{ external_id: 'ada' }] });
const endpoints = async () => {
  const { body } = await service.project.as('ada')('GET', '/channels/web_push/tokens');
  return body.data.map(({ endpoint }: { endpoint: string }) => endpoint);
};

describeInFirefox('in Firefox, pushes of Belfry', () => {
  let vendor: MozillaPushStandIn;
  let browser: Firefox;
  let page: FirefoxPage;

  beforeAll(async () => {
    vendor = await startMozillaPushStandIn();
    browser = await openFirefox({
      'dom.push.serverURL': vendor.url,
      'dom.push.connection.enabled': true,
      'dom.push.testing.allowInsecureServerURL': true,
      'dom.push.retryBaseInterval': 100,
      'permissions.default.desktop-notification': 1,
      // The desktop has no notifications.
      'alerts.useSystemBackend': false,
    });
    page = await browser.open(app.url);
  });
  afterAll(async () => {
    await browser.close();
    await vendor.stop();
  });

  const state = () => page.evaluate<{ status: string; isBusy: boolean }>('push.getSnapshot()');
  const button = `document.querySelector('belfry-web-push').shadowRoot.querySelector('button')`;
  const shown = () => shownIn(page);
  const shownIn = (page: FirefoxPage) =>
    page.evaluate(
      `navigator.serviceWorker.ready.then(async (registration) =>
        (await registration.getNotifications()).map(({ title, body }) => [title, body]))`,
    );

  test('arrive after a click on the button', async () => {
    await expect.poll(() => page.evaluate(`${button}.textContent`)).toBe('Turn on');
    await expect.poll(state).toMatchObject({ status: 'off' });
    await page.evaluate(`${button}.click()`);
    await expect.poll(state).toMatchObject({ status: 'on', isBusy: false });
    expect(await page.evaluate(`${button}.textContent`)).toBe('Turn off');
    expect(await endpoints()).toEqual(vendor.endpoints());
    await send({ title: 'Your order has shipped', content: 'It arrives <b>tomorrow</b>.' });
    await expect.poll(shown).toEqual([['Your order has shipped', 'It arrives tomorrow.']]);
    expect(vendor.acknowledged).toHaveLength(1);
  });

  test('arrive after the browser got a new subscription', async () => {
    const [former] = await endpoints();
    vendor.expireAll();
    await expect.poll(endpoints).toHaveLength(2);
    await send({ title: 'Renewed' });
    await expect.poll(shown).toContainEqual(['Renewed', '']);
    // The push to the former one got a 410.
    await expect.poll(endpoints).toEqual(vendor.endpoints());
    expect(vendor.endpoints()).not.toContain(former);
  });

  test('no longer arrive when they are turned off', async () => {
    await page.evaluate(`${button}.click()`);
    await expect.poll(state).toMatchObject({ status: 'off', isBusy: false });
    expect(await endpoints()).toEqual([]);
    expect(vendor.endpoints()).toEqual([]);
  });

  test.each(Object.entries(HOOKS))('are turned on and off by the hook for %s', async (name, code) => {
    const token = service.project.userJwt({ user_external_id: name });
    const own = await startAppPage(code, {
      settings: { baseUrl: `${service.address}/v2`, token },
      files: { '/belfry-service-worker.js': WORKER },
    });
    const page = await browser.open(own.url);
    const tokens = () => service.project.as(name)('GET', '/channels/web_push/tokens');
    for (const [before, after] of [
      ['off', 'on'],
      ['on', 'off'],
    ]) {
      const shown = () => page.evaluate(`document.querySelector('button:enabled')?.textContent ?? null`);
      await expect.poll(shown).toBe(before);
      await page.evaluate(`document.querySelector('button').click()`);
      await expect.poll(shown).toBe(after);
      expect((await tokens()).body.data).toHaveLength(after === 'on' ? 1 : 0);
    }
    await page.close();
    await own.stop();
  });

  describe('by the guide', () => {
    /** The code samples in a language, with the address of this server. */
    const samples = (language: string) =>
      [...GUIDE.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, sample = '']) =>
        sample.replaceAll('http://127.0.0.1:3000', service.address),
      );
    /** Runs a command of the guide with the words that a shell passes, and returns what it prints. */
    async function run(command = ''): Promise<string> {
      const script = `npx() { shift; printf '%s\\0' "$@"; }; ${command}`;
      const { stdout } = await promisify(execFile)('sh', ['-c', script]);
      const { DATA_DIR, DATABASE_URL = '', DATABASE_DIRECT_URL = DATABASE_URL } = service.context.config;
      const settings = { DATA_DIR, DATABASE_URL, DATABASE_DIRECT_URL };
      const ended = await runCommand(stdout.split('\0').slice(0, -1), settings);
      expect(ended).toMatchObject({ code: 0, err: '' });
      return ended.out.trim();
    }
    // A reader has one project, and the test two. The other command takes this one.
    const makeToken = () => run(`${/`(npx belfry token user [^`]*)`/.exec(GUIDE)?.[1]} --project default`);
    const send = () => run(samples('sh').find((sample) => sample.startsWith('npx belfry send')));

    test('arrive with the element', async () => {
      const [main = ''] = samples('ts');
      const own = await startAppPage(main.replace('token="…"', `token="${await makeToken()}"`), {
        files: { '/belfry-service-worker.js': WORKER },
      });
      const page = await browser.open(own.url);
      const text = () => page.evaluate(`${button}.ariaDisabled === 'true' ? '' : ${button}.textContent`);
      await expect.poll(text).toBe('Turn on');
      await page.evaluate(`${button}.click()`);
      await expect.poll(text).toBe('Turn off');
      await send();
      await expect.poll(() => shownIn(page)).toEqual([['Your order has shipped', 'It arrives tomorrow.']]);
      await page.evaluate(`${button}.click()`);
      await expect.poll(text).toBe('Turn on');
      await page.close();
      await own.stop();
    });

    test.each([
      ['the service worker of the package', ''],
      ['a service worker that imports it', `serviceWorkerUrl: '/own-worker.js',`],
    ])('arrive with an own button and %s', async (_name, option) => {
      const [, main = ''] = samples('ts');
      const [importing = ''] = samples('js');
      const own = await startAppPage(main.replace('baseUrl:', `${option} baseUrl:`), {
        files: {
          '/index.html': '<!doctype html><button></button><script type="module" src="/stdin.js"></script>',
          '/belfry-service-worker.js': WORKER,
          '/own-worker.js': importing,
          '/notification-token': await makeToken(),
        },
      });
      const page = await browser.open(own.url);
      const text = () => page.evaluate(`document.querySelector('button:enabled')?.textContent ?? ''`);
      const press = () => page.evaluate(`document.querySelector('button').click()`);
      await expect.poll(text).toBe('Turn on');
      await press();
      await expect.poll(text).toBe('Turn off');
      const worker = `navigator.serviceWorker.ready.then(({ active }) => new URL(active.scriptURL).pathname)`;
      expect(await page.evaluate(worker)).toBe(option ? '/own-worker.js' : '/belfry-service-worker.js');
      await send();
      await expect.poll(() => shownIn(page)).toEqual([['Your order has shipped', 'It arrives tomorrow.']]);
      await press();
      await expect.poll(text).toBe('Turn on');
      await page.close();
      await own.stop();
    });
  });
});

describeInChromium('in Chromium', () => {
  let browser: Browser;
  // The one with notifications: a page takes four times the CPU time, another of its context half of that.
  let whole: Browser;
  let openAllowed: ReturnType<typeof pagesFor>;
  beforeAll(async () => {
    [browser, whole] = await Promise.all([openChromium(), openChromium({ whole: true })]);
    openAllowed = pagesFor(whole, `${app.url}blank.html`, { permissions: ['notifications'] });
  });
  afterAll(() => Promise.all([browser?.close(), whole?.close()]));

  describe('a click on a push', () => {
    let site: AppPage; // an origin of its own, with what that stores
    let page: Page;
    let worker: Worker;

    beforeEach(async () => {
      site = await servePage(files);
      page = await openAllowed();
      await page.goto(new URL('blank.html', site.url).href);
      const started = page.context().waitForEvent('serviceworker');
      await page.evaluate(`navigator.serviceWorker.register('/belfry-service-worker.js')`);
      worker = await started;
      await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)');
      await configure(service.project.userJwt({ user_external_id: 'ada' }));
    });
    afterEach(() => site.stop());

    const configure = (token: string, more: object = {}) =>
      page.evaluate(
        (config) =>
          navigator.serviceWorker.ready.then(({ active }) => {
            const { port1, port2 } = new MessageChannel();
            active?.postMessage(config, [port2]);
            return new Promise((resolve) => {
              port1.onmessage = () => resolve(undefined);
            });
          }),
        { type: 'belfry-configure', baseUrl: `${service.address}/v2`, token, homeUrl: site.url, ...more },
      );

    /** A notification of the user, whose push the worker gets and the user clicks. Returns what is opened. */
    async function click(
      message: object,
      action = '',
      beforeClick: () => Promise<void> = async () => {},
    ): Promise<{ id: string; opened: string[] }> {
      const { body } = await send({ title: 'Shipped', ...message });
      await processed(service.project.call, body.id);
      const [notification] = (await service.project.as('ada')('GET', '/notifications')).body.data;
      await push(notification);
      await beforeClick();
      const opened = await worker.evaluate<string[]>(`(async () => {
        const opened = [];
        // Chromium opens a window only if a person has clicked.
        clients.openWindow = async (url) => void opened.push(url);
        const [notification] = await registration.getNotifications();
        const action = ${JSON.stringify(action)};
        const event = new NotificationEvent('notificationclick', { notification, action });
        const works = [];
        event.waitUntil = (work) => works.push(work);
        dispatchEvent(event);
        await Promise.all(works);
        return opened;
      })()`);
      return { id: notification.id, opened };
    }

    /** Delivers a push to the worker, as the browser does when its push service has one. */
    async function push(message: object): Promise<void> {
      const session = await page.context().newCDPSession(page);
      const registered = new Promise<{ registrationId: string }>((resolve) => {
        session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
          const registration = registrations.find(({ scopeURL }) => scopeURL === site.url);
          if (registration) resolve(registration);
        });
      });
      await session.send('ServiceWorker.enable');
      const { registrationId } = await registered;
      const { origin } = new URL(site.url);
      const data = JSON.stringify(message);
      const isShown = async () => {
        await session.send('ServiceWorker.deliverPushMessage', { origin, registrationId, data });
        return expect.poll(shown, { timeout: 3_000 }).toBe(1);
      };
      // Chromium drops some of those that come from its developer tools.
      await isShown().catch(isShown).catch(isShown);
    }

    const shown = () =>
      worker.evaluate<number>('registration.getNotifications().then(({ length }) => length)');
    const statusOf = async (id: string) =>
      (await service.project.as('ada')('GET', `/notifications/${id}`)).body.status;

    test('opens its link, marks the notification as read, and removes it', async () => {
      const { id, opened } = await click({ action_url: 'https://shop.example/orders/1042' });
      expect(opened).toEqual(['https://shop.example/orders/1042']);
      expect(await statusOf(id)).toBe('read');
      expect(await shown()).toBe(0);
    });

    test('on an action opens the link of the action', async () => {
      const actions = [{ label: 'Track', url: 'https://shop.example/track' }];
      const { opened } = await click({ custom_attributes: { actions } }, 'https://shop.example/track');
      expect(opened).toEqual(['https://shop.example/track']);
    });

    test('opens no link that runs a script', async () => {
      expect((await click({ action_url: 'javascript:alert(1)' })).opened).toEqual([]);
    });

    test('uses a new token when the former has expired', async () => {
      const expired = service.project.userJwt({ user_external_id: 'ada', exp: 1 });
      await configure(expired, { tokenUrl: new URL('token.txt', site.url).href });
      expect(await statusOf((await click({})).id)).toBe('read');
    });

    test('changes the badge of the app, also while that of the push is still being set', async () => {
      await worker.evaluate(`(() => {
        globalThis.isBegun = false;
        globalThis.badges = [];
        const countShown = () => registration.getNotifications();
        // Once the worker has counted again after the click.
        const clicked = () =>
          new Promise((resolve) => {
            addEventListener('notificationclick', () => countShown().then(countShown).then(resolve));
          });
        navigator.setAppBadge = async (count) => {
          if (count > 0) {
            isBegun = true;
            await clicked();
          }
          badges.push(count);
        };
      })()`);
      await click({}, '', () => expect.poll(() => worker.evaluate<boolean>('isBegun')).toBe(true));
      // Before them there is one more for each push that Chromium dropped.
      expect((await worker.evaluate<number[]>('badges')).slice(-2)).toEqual([1, 0]);
    });

    test('is reported when a page of the same user passes a new token', async () => {
      await configure(service.project.userJwt({ user_external_id: 'ada', exp: 1 }));
      const { id } = await click({});
      expect(await statusOf(id)).toBe('unseen');
      await configure(service.project.userJwt({ user_external_id: 'ada' }));
      expect(await statusOf(id)).toBe('read');
    });

    test('is reported with the token of an open page of the app', async () => {
      await (await openAllowed()).goto(site.url);
      await configure(service.project.userJwt({ user_external_id: 'ada', exp: 1 }));
      const { id } = await click({});
      await expect.poll(() => statusOf(id)).toBe('read');
    });

    test('requests a token once, also if a page passes one that has expired, too', async () => {
      const token = service.project.userJwt({ user_external_id: 'ada', exp: 1 });
      await configure(token);
      await page.evaluate(`
        requests = 0;
        navigator.serviceWorker.addEventListener('message', async ({ data, source }) => {
          if (data.type !== 'belfry-token-expired') return;
          requests += 1;
          const baseUrl = '${service.address}/v2';
          source.postMessage({ type: 'belfry-configure', baseUrl, token: '${token}' });
        });
        navigator.serviceWorker.startMessages();
      `);
      await click({});
      await expect.poll(() => page.evaluate('requests')).toBe(1);
      await click({});
      await expect.poll(() => page.evaluate('requests')).toBe(2);
    });

    test.each([
      ['the server, whose session has ended', { tokenUrl: 'login.html' }, undefined],
      ['a page, whose session has ended', {}, LOGIN],
      ['a page with claims that cannot be read', {}, 'a.b.c'],
    ])('waits for a token if there is none from %s', async (_from, urls, passed) => {
      const { tokenUrl } = urls as { tokenUrl?: string };
      const more = tokenUrl ? { tokenUrl: new URL(tokenUrl, site.url).href } : {};
      await configure(service.project.userJwt({ user_external_id: 'ada', exp: 1 }), more);
      if (passed) await configure(passed);
      const { id } = await click({});
      expect(await statusOf(id)).toBe('unseen');
      if (passed) await configure(passed);
      await configure(service.project.userJwt({ user_external_id: 'ada' }), more);
      expect(await statusOf(id)).toBe('read');
    });

    test('is reported after the first page passed no token', async () => {
      await page.evaluate(`caches.delete('belfry-web-push')`);
      await configure(LOGIN);
      await configure(service.project.userJwt({ user_external_id: 'ada' }));
      expect(await statusOf((await click({})).id)).toBe('read');
    });

    test('is reported with a new token after a former version has kept a login page as one', async () => {
      const tokenUrl = new URL('token.txt', site.url).href;
      await page.evaluate(
        async (config) => {
          const cache = await caches.open('belfry-web-push');
          await cache.put('/belfry-web-push/config', new Response(JSON.stringify(config)));
        },
        { baseUrl: `${service.address}/v2`, token: LOGIN, homeUrl: site.url, tokenUrl },
      );
      expect(await statusOf((await click({})).id)).toBe('read');
    });

    test('is forgotten when another user has logged in', async () => {
      await configure(service.project.userJwt({ user_external_id: 'ada', exp: 1 }));
      const { id } = await click({});
      await configure(service.project.userJwt({ user_external_id: 'bob' }));
      await configure(service.project.userJwt({ user_external_id: 'ada' }));
      expect(await statusOf(id)).toBe('unseen');
    });
  });

  test.each([
    ['the worker of the package', 'is used at once', '/belfry-service-worker.js', 'active'],
    ['the worker of a server', 'is used at once', '/push/worker.js', 'active'],
    ['a worker that imports it', 'waits as the app wants', '/own-worker.js', 'waiting'],
  ])('a new version of %s %s', async (_worker, _how, url, expected) => {
    const page = await browser.newPage();
    await page.goto(new URL('blank.html', new URL(url, app.url)).href);
    await page.evaluate(
      `navigator.serviceWorker.register('${url}?v=1')
        .then(() => navigator.serviceWorker.ready)
        .then(() => undefined)`,
    );
    await page.reload(); // now the worker controls the page
    await page.evaluate(`(async () => {
      const registration = await navigator.serviceWorker.register('${url}?v=2');
      const { installing: worker } = registration;
      await new Promise((resolve) => {
        worker.onstatechange = () => worker.state !== 'installing' && resolve();
      });
      // Once the worker replies, it has handled its installation.
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ type: 'belfry-forget' }, [port2]);
      await new Promise((resolve) => {
        port1.onmessage = resolve;
      });
    })()`);
    const versions = () =>
      page.evaluate<object>(`navigator.serviceWorker.getRegistration().then(({ active, waiting }) => ({
        active: active?.scriptURL.slice(-1),
        waiting: waiting?.scriptURL.slice(-1),
      }))`);
    const former = expected === 'waiting' ? { active: '1' } : { waiting: undefined };
    await expect.poll(versions).toEqual({ ...former, [expected]: '2' });
    await page.close();
  });

  const IPHONE = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15';

  test.each<[string, string, BrowserContextOptions & { has?: boolean; at?: string }]>([
    [
      'denied',
      'This browser blocks notifications of this site. Allow them in its settings.',
      { permissions: ['geolocation'] },
    ],
    ['unsupported', 'This browser cannot show notifications.', { has: false }],
    [
      'needs_installation',
      'Add this app to the Home Screen to get notifications.',
      { has: false, userAgent: IPHONE },
    ],
    ['insecure', 'Notifications need HTTPS.', { at: 'http://app.example/' }],
  ])('the status is %s, and the element says: %s', async (status, text, { has = true, at, ...options }) => {
    const page = await browser.newPage(options);
    if (!has) await page.addInitScript('delete window.PushManager');
    await page.route('http://app.example/**', async (route) => {
      const response = await fetch(route.request().url().replace('http://app.example/', app.url));
      const headers = Object.fromEntries(response.headers);
      await route.fulfill({ status: response.status, headers, body: await response.text() });
    });
    await page.goto(at ?? app.url);
    await expect.poll(() => page.evaluate('push.getSnapshot().status')).toBe(status);
    expect(await page.getByRole('status').textContent()).toBe(text);
    expect(await page.getByRole('button').count()).toBe(0);
    await page.evaluate('push.enable()');
    expect(await page.evaluate('push.getSnapshot()')).toMatchObject({ status, isBusy: false });
    await page.close();
  });

  test('a prompt that is dismissed changes nothing, and one that is denied is explained', async () => {
    const page = await browser.newPage();
    await page.addInitScript(`
      let permission = 'default';
      Object.defineProperty(Notification, 'permission', { get: () => permission });
      Notification.requestPermission = async () => (permission = window.chosen);
    `);
    await page.goto(app.url);
    for (const [chosen, status] of [
      ['default', 'off'],
      ['denied', 'denied'],
    ]) {
      await page.evaluate(`window.chosen = '${chosen}'`);
      await page.getByRole('button', { name: 'Turn on' }).click();
      await expect
        .poll(() => page.evaluate('push.getSnapshot()'))
        .toMatchObject({ status, permission: chosen, isBusy: false });
      expect(await page.evaluate('push.getSnapshot().error')).toBeUndefined();
    }
    expect(await page.getByRole('button').count()).toBe(0);
    await page.close();
  });

  test('the button keeps the focus while it waits, and is pressed once', async () => {
    const page = await browser.newPage();
    await page.addInitScript(`
      window.prompts = 0;
      Object.defineProperty(Notification, 'permission', { get: () => 'default' });
      Notification.requestPermission = () => {
        window.prompts += 1;
        return new Promise((resolve) => (window.dismiss = () => resolve('default')));
      };
    `);
    await page.goto(app.url);
    const button = page.getByRole('button', { name: 'Turn on' });
    for (const _press of [1, 2]) await button.press('Enter');
    const state = () =>
      button.evaluate((one) => [one.getAttribute('aria-disabled'), one.matches(':focus')] as const);
    expect(await state()).toEqual(['true', true]);
    expect(await page.evaluate('window.prompts')).toBe(1);
    await page.evaluate('window.dismiss()');
    await expect.poll(state).toEqual(['false', true]);
    await page.close();
  });

  test('its texts can be replaced, also by those of another language', async () => {
    const page = await openAllowed();
    await page.goto(app.url);
    await page.getByRole('button', { name: 'Turn on' }).waitFor();
    await page.evaluate(`element.messages = { turnOn: 'Push me' }`);
    const button = page.getByRole('button');
    const shown = () =>
      button.evaluate((one) => {
        const { textContent, lang, dir } = one as HTMLElement;
        return [textContent, lang, dir];
      });
    expect(await shown()).toEqual(['Push me', 'en', 'ltr']);
    expect(await page.getByRole('status').textContent()).toMatch(/^This browser can show/);
    await page.evaluate(`element.messages = { turnOn: 'הפעלה', off: 'הדפדפן יכול להציג התראות' }`);
    await page.evaluate(`element.setAttribute('locale', 'he')`);
    expect(await shown()).toEqual(['הפעלה', 'he', 'rtl']);
    expect(await page.getByRole('status').textContent()).toBe('הדפדפן יכול להציג התראות');
    await page.evaluate('element.messages = undefined');
    expect(await shown()).toEqual(['Turn on', 'en', 'ltr']);
    await page.evaluate(`element.setAttribute('locale', 'de_AT')`);
    expect(await shown()).toEqual(['Einschalten', 'de', 'ltr']);
    await page.close();
  });

  test('properties that are set before the element is defined count', async () => {
    const page = await browser.newPage();
    await page.route('**/blank.html', (route) =>
      route.fulfill({
        contentType: 'text/html',
        body: '<!doctype html><title>App</title><belfry-web-push></belfry-web-push>',
      }),
    );
    await page.goto(new URL('blank.html', app.url).href);
    await page.evaluate(`
      document.querySelector('belfry-web-push').messages = { turnOn: 'Push me' };
      const script = document.createElement('script');
      document.head.append(Object.assign(script, { type: 'module', src: '/stdin.js' }));
    `);
    await page.getByRole('button', { name: 'Push me', includeHidden: true }).waitFor({ state: 'attached' });
    await page.close();
  });

  test('the button works under a strict policy with trusted types', async () => {
    const token = service.project.userJwt({ user_external_id: 'ada' });
    const policy = [
      "default-src 'self'",
      `connect-src 'self' ${service.address}`,
      "require-trusted-types-for 'script'",
      'trusted-types belfry-web-push',
    ].join('; ');
    const strict = await startAppPage(APP, {
      settings: { baseUrl: `${service.address}/v2`, token },
      files: { '/belfry-service-worker.js': WORKER },
      headers: { 'content-security-policy': policy },
    });
    const page = await openAllowed();
    const problems: string[] = [];
    page.on('console', (message) => problems.push(message.text()));
    page.on('pageerror', ({ message }) => problems.push(message));
    await page.goto(strict.url);
    const button = page.getByRole('button', { name: 'Turn on' });
    expect(await button.evaluate((one) => getComputedStyle(one).cursor)).toBe('pointer');
    const registered = page.context().waitForEvent('serviceworker');
    await button.click();
    expect((await registered).url()).toBe(new URL('belfry-service-worker.js', strict.url).href);
    // Chromium has no push service here: what follows is tested in Firefox.
    expect(problems).toEqual([]);
    await page.close();
    await strict.stop();
  });

  test('the button is accessible in light, in dark, and from right to left', async () => {
    const page = await openAllowed();
    await page.goto(app.url);
    await page.getByRole('button', { name: 'Turn on' }).waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(
        `document.documentElement.style = 'background: Canvas; color-scheme: ${colorScheme}'`,
      );
      expect(await axeViolations(page)).toEqual([]);
    }
    await page.evaluate(`element.setAttribute('locale', 'ar-EG')`);
    await page.getByRole('button', { name: 'تفعيل' }).waitFor();
    expect(await axeViolations(page)).toEqual([]);
  });
});

import { readFile } from 'node:fs/promises';
import type { Browser, Page, Route } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../server/src/db/client.ts';
import { example } from '../../server/src/providers/inbox/example.ts';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { processed, startTestService, type TestService, until } from '../../server/test/support/service.ts';
import type { BelfryInbox } from '../src/element/belfry-inbox.ts';
import { DETAILS } from '../src/element/styles/details.ts';
import { STYLES } from '../src/element/styles.ts';
import { themeProperties } from '../src/element/theme.ts';
import { type ElementPages, startElementPages, titles } from './support/element-pages.ts';
import { addInbox, appendInbox } from './support/inbox-page.ts';

// What users do with the filters, the menu and the preferences of `<belfry-inbox>`, and what it shows when
// something fails.

test('the styles use every key of a theme', () => {
  const styles = `${STYLES}${DETAILS}`;
  const keys = themeProperties(example.full.theme).map(([name]) => name);
  expect(keys.length).toBeGreaterThan(20);
  expect(keys.filter((name) => !new RegExp(`var\\(\\s*${name}[,)\\s]`).test(styles))).toEqual([]);
});

test('the README lists the parts of the element', async () => {
  const [readme, ...sources] = await Promise.all(
    [
      '../README.md',
      ...[
        'banner',
        'header-details',
        'header',
        'item',
        'list-view',
        'pill',
        'placeholder',
        'preferences-view',
        'menu',
        'view',
      ].map((name) => `../src/element/${name}.ts`),
    ].map((path) => readFile(new URL(path, import.meta.url), 'utf8')),
  );
  const listed = /CSS parts: ([^.]*)\./
    .exec(readme ?? '')?.[1]
    ?.replace(/\(.*?\)/s, '')
    .match(/(?<=`)[a-z-]+(?=`)/g);
  const used = sources.flatMap((source) =>
    [...source.matchAll(/\bpart: ['`]([a-z-]+)/g)].map(([, name]) => name),
  );
  expect(new Set(used)).toEqual(new Set(listed));
});

describeInChromium('belfry-inbox, by its users', () => {
  let pages: ElementPages;
  let service: TestService;
  let browser: Browser;
  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), openChromium()]);
    pages = await startElementPages({ service, browser, processed });
    const channels = [{ channel: 'in_app' }, { channel: 'email' }];
    for (const config of [
      { key: 'orders', label: 'Orders', description: 'Of your shop' },
      { key: 'security', critical: true },
    ])
      expect((await service.project.call('PUT', '/channels', { ...config, channels })).status).toBe(200);
  });
  afterAll(() => Promise.all([service?.stop(), browser?.close(), pages?.site.close()]));

  const tab = (page: Page, name: RegExp) => page.getByRole('tab', { name });
  const menuItem = (page: Page, name: string) => page.getByRole('menuitem', { name });
  const openMenu = async (page: Page) => {
    await page.locator('.item').first().hover();
    await page.locator('.menu-button').first().click();
  };

  test('a notification is snoozed by the menu, for a choice or a time, and returns', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Later' });
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.primary').waitFor();
    const storedUntil = async () => {
      const { body } = await service.project.as(user)('GET', '/notifications?status=snoozed');
      return body.data[0]?.snoozed_until as string | undefined;
    };
    await openMenu(page);
    await menuItem(page, 'Snooze').click();
    await menuItem(page, 'Tomorrow').click();
    await expect.poll(() => titles(page)).toEqual([]);
    const tomorrow = await until(storedUntil, (found) => found !== undefined);
    expect(Date.parse(tomorrow ?? '')).toBeGreaterThan(Date.now());
    await tab(page, /Snoozed/).click();
    await expect.poll(() => titles(page)).toEqual(['Later']);
    expect(await page.locator('.meta').textContent()).toMatch(/^Until /);
    await openMenu(page);
    await menuItem(page, 'Return now').click();
    await expect.poll(() => titles(page)).toEqual([]);
    await tab(page, /All/).click();
    await expect.poll(() => titles(page)).toEqual(['Later']);

    await openMenu(page);
    await menuItem(page, 'Snooze').click();
    await menuItem(page, 'Pick date and time').click();
    const field = page.locator('input[type=datetime-local]');
    const chosen = `${Number((await field.inputValue()).slice(0, 4)) + 1}-01-02T07:08`; // next year
    await field.fill('2199-05-06T07:08'); // too late for the server
    await page.getByRole('button', { name: 'Snooze', exact: true }).click();
    expect(await field.evaluate((one) => (one as HTMLInputElement).validity.rangeOverflow)).toBe(true);
    await field.fill(chosen);
    await page.getByRole('button', { name: 'Snooze', exact: true }).click();
    await expect.poll(() => titles(page)).toEqual([]);
    const stored = new Date((await until(storedUntil, (found) => found !== undefined)) ?? '');
    expect(stored.getTime()).toBe(await page.evaluate((time) => new Date(time).getTime(), chosen));
  });

  test('filters show what belongs to them, and the page can set them', async () => {
    const user = pages.newUser();
    await pages.send(
      user,
      { title: 'order', category: 'orders', topic: 'order-1' },
      { title: 'other order', category: 'orders', topic: 'order-2' },
      { title: 'news', category: 'news' },
    );
    const page = await pages.open(user, { mode: 'page' });
    await expect.poll(() => titles(page)).toEqual(['news', 'other order', 'order']);
    await page.getByLabel('Category').selectOption('Orders');
    await expect.poll(() => titles(page)).toEqual(['other order', 'order']);
    await openMenu(page);
    await menuItem(page, 'Only this topic').click();
    await expect.poll(() => titles(page)).toEqual(['other order']);
    expect(await page.locator('.chip').textContent()).toContain('order-2');
    await page.getByRole('button', { name: 'Show all topics' }).click();
    await expect.poll(() => titles(page)).toEqual(['other order', 'order']);
    await page.locator('.primary').first().click(); // reads it
    await tab(page, /Unread/).click();
    await expect.poll(() => titles(page)).toEqual(['order']);
    await page.close();

    for (const [attributes, shown] of [
      [{ category: 'news' }, ['news']],
      [{ topic: 'order-1' }, ['order']],
      [{ status: 'unread', category: 'orders' }, ['order']],
    ] as const) {
      const fixed = await pages.site.open(browser);
      await fixed.evaluate(
        (given) => {
          const element = document.createElement('belfry-inbox');
          for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
          document.body.append(element);
        },
        {
          ...attributes,
          mode: 'page',
          'base-url': pages.propertiesOf(user).baseUrl,
          token: String(pages.propertiesOf(user).token),
        },
      );
      await expect.poll(() => titles(fixed)).toEqual(shown);
      await fixed.close();
    }
  });

  test('a theme that is saved changes open inboxes', async () => {
    const { site } = pages;
    const project = await service.createProject('live theme');
    const page = await site.open(browser);
    const token = project.userJwt({ user_external_id: 'ada' });
    await addInbox(page, { baseUrl: `${service.address}/v2`, token, mode: 'page' });
    await page.locator('.empty').waitFor();
    expect(await page.locator('h2').textContent()).toBe('Notifications');
    const { theme } = example.full;
    const header = { ...theme.header, backgroundColor: 'rgb(1, 2, 3)' };
    const config = { ...example.full, theme: { ...theme, header }, locale: 'fr' };
    expect((await project.call('PUT', '/integrations/inbox', config)).status).toBe(200);
    await expect
      .poll(() => page.locator('.header').evaluate((one) => getComputedStyle(one).backgroundColor))
      .toBe('rgb(1, 2, 3)');
    await expect.poll(() => page.locator('.root').getAttribute('lang')).toBe('fr');
  });

  test.each([
    ['de_CH', 'Benachrichtigungen', /^vor 2/],
    ['Deutsch (Schweiz)', 'Notifications', /^2/],
  ])('the locale %s of the project or the page removes no inbox', async (locale, title, time) => {
    const project = await service.createProject(locale);
    const user = { external_id: 'ada' };
    const { body } = await project.call('POST', '/broadcasts', { title: 'Hello', recipients: [user] });
    await processed(project.call, body.id);
    // "now" is the same in any language.
    const older = sql(
      '',
      `update notifications set sent_at = sent_at - interval '125 seconds' where broadcast_id = $1`,
    );
    await service.context.db.query(older, [body.id]);
    const page = await pages.site.open(browser);
    const isShown = async () => {
      await expect.poll(() => page.locator('h2').textContent()).toBe(title);
      await expect.poll(() => page.locator('time').textContent()).toMatch(time);
    };
    await page.evaluate((lang) => {
      document.documentElement.lang = lang;
    }, locale);
    const token = project.userJwt({ user_external_id: 'ada' });
    await addInbox(page, { baseUrl: `${service.address}/v2`, token, mode: 'page' });
    await isShown();
    await page.evaluate(() => document.querySelector('belfry-inbox')?.setAttribute('locale', 'fr'));
    await expect.poll(() => page.locator('time').textContent()).toMatch(/^-2/);
    await page.evaluate(() => document.querySelector('belfry-inbox')?.setAttribute('locale', ''));
    await isShown();
    await page.evaluate(() => {
      document.documentElement.lang = 'ja';
    });
    expect((await project.call('PUT', '/integrations/inbox', { locale: 'es' })).status).toBe(200);
    await expect.poll(() => page.locator('h2').textContent()).toBe('Notificaciones');
    expect((await project.call('PUT', '/integrations/inbox', { locale })).status).toBe(200);
    await isShown();
  });

  test('preferences name their categories, keep what is required, and save quiet hours', async () => {
    const user = pages.newUser();
    const page = await pages.open(user, { mode: 'page' });
    await page.getByRole('button', { name: 'Preferences' }).click();
    const required = page.getByRole('group', { name: 'security' });
    await required.getByText('Always on').waitFor();
    for (const one of await required.getByRole('switch').all())
      expect([await one.isChecked(), await one.isDisabled()]).toEqual([true, true]);
    await page.getByRole('group', { name: 'Orders' }).getByText('Of your shop').waitFor();
    const saved = async () => (await service.project.as(user)('GET', '/channels/user_preferences')).body;
    await page.getByRole('switch', { name: 'Quiet hours' }).click();
    await until(saved, ({ quiet_hours: hours }) => hours?.from === '22:00' && hours.to === '07:00');
    await page.getByLabel('From').fill('21:30');
    await until(saved, ({ quiet_hours: hours }) => hours?.from === '21:30');
    await page.getByLabel('Time zone').selectOption('Asia/Tokyo');
    await until(saved, ({ time_zone: zone }) => zone === 'Asia/Tokyo');
    await page.getByRole('switch', { name: 'Quiet hours' }).click();
    await until(saved, ({ quiet_hours: hours }) => hours === null);
    await page.close();

    const hours = { from: '20:00', to: '24:00' };
    await service.project.as(user)('PUT', '/channels/user_preferences', { quiet_hours: hours });
    const again = await pages.open(user, { mode: 'page' });
    await again.getByRole('button', { name: 'Preferences' }).click();
    expect(await again.getByLabel('To', { exact: true }).inputValue()).toBe('00:00');
    await again.getByLabel('From').fill('21:00');
    await until(saved, ({ quiet_hours: now }) => now?.from === '21:00' && now.to === '24:00');
  });

  test('quiet hours that are typed are saved once each, and the focus stays in its place', async () => {
    const user = pages.newUser();
    const hours = { from: '08:00', to: '07:00' }; // in the morning, so that no field needs AM or PM
    await service.project.as(user)('PUT', '/channels/user_preferences', { quiet_hours: hours });
    const page = await pages.open(user, { mode: 'page' });
    const saved: unknown[] = [];
    page.on('request', (request) => {
      if (request.method() === 'PUT') saved.push(request.postDataJSON().quiet_hours);
    });
    await page.getByRole('button', { name: 'Preferences' }).click();
    await page.getByLabel('From').focus();
    await page.keyboard.type('0930');
    const isAtEnd = () => page.getByLabel('To', { exact: true }).evaluate((one) => one.matches(':focus'));
    while (!(await isAtEnd())) await page.keyboard.press('Tab'); // past the button of the clock
    await expect.poll(() => saved).toEqual([{ from: '09:30', to: '07:00' }]);
    await page.keyboard.type('06');
    expect(await page.getByLabel('To', { exact: true }).inputValue()).toBe('06:00');
    await page.keyboard.type('15');
    await page.keyboard.press('Enter');
    const stored = async () => (await service.project.as(user)('GET', '/channels/user_preferences')).body;
    await until(stored, ({ quiet_hours: now }) => now.from === '09:30' && now.to === '06:15');
    expect(await isAtEnd()).toBe(true);
    await page.getByLabel('From').focus();
    await page.keyboard.type('0545');
    const emailSwitch = page.getByRole('group', { name: 'Orders' }).getByRole('switch', { name: 'E-mail' });
    await emailSwitch.click(); // saves the field as well
    await until(stored, ({ quiet_hours: now, categories: [orders] }) => {
      const email = orders.channels.find(({ name }: { name: string }) => name === 'email');
      return now.from === '05:45' && !email.enabled;
    });
    expect(await emailSwitch.isChecked()).toBe(false);
    expect(saved.filter((hours) => hours)).toEqual([
      { from: '09:30', to: '07:00' },
      { from: '09:30', to: '06:15' },
      { from: '05:45', to: '06:15' },
    ]);
  });

  test('preferences that cannot be loaded say so, and are loaded again', async () => {
    const page = await pages.open(pages.newUser());
    const headers = { 'access-control-allow-origin': '*' };
    await page.route('**/user_preferences', (route) => route.fulfill({ status: 400, headers }));
    await page.locator('.bell').click();
    await page.getByRole('button', { name: 'Preferences' }).click();
    await page.getByText('Preferences could not be loaded.').waitFor();
    await page.unroute('**/user_preferences');
    await page.getByRole('button', { name: 'Try again' }).press('Enter');
    await page.getByRole('group', { name: 'Orders' }).waitFor();
    expect(await page.locator('.view').evaluate((view) => view.matches(':focus'))).toBe(true);
  });

  test('quiet hours from and to the same time are reported, and saved when they differ', async () => {
    const user = pages.newUser();
    const page = await pages.open(user, { mode: 'page' });
    await page.getByRole('button', { name: 'Preferences' }).click();
    await page.getByRole('switch', { name: 'Quiet hours' }).click();
    const [from, to] = [page.locator('#quiet-from'), page.locator('#quiet-to')];
    await from.fill('07:00');
    await to.focus();
    await page.getByText('Choose two different times').waitFor();
    const saved = async () =>
      (await service.project.as(user)('GET', '/channels/user_preferences')).body.quiet_hours;
    expect(await saved()).toEqual({ from: '22:00', to: '07:00' });
    await to.fill('09:30');
    await from.focus();
    await expect.poll(saved).toEqual({ from: '07:00', to: '09:30' });
    await page.getByText('Choose two different times').waitFor({ state: 'hidden' });
  });

  test('long labels and descriptions of categories stay in the preferences', async () => {
    const project = await service.createProject('long');
    const label = 'W'.repeat(100);
    const config = { key: 'long', label, description: label, channels: [{ channel: 'email' }] };
    expect((await project.call('PUT', '/channels', config)).status).toBe(200);
    const token = project.userJwt({ user_external_id: 'ada' });
    const viewport = { width: 390, height: 800 };
    const page = await pages.open('ada', { token, mode: 'page' }, { viewport });
    await page.getByRole('button', { name: 'Preferences' }).click();
    await page.getByRole('heading', { name: label }).waitFor();
    const excess = await page.locator('.view').evaluate((view) => view.scrollWidth - view.clientWidth);
    expect(excess).toBe(0);
  });

  test.each(['en', 'ar'])(
    'on a phone, texts of both directions are beside the menu in %s',
    async (locale) => {
      const user = pages.newUser();
      await pages.send(user, ...['Left to right', 'من اليمين'].map((content) => ({ content })));
      const context = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true };
      const page = await pages.open(user, { mode: 'page', locale }, { context });
      await page.locator('.item .menu-button').nth(1).waitFor();
      const places = await page.locator('belfry-inbox').evaluate((element) =>
        [...(element.shadowRoot as ShadowRoot).querySelectorAll('.item')].map((item) => {
          const box = (selector: string) => item.querySelector(selector)?.getBoundingClientRect() as DOMRect;
          const [content, body, tools] = [box('.content'), box('.body'), box('.menu-button')];
          const startsAt = [Math.abs(content.left - body.left), Math.abs(content.right - body.right)];
          const overlaps = content.left < tools.right && tools.left < content.right;
          return { startGap: Math.min(...startsAt), overlaps };
        }),
      );
      expect(places).toEqual([
        { startGap: 0, overlaps: false },
        { startGap: 0, overlaps: false },
      ]);
    },
  );

  test('a phone can close the inbox before its details are loaded', async () => {
    const page = await pages.site.open(browser, { viewport: { width: 390, height: 800 } });
    const held: object[] = [];
    await page.route(/details/, (route) => void held.push(route)); // no response
    await addInbox(page, { ...pages.propertiesOf(pages.newUser()), mode: 'popover' });
    await page.locator('.bell').click();
    await expect.poll(() => held.length).toBe(1);
    await page.locator('.close').click({ timeout: 5_000 });
    await expect.poll(() => page.locator('.panel').isVisible()).toBe(false);
  });

  test('an arrow key moves the focus as soon as the details of the list are loaded', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Below' }, { title: 'Above' });
    const page = await pages.site.open(browser, {});
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    await page.route(/details/, async (route) => {
      await released;
      await route.continue();
    });
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'page' });
    await page.locator('.primary', { hasText: 'Above' }).focus();
    await page.keyboard.press('ArrowDown');
    release();
    const below = page.locator('.primary', { hasText: 'Below' });
    await expect.poll(() => below.evaluate((one) => one.matches(':focus')), { timeout: 10_000 }).toBe(true);
  });

  test('a switch that could not be saved is as before, also while it has the focus', async () => {
    const page = await pages.open(pages.newUser(), { mode: 'page' });
    await page.getByRole('button', { name: 'Preferences' }).click();
    const emailSwitch = page.getByRole('group', { name: 'Orders' }).getByRole('switch', { name: 'E-mail' });
    await emailSwitch.waitFor();
    const headers = { 'access-control-allow-origin': '*' };
    await page.route('**/user_preferences', (route) =>
      route.request().method() === 'PUT' ? route.fulfill({ status: 400, headers }) : route.fallback(),
    );
    await emailSwitch.press('Space');
    await page.getByText('That did not work').waitFor();
    expect(await emailSwitch.evaluate((one) => one.matches(':focus'))).toBe(true);
    expect(await emailSwitch.isChecked()).toBe(true);
  });

  test('what arrives while another notification is being marked as seen is seen, too', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'First' });
    const page = await pages.open(user);
    let release = () => {};
    const holdResponse = async (route: Route) => {
      const response = await route.fetch();
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      await route.fulfill({ response });
    };
    await page.route('**/notifications/seen', holdResponse, { times: 1 });
    const requested = page.waitForRequest('**/notifications/seen');
    await page.locator('.bell').click();
    await requested;
    await expect
      .poll(async () => (await service.project.as(user)('GET', '/notifications/unseen/count')).body.count)
      .toBe(0);
    await pages.send(user, { title: 'Second' });
    await expect.poll(() => titles(page)).toEqual(['Second', 'First']);
    release();
    await expect.poll(() => page.locator('.badge').isHidden()).toBe(true);
  });

  test('arrivals while others are being marked as seen make one more request', async () => {
    const user = pages.newUser();
    const page = await pages.open(user, { mode: 'page' });
    const requests: Route[] = [];
    await page.route('**/notifications/seen', (route) => void requests.push(route));
    await pages.send(user, { title: 'a' });
    await expect.poll(() => requests).toHaveLength(1);
    await pages.send(user, { title: 'b' }, { title: 'c' }, { title: 'd' });
    await expect.poll(() => titles(page)).toEqual(['d', 'c', 'b', 'a']);
    expect(requests).toHaveLength(1);
    const headers = { 'access-control-allow-origin': '*' };
    await requests[0]?.fulfill({ status: 204, headers });
    await expect.poll(() => requests).toHaveLength(2);
    const failed = page.evaluate(
      () =>
        new Promise<string>((resolve) => {
          const inbox = document.querySelector('belfry-inbox');
          inbox?.addEventListener('belfry-error', ({ detail }) => resolve(detail.error.message));
        }),
    );
    await requests[1]?.fulfill({ status: 400, headers });
    expect(await failed).toContain('400');
    expect(await page.locator('.banner').isHidden()).toBe(true); // the user changed nothing
    expect(requests).toHaveLength(2); // what fails is tried once more with the next arrival
    await pages.send(user, { title: 'e' });
    await expect.poll(() => requests).toHaveLength(3);
  });

  test('a further page that cannot be loaded says so, and hides no failure of an action', async () => {
    const user = pages.newUser();
    await pages.send(user, ...['e', 'd', 'c', 'b', 'a'].map((title) => ({ title })));
    const page = await pages.site.open(browser);
    const refuse = (route: Route) =>
      route.fulfill({ status: 400, headers: { 'access-control-allow-origin': '*' } });
    await page.route(/starting_after/, refuse);
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'page', pageSize: 2 });
    await page.getByText('Notifications could not be loaded.').waitFor();
    expect(await titles(page)).toEqual(['a', 'b']);
    await page.route('**/archive', refuse);
    await page.locator('.item').first().hover();
    await page.getByRole('button', { name: 'Archive', exact: true }).first().click();
    await expect.poll(() => page.locator('.banner').textContent()).toContain('That did not work');
    await page.unroute(/starting_after/);
    await page.getByRole('button', { name: 'Try again' }).press('Enter');
    await expect.poll(() => titles(page)).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(await page.getByText('Notifications could not be loaded.').count()).toBe(0);
    expect(await page.locator('.scroller:focus').count()).toBe(1); // in place of the button
  });

  test('a list that cannot be loaded says so, and is loaded again', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'archived' });
    const [{ id }] = (await service.project.as(user)('GET', '/notifications')).body.data;
    await service.project.as(user)('POST', `/notifications/${id}/archive`);
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.empty').waitFor();
    const isList = /\/v2\/notifications\?/;
    await page.route(isList, (route) =>
      route.fulfill({ status: 500, headers: { 'access-control-allow-origin': '*' } }),
    );
    await tab(page, /Archive/).click();
    await page.getByText('Notifications could not be loaded.').waitFor();
    await page.unroute(isList);
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(() => titles(page)).toEqual(['archived']);
  });

  test('a list above the rate limit says so, and appears when the server allows it', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'One' });
    const [{ id }] = (await service.project.as(user)('GET', '/notifications')).body.data;
    await service.project.as(user)('POST', `/notifications/${id}/archive`);
    const page = await pages.open(user, { mode: 'page' });
    const isList = /\/v2\/notifications\?/;
    await page.route(isList, (route) =>
      route.fulfill({
        status: 429,
        headers: {
          'access-control-allow-origin': '*',
          'access-control-expose-headers': 'Retry-After',
          'retry-after': '4',
        },
      }),
    );
    await tab(page, /Archive/).click();
    await page.getByText('Too many requests').waitFor();
    expect(await page.locator('.skeleton').isHidden()).toBe(true);
    await page.unroute(isList);
    await expect.poll(() => titles(page)).toEqual(['One']);
    expect(await page.getByText('Too many requests').count()).toBe(0);
  });

  test('behind a proxy without WebSockets it is live by Server-Sent Events', async () => {
    const user = pages.newUser();
    const page = await pages.site.open(browser);
    await page.routeWebSocket(/.*/, (socket) => socket.close());
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'page' });
    const transport = () =>
      page.evaluate(
        () => (document.querySelector('belfry-inbox') as BelfryInbox).inbox?.getSnapshot().transport,
      );
    await expect.poll(transport).toBe('sse');
    await pages.send(user, { title: 'By events' });
    await expect.poll(() => titles(page)).toEqual(['By events']);
  });

  test('a session that has ended is reported', async () => {
    const page = await pages.site.open(browser);
    const values = { ...pages.propertiesOf('ada'), token: 'not.a.token', mode: 'page' as const };
    await page.evaluate(appendInbox, values as { pageSize?: number });
    await page.getByText('Your session has ended.').waitFor();
  });

  test('everything is archived after a confirmation', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'a' }, { title: 'b' });
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.primary').nth(1).waitFor();
    await page.getByRole('button', { name: 'Archive all' }).click();
    await page.getByText('Archive all notifications?').waitFor();
    await page.getByRole('button', { name: 'Dismiss' }).click();
    expect(await titles(page)).toEqual(['b', 'a']);
    await page.getByRole('button', { name: 'Archive all' }).click();
    await page.locator('.banner').getByRole('button', { name: 'Archive all' }).click();
    await expect.poll(() => titles(page)).toEqual([]);
    await tab(page, /Archive/).click();
    await expect.poll(() => titles(page)).toEqual(['b', 'a']);
  });

  test('a confirmation archives what the list showed when the user wanted it', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'order', category: 'orders' }, { title: 'news', category: 'news' });
    const page = await pages.open(user, { mode: 'page' });
    await expect.poll(() => titles(page)).toEqual(['news', 'order']);
    const confirm = page.locator('.banner').getByRole('button', { name: 'Archive all' });
    const archiveAll = page.locator('.bar').getByRole('button', { name: 'Archive all' });
    await page.getByLabel('Category').selectOption('Orders');
    await expect.poll(() => titles(page)).toEqual(['order']);
    await archiveAll.click();
    await confirm.waitFor();
    await page.getByLabel('Category').selectOption('All categories');
    await confirm.click();
    await expect.poll(() => titles(page)).toEqual(['news']);
    await pages.send(user, { title: 'order 2', category: 'orders' });
    await page.getByLabel('Category').selectOption('Orders');
    await archiveAll.click();
    await confirm.waitFor();
    await page.getByLabel('Category').selectOption('All categories');
    await archiveAll.click(); // instead of the former
    await confirm.click();
    await expect.poll(() => titles(page)).toEqual([]);
  });

  test('a confirmation ends when the connection is lost, and takes no focus later', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'stays' });
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.primary').waitFor();
    await page.evaluate(() => document.body.prepend(document.createElement('textarea')));
    const text = page.locator('textarea');
    const banner = page.locator('.banner');
    for (const isPressedOffline of [true, false]) {
      const archiveAll = () => page.locator('.bar').getByRole('button', { name: 'Archive all' }).click();
      if (!isPressedOffline) await archiveAll();
      await page.context().setOffline(true);
      await expect.poll(() => banner.textContent()).toContain('You are offline');
      if (isPressedOffline) await archiveAll();
      await text.focus();
      await page.context().setOffline(false);
      await expect.poll(() => banner.textContent()).not.toContain('You are offline');
      expect(await banner.isHidden()).toBe(true);
      expect(await text.evaluate((one) => one.matches(':focus'))).toBe(true);
    }
  });

  test('the focus stays in the inbox when a banner or the last notification disappears', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'only' });
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.primary').waitFor();
    const focused = () =>
      page.evaluate(() => {
        const active = document.querySelector('belfry-inbox')?.shadowRoot?.activeElement;
        return active?.ariaLabel ?? active?.id;
      });
    const archiveAll = page.getByRole('button', { name: 'Archive all' });
    const dismiss = page.getByRole('button', { name: 'Dismiss' });
    await archiveAll.click();
    await dismiss.press('Enter');
    await expect.poll(focused).toBe('Mark all as read');
    await archiveAll.click();
    await dismiss.waitFor();
    await tab(page, /Snoozed/).click(); // without actions on all
    await dismiss.press('Enter');
    await expect.poll(focused).toBe('list');
    await tab(page, /All/).click();
    await page.getByRole('button', { name: 'Archive', exact: true }).press('Enter');
    await page.locator('.empty').waitFor();
    await expect.poll(focused).toBe('list');
  });

  test('a long text is read by the menu, also of a link and of what would leave the list', async () => {
    const user = pages.newUser();
    const content = 'A long text, of which only the first lines are shown. '.repeat(20);
    await pages.send(
      user,
      { title: 'Short', content: 'Text' },
      { title: 'Link', content, action_url: 'https://shop.example/1' },
      { title: 'A title that is longer than two lines. '.repeat(6) },
    );
    const page = await pages.open(user, { mode: 'page' });
    await tab(page, /Unread/).click();
    await page.locator('.item.unread').nth(2).waitFor();
    for (const [index, selector] of ['.primary', '.content', '.content'].entries()) {
      const item = page.locator('.item').nth(index);
      const hidden = () =>
        item.locator(selector).evaluate((one) => Math.max(0, one.scrollHeight - one.clientHeight));
      await item.hover();
      await item.locator('.menu-button').click();
      await menuItem(page, 'Archive').waitFor();
      const isShort = index === 2;
      expect([await menuItem(page, 'Show whole text').count(), (await hidden()) > 0]).toEqual(
        isShort ? [0, false] : [1, true],
      );
      if (isShort) break;
      await menuItem(page, 'Show whole text').click();
      await expect.poll(hidden).toBe(0);
    }
    expect(await page.locator('.item.unread').count()).toBe(3);
  });

  test('the heading of a day changes after midnight', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'One' });
    const page = await pages.site.open(browser, { context: {} });
    await page.clock.install();
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'page' });
    await expect.poll(() => page.locator('.day').allTextContents()).toEqual(['Today']);
    await page.clock.fastForward('24:00:00');
    await expect.poll(() => page.locator('.day').allTextContents()).toEqual(['Yesterday']);
  });

  test('what arrives above the visible part is counted, and shown by a click', async () => {
    const user = pages.newUser();
    await pages.send(user, ...Array.from({ length: 20 }, (_, index) => ({ title: `${index}` })));
    const viewport = { width: 400, height: 400 };
    const page = await pages.open(user, { mode: 'page' }, { viewport });
    await page.locator('.item').nth(19).waitFor();
    await page.getByRole('button', { name: 'Preferences' }).click();
    await page.getByRole('button', { name: 'Back' }).click();
    const pill = page.locator('.pill');
    const scrollTo = (top: number) =>
      page.locator('.scroller').evaluate(async (one, to) => {
        one.scrollTo(0, to);
        // The event of the scroll comes before the second frame.
        for (let i = 0; i < 2; i += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
      }, top);
    for (const hides of [() => pill.click(), () => scrollTo(0), () => tab(page, /Unread/).click()]) {
      await scrollTo(500);
      await pages.send(user, { title: 'One' }, { title: 'Two' });
      await expect.poll(() => pill.textContent()).toBe('2 new');
      await hides();
      await expect.poll(() => pill.isHidden()).toBe(true);
      expect(await page.locator('.scroller').evaluate(({ scrollTop }) => scrollTop)).toBe(0);
    }
    // Another tab begins at its top, where nothing is above.
    await scrollTo(500);
    await tab(page, /All/).click();
    await pages.send(user, { title: 'Visible' });
    await page.locator('.item', { hasText: 'Visible' }).waitFor();
    expect(await pill.isHidden()).toBe(true);
  });

  test.each([
    ['ahead', 1],
    ['behind', -1],
  ])('a browser whose clock is a day %s snoozes for an hour', async (_direction, days) => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Now' });
    const context = await browser.newContext({ locale: 'en-GB' });
    await context.addInitScript((offsetMs) => {
      const Right = Date;
      globalThis.Date = class extends Right {
        constructor(...given: number[]) {
          super(...((given.length === 0 ? [Right.now() + offsetMs] : given) as [number]));
        }
        static override now = () => Right.now() + offsetMs;
      } as DateConstructor;
    }, days * 86_400_000);
    const page = await pages.site.open(context as unknown as Browser);
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'embedded' });
    expect(await page.locator('time').textContent()).toMatch(/^now$|min/);
    expect(await page.locator('.day').textContent()).toBe('Today');
    const at = Date.now();
    await openMenu(page);
    await menuItem(page, 'Snooze').click();
    await menuItem(page, 'In an hour').click();
    const list = () => service.project.as(user)('GET', '/notifications?status=snoozed');
    const { body } = await until(list, (response) => response.body.data.length === 1);
    const minutes = (Date.parse(body.data[0].snoozed_until) - at) / 60_000;
    expect(minutes).toBeGreaterThan(58);
    expect(minutes).toBeLessThan(62);
    await context.close();
  });

  test('an inbox of an earlier release, which another copy of the package made, can snooze', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Now' });
    const page = await pages.site.open(browser);
    await addInbox(page, { ...pages.propertiesOf(user), mode: 'embedded', pageSize: 10 });
    await page.locator('belfry-inbox').evaluate((element) => {
      const { inbox } = element as unknown as { inbox: Record<string, unknown> };
      delete inbox.now;
      Object.assign(element, { inbox: undefined });
      Object.assign(element, { inbox });
    });
    await expect.poll(() => page.locator('.item').count()).toBe(1);
    await openMenu(page);
    await menuItem(page, 'Snooze').click();
    await menuItem(page, 'In an hour').click();
    const list = () => service.project.as(user)('GET', '/notifications?status=snoozed');
    await until(list, (response) => response.body.data.length === 1);
  });

  test('in a hidden tab, arrivals do not make the list larger and larger', async () => {
    const user = pages.newUser();
    const context = await browser.newContext();
    // Chromium without windows hides no tab. In a hidden one it draws no frames and observes nothing.
    await context.addInitScript(() => {
      const observers = new Set<() => void>();
      globalThis.IntersectionObserver = class extends IntersectionObserver {
        constructor(callback: IntersectionObserverCallback, options?: IntersectionObserverInit) {
          const seen: IntersectionObserverEntry[] = [];
          const report = () => !document.hidden && seen.length > 0 && callback(seen.splice(0), this);
          super((entries) => [seen.push(...entries), report()], options);
          observers.add(report);
        }
      };
      Object.assign(globalThis, {
        hideTab(hidden: boolean) {
          const visibilityState = hidden ? 'hidden' : 'visible';
          for (const [name, value] of Object.entries({ hidden, visibilityState }))
            Object.defineProperty(document, name, { configurable: true, value });
          document.dispatchEvent(new Event('visibilitychange'));
          for (const report of observers) report();
        },
      });
    });
    const page = await pages.site.open(context as unknown as Browser);
    await addInbox(page, { ...pages.propertiesOf(user), pageSize: 5, mode: 'embedded' });
    await pages.send(user, { title: 'first' });
    await expect.poll(() => titles(page)).toEqual(['first']);
    await page.evaluate('hideTab(true)');
    const recipients = [{ external_id: user }];
    const sent = Array.from({ length: 120 }, (_, n) =>
      service.project.call('POST', '/broadcasts', { title: `arrival ${n}`, recipients }),
    );
    await Promise.all(sent);
    const size = () =>
      page.locator('belfry-inbox').evaluate((element: BelfryInbox) => {
        const { pages, notifications } = element.inbox?.list().getSnapshot() ?? {};
        const all = pages?.reduce((sum, one) => sum + one.size, 0);
        return {
          all,
          loaded: notifications?.length ?? 0,
          items: element.shadowRoot?.querySelectorAll('.item').length,
        };
      });
    await expect.poll(async () => (await size()).all).toBe(121);
    const { loaded, items } = await size();
    expect(loaded).toBeLessThan(70);
    expect(items).toBe(loaded);
    await page.evaluate('hideTab(false)');
    await page.locator('.scroller').evaluate((scroller) => scroller.scrollTo(0, scroller.scrollHeight));
    await expect.poll(async () => (await titles(page)).at(-1)).toBe('first');
    await context.close();
  });

  test('what arrives in a hidden list is released when it is shown far from it', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Old' });
    const page = await pages.open(user, { mode: 'page', pageSize: 2 } as object);
    await page.locator('.item').waitFor();
    const show = (display: string) =>
      page.evaluate((value) => {
        document.body.style.display = value;
      }, display);
    const snapshot = () =>
      page.evaluate(() => {
        const { inbox } = document.querySelector('belfry-inbox') as BelfryInbox;
        const { pages = [], notifications } = inbox?.list().getSnapshot() ?? {};
        return { loaded: notifications?.length, all: pages.reduce((sum, { size }) => sum + size, 0) };
      });
    const loaded = async () => (await snapshot()).loaded;
    await show('none');
    await pages.send(user, ...Array.from({ length: 70 }, () => ({ title: 'New' })));
    await expect.poll(async () => (await snapshot()).all).toBe(71);
    expect(await loaded()).toBeLessThan(50);
    await show('');
    await expect.poll(loaded).toBeLessThan(50);
    expect(await page.locator('.item').first().isVisible()).toBe(true);
  });

  test('a list that is no longer shown takes no memory', async () => {
    const user = pages.newUser();
    for (let sent = 0; sent < 10; sent += 1) await pages.send(user, { title: `${sent}` });
    const page = await pages.open(user, { mode: 'page' });
    const session = await page.context().newCDPSession(page);
    const nodesAfterSwitching = async (times: number) => {
      for (let done = 0; done < times; done += 1)
        for (const name of [/Snoozed/, /All/]) {
          await tab(page, name).click();
          await page.locator(name.source === 'All' ? '.item >> nth=9' : '.empty').waitFor();
        }
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Memory.getDOMCounters')).nodes;
    };
    const before = await nodesAfterSwitching(2);
    expect(await nodesAfterSwitching(10)).toBeLessThan(before + 500);
  });

  test('a category without a label takes no place', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'One', category: 'unknown' }, { title: 'Two', category: 'orders' });
    const page = await pages.open(user, { mode: 'page' });
    const takesPlace = () =>
      page.locator('.meta').evaluateAll((all) =>
        all.map((one) => {
          const { height, marginTop } = getComputedStyle(one);
          return Number.parseFloat(height) + Number.parseFloat(marginTop) > 0;
        }),
      );
    await expect.poll(takesPlace).toEqual([true, false]);
  });

  test('preformatted text is scrolled by keys', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'One', content: `<pre>${'x'.repeat(400)}</pre>` });
    const page = await pages.open(user, { mode: 'page' });
    const text = page.locator('pre');
    await page.locator('.primary').focus();
    await page.keyboard.press('Tab');
    expect(await text.evaluate((one) => one.matches(':focus'))).toBe(true);
    expect(await text.getAttribute('tabindex')).toBe('0'); // Safari does not focus it otherwise
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text.evaluate(({ scrollLeft }) => scrollLeft)).toBeGreaterThan(0);
  });

  test('each day has one heading, also where a page of the list begins', async () => {
    const user = pages.newUser();
    await pages.send(user, ...['e', 'd', 'c', 'b', 'a'].map((title) => ({ title })));
    const day = sql(
      '',
      `update notifications set sent_at = sent_at - $1 * interval '1 day'
      where id = $2 and user_id = (select id from users where external_id = $3)`,
    );
    const { data } = (await service.project.as(user)('GET', '/notifications')).body;
    const ids = data.map(({ id }: { id: string }) => id);
    for (const [index, days] of [0, 1, 1, 1, 2].entries())
      await service.context.db.query(day, [days, ids[index], user]);
    const page = await pages.open(user, { mode: 'page', pageSize: 2 } as object);
    const shown = () =>
      page.locator('.day, .primary').evaluateAll((all) => all.map((one) => one.textContent));
    const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'long' });
    const before = weekday.format(Date.now() - 2 * 86_400_000);
    await expect.poll(shown).toEqual(['Today', 'a', 'Yesterday', 'b', 'c', 'd', before, 'e']);
    const call = service.project.as(user);
    await call('POST', `/notifications/${ids[1]}/archive`);
    await expect.poll(shown).toEqual(['Today', 'a', 'Yesterday', 'c', 'd', before, 'e']);
    await call('POST', `/notifications/${ids[1]}/unarchive`);
    await expect.poll(shown).toEqual(['Today', 'a', 'Yesterday', 'b', 'c', 'd', before, 'e']);
    // A page below one that is released.
    const release = (isReleased: boolean) =>
      page.evaluate(async (wanted) => {
        const list = (document.querySelector('belfry-inbox') as BelfryInbox).inbox?.list();
        const first = list?.getSnapshot().pages[0];
        if (first === undefined) throw new Error('no page');
        if (wanted) list?.release(first);
        else await list?.load(first);
      }, isReleased);
    await release(true);
    await call('POST', `/notifications/${ids[2]}/archive`);
    await release(false);
    await expect.poll(shown).toEqual(['Today', 'a', 'Yesterday', 'b', 'd', before, 'e']);
  });

  test('the name of a topic without spaces is cut before its button', async () => {
    const user = pages.newUser();
    const topic = 'x'.repeat(80);
    await pages.send(user, { title: 'One', topic });
    const viewport = { width: 400, height: 600 };
    const page = await pages.open(user, { mode: 'embedded' }, { viewport });
    await page.locator('.primary').waitFor();
    await openMenu(page);
    await menuItem(page, 'Only this topic').click();
    await page.getByRole('button', { name: 'Show all topics' }).waitFor();
    const name = page.locator('.chip span');
    const style = await name.evaluate((one) => {
      const { overflow, textOverflow } = getComputedStyle(one);
      return { overflow, textOverflow, isCut: one.scrollWidth > one.clientWidth };
    });
    expect(style).toEqual({ overflow: 'hidden', textOverflow: 'ellipsis', isCut: true });
    expect(await name.getAttribute('title')).toBe(`Topic: ${topic}`);
  });

  test('links to other sites open beside the page and do not know it, own links replace it', async () => {
    const user = pages.newUser();
    const { site } = pages;
    await pages.send(
      user,
      { title: 'bad', action_url: 'javascript:alert(1)' },
      { title: 'own', action_url: `${site.url}/own` },
      { title: 'foreign', action_url: `${site.url.replace('127.0.0.1', 'localhost')}/foreign` },
    );
    const page = await pages.open(user, { mode: 'page' }, { context: {} });
    await page.locator('.primary').nth(2).waitFor();
    const linkOf = (title: string) => page.locator('.primary', { hasText: title });
    expect(await linkOf('bad').evaluate((one) => one.localName)).toBe('button');
    expect(await linkOf('own').getAttribute('target')).toBeNull();
    const [opened] = await Promise.all([page.context().waitForEvent('page'), linkOf('foreign').click()]);
    await opened.waitForLoadState();
    expect(await opened.evaluate(() => [opener, document.referrer])).toEqual([null, '']);
    expect(new URL(page.url()).pathname).toBe('/');
    await linkOf('own').click();
    await page.waitForURL(`${site.url}/own`);
  });

  test('is light or dark as its property says, or as the system is', async () => {
    const user = pages.newUser();
    const colors: string[] = [];
    for (const [colorScheme, system] of [
      ['dark', 'light'],
      ['light', 'dark'],
      ['system', 'dark'],
      ['system', 'light'],
    ] as const) {
      const page = await pages.open(user, { mode: 'page', colorScheme }, { media: { colorScheme: system } });
      const style = page.locator('.scroller');
      colors.push(await style.evaluate((one) => getComputedStyle(one).backgroundColor));
      await page.close();
    }
    const [dark, light, systemDark, systemLight] = colors;
    expect(dark).not.toBe(light);
    expect([systemDark, systemLight]).toEqual([dark, light]);
  });

  test('texts of a language that could not be loaded are loaded later', async () => {
    const page = await pages.site.open(browser, { context: {} });
    await page.clock.install();
    const isGerman = /\/de-\w+\.js$/;
    const failed = page.waitForResponse(isGerman);
    await page.route(isGerman, (route) => route.fulfill({ status: 503 }));
    await addInbox(page, { ...pages.propertiesOf(pages.newUser()), mode: 'page', locale: 'de' });
    expect((await failed).status()).toBe(503);
    expect(await page.locator('h2').textContent()).toBe('Notifications');
    const views = await page.evaluateHandle(() => {
      const inbox = document.querySelector('belfry-inbox') as BelfryInbox;
      for (const title of ['One', 'Two']) inbox.messages = { title }; // each makes a new view
      inbox.messages = {};
      const added: Node[] = [];
      new MutationObserver((changes) => {
        for (const { addedNodes } of changes) added.push(...addedNodes);
      }).observe(inbox.shadowRoot as ShadowRoot, { childList: true });
      return added;
    });
    await page.unroute(isGerman);
    await expect
      .poll(async () => {
        await page.clock.fastForward('00:10'); // the page may handle the failure after it is here
        return page.locator('h2').textContent();
      })
      .toBe('Benachrichtigungen');
    await page.clock.fastForward('00:10');
    expect(await views.evaluate(({ length }) => length)).toBe(1);
  });

  test('its texts can be replaced', async () => {
    const page = await pages.open(pages.newUser(), { mode: 'page' });
    await page.evaluate(() => {
      (document.querySelector('belfry-inbox') as BelfryInbox).messages = {
        title: 'Nieuws',
        emptyAll: 'Nog niets',
        unread: undefined as unknown as string, // as a page without types may pass
      };
    });
    await page.getByText('Nog niets').waitFor();
    expect(await page.locator('h2').textContent()).toBe('Nieuws');
    expect(await tab(page, /Unread/).count()).toBe(1);
  });
});

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { example } from '../../server/src/providers/inbox/example.ts';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import {
  processed,
  startTestService,
  type TestProject,
  type TestService,
  until,
} from '../../server/test/support/service.ts';
import type { BelfryInbox } from '../src/element/belfry-inbox.ts';
import { type ElementPages, startElementPages, titles } from './support/element-pages.ts';
import { addInbox, POLICY } from './support/inbox-page.ts';

const { full: fullConfig } = example;

// `<belfry-inbox>` in Chromium, on pages with a strict content security policy and trusted types.

describeInChromium('belfry-inbox', () => {
  let pages: ElementPages;
  let service: TestService;
  let project: TestProject;
  let browser: Browser;
  let site: ElementPages['site'];
  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), openChromium()]);
    pages = await startElementPages({ service, browser, processed });
    project = service.project;
    site = pages.site;
    for (const [key, critical] of [
      ['orders', false],
      ['security', true],
    ] as const) {
      const channels = [{ channel: 'in_app' }, { channel: 'email' }];
      expect((await project.call('PUT', '/channels', { key, critical, channels })).status).toBe(200);
    }
  });
  afterAll(() => Promise.all([service?.stop(), browser?.close(), site?.close()]));

  const newUser = () => pages.newUser();
  const send: ElementPages['send'] = (...given) => pages.send(...given);
  const open: ElementPages['open'] = (...given) => pages.open(...given);
  const badge = (page: Page) => page.locator('.badge').textContent();

  test('a new notification is on the bell and in the list at once, and read in the other tab', async () => {
    const user = newUser();
    const [here, there] = await Promise.all([open(user), open(user, { mode: 'page' })]);
    await there.close(); // a visible list marks all as seen
    await send(user, { title: 'One' }, { title: 'Two' });
    await expect.poll(() => badge(here)).toBe('2');
    expect(await here.getByRole('button', { name: 'Notifications, 2 new' }).count()).toBe(1);
    await here.locator('.bell').click();
    await expect.poll(() => titles(here)).toEqual(['Two', 'One']);
    await expect.poll(() => here.locator('.badge').isHidden()).toBe(true);
    const other = await open(user, { mode: 'page' });
    await expect.poll(() => titles(other)).toEqual(['Two', 'One']);
    await here.locator('.primary').first().click();
    await expect.poll(() => other.locator('.item.unread').count()).toBe(1);
    await send(user, { title: 'Three' });
    await expect.poll(() => titles(here)).toEqual(['Three', 'Two', 'One']);
    await expect.poll(() => titles(other)).toEqual(['Three', 'Two', 'One']);
    expect(await other.getByRole('status').last().textContent()).toBe('New notification: Three');
  });

  test('what arrives while the browser is offline is there when it is back', async () => {
    const user = newUser();
    const page = await open(user, { mode: 'page' });
    await page.context().setOffline(true);
    await expect.poll(() => page.locator('.banner').textContent()).toContain('You are offline');
    await send(user, { title: 'Missed' });
    await page.context().setOffline(false);
    await expect.poll(() => titles(page)).toEqual(['Missed']);
    await expect.poll(() => page.locator('.banner').isHidden()).toBe(true);
  });

  test('what the user changes while the browser is offline is kept, and saved when it is back', async () => {
    const user = newUser();
    await send(user, { title: 'stays' }, { title: 'leaves' });
    const page = await open(user, { mode: 'page' });
    await page.locator('.primary').nth(1).waitFor();
    await page.context().setOffline(true);
    await page.getByText('changes are saved when you are back').waitFor();
    const failed: string[] = [];
    page.on('requestfailed', (request) => failed.push(new URL(request.url()).pathname.slice(-8)));
    await page.locator('.item').first().hover();
    await page.getByRole('button', { name: 'Archive', exact: true }).first().click();
    await page.locator('.primary').click();
    await expect.poll(() => failed.filter((path) => path === '/archive')).toHaveLength(3);
    await expect.poll(() => failed.filter((path) => path.endsWith('/read'))).toHaveLength(3);
    expect(await titles(page)).toEqual(['stays']);
    expect(await page.locator('.item.read').count()).toBe(1);
    await page.context().setOffline(false);
    const stored = async () =>
      (await project.as(user)('GET', '/notifications')).body.data.map(
        ({ title, status }: { title: string; status: string }) => `${title} ${status}`,
      );
    await expect.poll(stored).toEqual(['stays read']);
    await expect.poll(() => page.locator('.banner').isHidden()).toBe(true);
    expect(await titles(page)).toEqual(['stays']);
  });

  test('everything works by keyboard, and the focus goes where the user is', async () => {
    const user = newUser();
    await send(user, { title: 'a' }, { title: 'b' }, { title: 'c', action_url: 'https://shop.example/' });
    const page = await open(user);
    const focused = () =>
      page.evaluate(() => {
        const active = document.querySelector('belfry-inbox')?.shadowRoot?.activeElement as HTMLElement;
        return active?.getAttribute('aria-label') ?? active?.textContent;
      });
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await press('Tab', 'Enter');
    await expect.poll(focused).toBe('Notifications'); // the event `toggle` comes later
    await page.locator('.primary').nth(2).waitFor();
    await page.locator('.primary').first().focus();
    await press('ArrowDown');
    expect(await focused()).toBe('b');
    await press('Tab');
    expect(await focused()).toBe('Mark as read');
    await press('Enter');
    await expect.poll(focused).toBe('Mark as unread');
    await press('Tab', 'Enter'); // archives it: the focus is on the next one
    await expect.poll(focused).toBe('a');
    expect(await titles(page)).toEqual(['c', 'a']);
    await press('Tab', 'Tab', 'Tab');
    expect(await focused()).toBe('More actions');
    await press('Enter');
    await expect.poll(focused).toBe('Mark as read');
    await press('End', 'Enter'); // deletes it
    await expect.poll(() => titles(page)).toEqual(['c']);
    await page.locator('.tab').first().focus();
    await press('End');
    await expect.poll(() => titles(page)).toEqual(['b']);
    await press('Escape');
    await expect.poll(focused).toBe('Notifications');
    expect(await page.locator('.panel').isHidden()).toBe(true);
    expect(await page.locator('.bell').getAttribute('aria-expanded')).toBe('false');
  });

  test('the tabs fit on a phone in all languages', async () => {
    const user = newUser();
    await send(user, { title: 'One' });
    const page = await open(user, { mode: 'page' }, { viewport: { width: 320, height: 600 } });
    for (const locale of ['en', 'de', 'es', 'fr', 'ja', 'ar']) {
      await page.evaluate((language) => {
        (document.querySelector('belfry-inbox') as BelfryInbox).locale = language;
      }, locale);
      await page.locator(`.root[lang=${locale}] .tab`).last().waitFor();
      const cut = await page
        .locator('[role=tablist], .tab')
        .evaluateAll((all) =>
          all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent),
        );
      expect({ locale, cut }).toEqual({ locale, cut: [] });
    }
  });

  for (const [name, policy, parses, bold] of [
    ['with the parser of the browser', POLICY, true, 1],
    [
      'with a policy for its own parser',
      POLICY.replace("trusted-types 'none'", 'trusted-types belfry-inbox'),
      false,
      1,
    ],
    ['as text, without a parser', POLICY, false, 0],
  ] as const)
    test(`shows HTML under a strict content security policy with trusted types, ${name}`, async () => {
      const user = newUser();
      const content = 'It is <b>bold</b><script>alert(1)</script>, see <a href="/x">this</a>';
      await send(user, { title: 'HTML', content });
      const context = await browser.newContext({ locale: 'en-GB' });
      if (!parses) await context.addInitScript('delete Document.parseHTML');
      site.problems.length = 0;
      const page = await site.open(context, { policy });
      await addInbox(page, { ...pages.propertiesOf(user), mode: 'page' });
      await page.locator('.content').waitFor();
      expect(await page.locator('.content').textContent()).toMatch(/It is\s+bold/);
      expect(await page.locator('.content b').count()).toBe(bold);
      expect(await page.locator('.content script').count()).toBe(0);
      // Without a parser, the page reports the policy that the inbox tried to create.
      const allowed = bold === 1 ? /WebSocket/ : /WebSocket|trusted-types|belfry-inbox/;
      expect(site.problems.filter((problem) => !allowed.test(problem))).toEqual([]);
      await context.close();
    });

  test('content does not show what its HTML hides', async () => {
    const user = newUser();
    const content =
      '<div style="DISPLAY: none; max-height: 0">In lists of mails</div><p hidden>Hidden</p>' +
      '<form><input name="matches"><i style="visibility:hidden">Invisible</i>Shown</form>' +
      '<b style="color: red">Bold</b>';
    await send(user, { title: 'HTML', content });
    for (const script of ['', 'delete Document.parseHTML']) {
      const context = await browser.newContext();
      await context.addInitScript(script);
      const page = await site.open(context, { policy: "object-src 'self'" });
      await addInbox(page, { ...pages.propertiesOf(user), mode: 'page' });
      expect(await page.locator('.content').textContent()).toBe('ShownBold');
      await context.close();
    }
  });

  test('an action that the server rejects is undone, and reported', async () => {
    const user = newUser();
    await send(user, { title: 'stays' });
    const page = await open(user, { mode: 'page' });
    await page.locator('.primary').waitFor();
    await page.route('**/archive', (route) =>
      route.fulfill({ status: 400, headers: { 'access-control-allow-origin': '*' } }),
    );
    await page.locator('.item').hover();
    await page.getByRole('button', { name: 'Archive', exact: true }).click();
    await expect.poll(() => page.locator('.banner').textContent()).toContain('That did not work');
    expect(await titles(page)).toEqual(['stays']);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await expect.poll(() => page.locator('.banner').isHidden()).toBe(true);
  });

  test.each([
    ['ended the session', 401, 'Your session has ended.'],
    ['cannot be reached', undefined, 'No connection to the server. Your change was undone.'],
  ])('an action says why it failed: the server %s', async (_, status, text) => {
    const user = newUser();
    await send(user, { title: 'stays' });
    const page = await open(user, { mode: 'page' });
    await page.locator('.primary').waitFor();
    const headers = { 'access-control-allow-origin': '*' };
    await page.route('**/archive', (route) => (status ? route.fulfill({ status, headers }) : route.abort()));
    await page.locator('.item').hover();
    await page.getByRole('button', { name: 'Archive', exact: true }).click();
    await page.getByText(text).waitFor();
    expect(await titles(page)).toEqual(['stays']);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await expect.poll(() => page.locator('.banner').isHidden()).toBe(true);
  });

  test('a click reports the link, and the page can keep it from opening', async () => {
    const user = newUser();
    await send(user, {
      title: 'Order',
      action_url: 'https://shop.example/1',
      custom_attributes: {
        actions: [
          { label: 'Run', url: 'javascript:alert(1)' },
          { label: 'Track', url: '/track' },
        ],
      },
    });
    const page = await open(user, { mode: 'embedded' }, { context: {} });
    await page.locator('.primary').waitFor();
    await page.evaluate(() => {
      const clicks: unknown[] = [];
      Object.assign(globalThis, { clicks });
      document.addEventListener('belfry-click', (event) => {
        event.preventDefault();
        const { url, action, notification } = (event as CustomEvent).detail;
        clicks.push([notification.title, url, action]);
      });
    });
    await page.locator('.primary').click();
    expect(await page.locator('.actions > *').allTextContents()).toEqual(['Track']);
    await page.locator('.actions a').click();
    expect(await page.evaluate(() => (globalThis as unknown as { clicks: unknown[] }).clicks)).toEqual(
      [
        ['Order', 'https://shop.example/1', null],
        ['Order', `${site.url}/track`, 'Track'],
      ].map((click) => click.map((value) => value ?? undefined)),
    );
    expect(page.context().pages()).toHaveLength(1);
    const call = project.as(user);
    await expect.poll(async () => (await call('GET', '/notifications')).body.data[0].status).toBe('read');
  });

  test('links in a content, and those that open in a new tab, report a click and are read', async () => {
    const user = newUser();
    const link = (name: string) => `${site.url}/${name}`;
    await send(
      user,
      { title: 'Ctrl', action_url: link('ctrl') },
      { title: 'Middle', action_url: link('middle') },
      { title: 'Text', content: `See <a href="${link('text')}"><b>this</b></a>` },
    );
    const page = await open(user, { mode: 'page' }, { context: {} });
    await page.locator('.primary').nth(2).waitFor();
    await page.evaluate(() => {
      const clicks: unknown[] = [];
      Object.assign(globalThis, { clicks });
      document.addEventListener('belfry-click', (event) => {
        event.preventDefault();
        clicks.push([(event as CustomEvent).detail.url, event.cancelable]);
      });
    });
    const primary = (title: string) => page.locator('.primary', { hasText: title });
    const opened = async (click: Promise<void>) => {
      const [tab] = await Promise.all([page.context().waitForEvent('page'), click]);
      await tab.waitForURL(/^http/);
      return tab.url();
    };
    await page.locator('.content b').click();
    expect(await opened(primary('Middle').click({ button: 'middle' }))).toBe(link('middle'));
    expect(await opened(primary('Ctrl').click({ modifiers: ['Control'] }))).toBe(link('ctrl'));
    await primary('Text').click({ button: 'middle' }); // no link
    expect(await page.evaluate(() => (globalThis as unknown as { clicks: unknown[] }).clicks)).toEqual([
      [link('text'), true],
      [link('middle'), false],
      [link('ctrl'), false],
    ]);
    expect(page.url()).toBe(`${site.url}/`);
    expect(await page.locator('.expanded').count()).toBe(0);
    const unread = async () => (await project.as(user)('GET', '/notifications/unread/count')).body.count;
    await expect.poll(unread).toBe(0);
  });

  test('the theme of the project is applied; properties and CSS come before it', async () => {
    const themed = await service.createProject('themed');
    const { notification, ...parts } = fullConfig.theme;
    const theme = {
      ...parts,
      header: { ...parts.header, backgroundColor: 'rgb(1, 2, 3)' },
      footer: { ...parts.footer, backgroundColor: 'rgb(9, 8, 7)', fontSize: '15px' },
      notification,
    };
    const saved = await themed.call('PUT', '/integrations/inbox', { ...fullConfig, theme });
    expect(saved.status).toBe(200);
    const page = await site.open(browser, {
      style: '.own { --belfry-footer-text-color: rgb(4, 5, 6) }',
    });
    const token = themed.userJwt({ user_external_id: 'ada' });
    await addInbox(page, { baseUrl: `${service.address}/v2`, token, mode: 'page' });
    await page.locator('.empty img').waitFor({ state: 'attached' }); // its host does not exist
    const styleOf = (selector: string) =>
      page.locator(selector).evaluate((one) => {
        const { backgroundColor, color, fontSize } = getComputedStyle(one);
        return { backgroundColor, color, fontSize };
      });
    expect(await styleOf('.header')).toMatchObject({ backgroundColor: 'rgb(1, 2, 3)' });
    expect(await styleOf('.footer')).toMatchObject({ backgroundColor: 'rgb(9, 8, 7)', fontSize: '15px' });
    expect(await page.locator('h2').textContent()).toBe('Benachrichtigungen');
    await page.evaluate(() => {
      const element = document.querySelector('belfry-inbox') as BelfryInbox;
      element.className = 'own';
      element.theme = { footer: { fontSize: '17px' } };
    });
    expect(await styleOf('.footer')).toEqual({
      backgroundColor: 'rgb(9, 8, 7)',
      color: 'rgb(4, 5, 6)',
      fontSize: '17px',
    });
  });

  test('looks the same inside a page with hostile styles', async () => {
    const user = newUser();
    await send(user, { title: 'One', content: '<p>Text with a <a href="/x">link</a></p>' }, { title: 'Two' });
    const hostile = `
      *, *::before { all: unset !important; color: red !important; font: 40px fantasy !important }
      html { font-size: 40px; letter-spacing: 9px; text-transform: uppercase; direction: rtl }
      body { word-spacing: 1em }
      div, button, article, belfry-inbox { display: none !important; opacity: .1 !important }
      div, button, article, belfry-inbox { line-height: 3 !important }
      belfry-inbox, body, html { text-align: right !important; white-space: pre !important }
      belfry-inbox, body, html { visibility: hidden !important }
    `;
    const looks: string[] = [];
    for (const style of ['', hostile]) {
      const page = await open(user, { mode: 'embedded' }, { style });
      await page.locator('.primary').nth(1).waitFor();
      looks.push(
        await page.evaluate(() => {
          const shadow = document.querySelector('belfry-inbox')?.shadowRoot;
          const names = [
            'color',
            'display',
            'direction',
            'fontSize',
            'fontFamily',
            'fontWeight',
            'letterSpacing',
            'lineHeight',
            'opacity',
            'textAlign',
            'textTransform',
            'visibility',
            'whiteSpace',
            'wordSpacing',
            'backgroundColor',
            'cursor',
          ] as const;
          return [...(shadow?.querySelectorAll('*') ?? [])]
            .filter((one) => !one.closest('time'))
            .map((one) => `${one.className} ${names.map((name) => getComputedStyle(one)[name]).join(' ')}`)
            .join('\n');
        }),
      );
      await page.close();
    }
    expect(looks[1]).toBe(looks[0]);
  });

  test('preferences are shown with those that cannot be switched off, and saved', async () => {
    const user = newUser();
    const page = await open(user);
    await page.locator('.bell').click();
    await page.locator('.footer button').click();
    const group = page.getByRole('group', { name: 'orders' });
    await group.getByRole('switch', { name: 'E-mail' }).click();
    const call = project.as(user);
    const enabled = async () =>
      (await call('GET', '/channels/user_preferences')).body.categories
        .find(({ key }: { key: string }) => key === 'orders')
        .channels.find(({ name }: { name: string }) => name === 'email').enabled;
    await until(enabled, (value) => value === false);
    expect(await group.getByRole('switch', { name: 'E-mail' }).isChecked()).toBe(false);
    await page.getByRole('button', { name: 'Back' }).click();
    await page.locator('.empty').waitFor();
  });
});

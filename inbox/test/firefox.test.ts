import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  describeInFirefox,
  type Firefox,
  type FirefoxPage,
  openFirefox,
} from '../../server/test/support/firefox.ts';
import { processed, startTestService, type TestService } from '../../server/test/support/service.ts';
import { expectHarmless, scrollOn, sendPayloads, useContent, WATCH } from './support/hostile-content.ts';
import {
  appendInbox,
  type InboxProperties,
  isConnected,
  type PageOptions,
  type Site,
  startSite,
} from './support/inbox-page.ts';
import { XSS_PAYLOADS } from './support/xss-payloads.ts';

// `<belfry-inbox>` in Firefox: what depends on the browser. The rest is tested in Chromium.

describeInFirefox('belfry-inbox in Firefox', () => {
  let service: TestService;
  let browser: Firefox;
  let site: Site;
  beforeAll(async () => {
    [service, browser, site] = await Promise.all([startTestService(), openFirefox(), startSite()]);
  });
  afterAll(async () => {
    await Promise.all([service?.stop(), browser?.close(), site?.close()]);
  });

  async function send(user: string, ...titles: string[]): Promise<void> {
    for (const title of titles) {
      const body = { title, recipients: [{ external_id: user }] };
      const sent = await service.project.call('POST', '/broadcasts', body);
      await processed(service.project.call, sent.body.id); // the next one is above it
    }
  }

  async function open(user: string, properties: InboxProperties = {}, options: PageOptions = {}) {
    const page = await browser.open(site.serve(options));
    const token = service.project.userJwt({ user_external_id: user });
    await page.evaluate(`(() => { ${WATCH} })()`);
    await page.call(appendInbox, { baseUrl: `${service.address}/v2`, token, ...properties });
    await expect.poll(() => page.call(isConnected, undefined)).toBe(true);
    return page;
  }

  const inShadow = <Value>(page: FirefoxPage, expression: string) =>
    page.evaluate<Value>(`((root) => ${expression})(document.querySelector('belfry-inbox').shadowRoot)`);
  const titles = (page: FirefoxPage) =>
    inShadow<string[]>(page, `[...root.querySelectorAll('.primary')].map((one) => one.textContent)`);
  const focused = (page: FirefoxPage) =>
    inShadow(page, `root.activeElement?.getAttribute('aria-label') ?? root.activeElement?.textContent`);

  /** Expects that the page allowed everything that the inbox did, and closes it. */
  async function close(page: FirefoxPage): Promise<void> {
    expect(await page.evaluate('problems')).toEqual([]);
    await page.close();
  }

  test('a notification arrives in two tabs, and is read in both', async () => {
    const tabs = [await open('tabs', { mode: 'page' }), await open('tabs', { mode: 'embedded' })] as const;
    await send('tabs', 'One', 'Two');
    for (const tab of tabs) await expect.poll(() => titles(tab)).toEqual(['Two', 'One']);
    await inShadow(tabs[1], `root.querySelector('.primary').click()`);
    for (const tab of tabs)
      await expect.poll(() => inShadow(tab, `root.querySelectorAll('.item.unread').length`)).toBe(1);
    for (const tab of tabs) await close(tab);
  });

  test('what arrives while the browser is offline is there when it is back', async () => {
    const page = await open('offline', { mode: 'page' });
    const banner = () => inShadow(page, `root.querySelector('.banner').textContent`);
    await page.setOffline(true);
    await expect.poll(banner).toContain('You are offline');
    await send('offline', 'Missed');
    expect(await titles(page)).toEqual([]);
    await page.setOffline(false);
    await expect.poll(() => titles(page)).toEqual(['Missed']);
    await expect.poll(() => inShadow(page, `root.querySelector('.banner').hidden`)).toBe(true);
    await close(page);
  });

  test('the popover and the list work by keyboard, under a strict policy with trusted types', async () => {
    const page = await open('keyboard');
    await send('keyboard', 'a', 'b', 'c');
    await expect.poll(() => inShadow(page, `root.querySelector('.badge').textContent`)).toBe('3');
    const isOpen = () => inShadow(page, `root.querySelector('.panel').checkVisibility()`);
    expect(await isOpen()).toBe(false);
    await page.press('Tab', 'Enter');
    await expect.poll(() => focused(page)).toBe('Notifications');
    expect(await isOpen()).toBe(true);
    await expect.poll(() => titles(page)).toEqual(['c', 'b', 'a']);
    await inShadow(page, `root.querySelector('.primary').focus()`);
    await page.press('ArrowDown');
    await expect.poll(() => focused(page)).toBe('b');
    await page.press('Tab');
    expect(await focused(page)).toBe('Mark as read');
    await page.press('Enter');
    await expect.poll(() => focused(page)).toBe('Mark as unread');
    await page.press('Tab', 'Enter'); // archives it: the focus is on the next one
    await expect.poll(() => focused(page)).toBe('a');
    await page.press('Tab', 'Tab', 'Tab', 'Enter');
    await expect.poll(() => focused(page)).toBe('Mark as read');
    await page.press('End', 'Enter'); // deletes it
    await expect.poll(() => titles(page)).toEqual(['c']);
    await expect.poll(() => focused(page)).toBe('c');
    await page.press('Escape');
    await expect.poll(() => focused(page)).toBe('Notifications');
    expect(await isOpen()).toBe(false);
    await close(page);
  });

  test('is laid out from right to left, and nothing is cut off', async () => {
    await send('rtl', 'One');
    const page = await open('rtl', { mode: 'embedded', locale: 'ar' });
    await expect.poll(() => titles(page)).toEqual(['One']);
    const { dir, heading, cut, order } = await inShadow<Record<string, unknown>>(
      page,
      `({
        dir: getComputedStyle(root.querySelector('.root')).direction,
        heading: root.querySelector('h2').textContent,
        cut: [...root.querySelectorAll('[role=tablist], .tab, .header')]
          .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className),
        order: [...root.querySelectorAll('.tab')].map((one) => one.getBoundingClientRect().left)
          .every((left, at, all) => at === 0 || left < all[at - 1]),
      })`,
    );
    expect({ dir, heading, cut, order }).toEqual({ dir: 'rtl', heading: 'الإشعارات', cut: [], order: true });
    await close(page);
  });

  test('hostile content runs nothing, and leaves only what is allowed', async () => {
    await sendPayloads((body) => service.project.call('POST', '/broadcasts', body));
    // Without a policy of the page, only the inbox protects it.
    const page = await open('ada', { mode: 'page', pageSize: 100 }, { policy: "object-src 'self'" });
    await expect.poll(() => page.call(scrollOn, undefined)).toBe(XSS_PAYLOADS.length);
    expectHarmless(await page.call(useContent, undefined), site.url);
    await page.close();
  });
});

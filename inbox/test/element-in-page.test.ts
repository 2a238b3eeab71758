import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { startProxy } from '../../server/test/support/proxy.ts';
import { processed, startTestService, type TestService } from '../../server/test/support/service.ts';
import type { BelfryInbox } from '../src/element/belfry-inbox.ts';
import { type ElementPages, startElementPages, titles } from './support/element-pages.ts';
import { isConnected } from './support/inbox-page.ts';

// What a page does with `<belfry-inbox>`: it hides and zooms it, follows its links, and changes its user.

describeInChromium('belfry-inbox in a page', () => {
  let pages: ElementPages;
  let service: TestService;
  let browser: Browser;
  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), openChromium()]);
    pages = await startElementPages({ service, browser, processed });
  });
  afterAll(() => Promise.all([service?.stop(), browser?.close(), pages?.site.close()]));

  const boxOf = async (page: Page, selector: string) => {
    const box = await page.locator(selector).first().boundingBox();
    if (box === null) throw new Error(`${selector} is not visible`);
    const { x: left, y: top, width, height } = box;
    return { left, top, right: left + width, bottom: top + height };
  };

  test.each([
    ['body { zoom: 1.5 }', 1.5],
    ['html { zoom: 0.75 }', 0.75],
  ])(
    'the popover and the menu are at their buttons, zoomed, and in the window of a page with %s',
    async (style, zoom) => {
      const user = pages.newUser();
      await pages.send(user, { title: 'One' });
      const place = 'belfry-inbox { position: absolute; left: 700px; top: 20px }';
      const viewport = { width: 1280, height: 900 };
      const page = await pages.open(user, {}, { viewport, style: `${style} ${place}` });
      await page.locator('.bell').click();
      await page.locator('.item').hover();
      await page.locator('.menu-button').click();
      await page.locator('.menu').waitFor();
      for (const [anchor, popover] of [
        ['.bell', '.panel'],
        ['.menu-button', '.menu'],
      ] as const) {
        const [at, box] = [await boxOf(page, anchor), await boxOf(page, popover)];
        expect(box.right).toBeCloseTo(at.right, 0);
        expect(box.top).toBeGreaterThanOrEqual(at.bottom - 1);
        expect(box.bottom).toBeLessThanOrEqual(900);
      }
      const { left, right } = await boxOf(page, '.panel');
      expect(right - left).toBeCloseTo(420 * zoom, 0);
      const [title, bell] = [await boxOf(page, '.primary'), await boxOf(page, '.bell')];
      expect(title.bottom - title.top).toBeCloseTo(24 * zoom, 0);
      expect(bell.bottom - bell.top).toBeCloseTo(40 * zoom, 0);
    },
  );

  test.each([
    [400, 0],
    [500, 8],
  ])('a zoomed popover fits a window of %i pixels', async (width, margin) => {
    const height = 700;
    const style = 'html { zoom: 1.5 }';
    const page = await pages.open(pages.newUser(), {}, { viewport: { width, height }, style });
    await page.locator('.bell').click();
    const box = await boxOf(page, '.panel');
    expect(box.left).toBeGreaterThanOrEqual(margin);
    expect(box.right).toBeLessThanOrEqual(width - margin);
    expect(box.right - box.left).toBeGreaterThan(width - 30);
    expect(box.bottom).toBeLessThanOrEqual(height);
  });

  test.each(['popover', 'embedded'] as const)('an inline style hides it as %s', async (mode) => {
    const page = await pages.open(pages.newUser(), { mode });
    const shown = page.locator(mode === 'popover' ? '.bell' : '.panel');
    for (const priority of ['', 'important']) {
      await page.locator('belfry-inbox').evaluate((element: HTMLElement, value) => {
        element.style.setProperty('display', 'none', value);
      }, priority);
      expect(await shown.isVisible()).toBe(false);
      await page.locator('belfry-inbox').evaluate((element: HTMLElement) => {
        element.style.display = '';
      });
      expect(await shown.isVisible()).toBe(true);
    }
  });

  test('what arrives in a hidden part of the page is seen when that is shown', async () => {
    const user = pages.newUser();
    const page = await pages.open(user, { mode: 'embedded' });
    const show = (display: string) =>
      page.evaluate((value) => {
        document.body.style.display = value;
      }, display);
    const unseen = () =>
      page.evaluate(() => {
        const { inbox } = document.querySelector('belfry-inbox') as BelfryInbox;
        return inbox?.getSnapshot().counts.unseen;
      });
    const stored = async () =>
      (await service.project.as(user)('GET', '/notifications/unseen/count')).body.count as number;
    await page.locator('.empty').waitFor();
    await show('none');
    await pages.send(user, { title: 'One' }, { title: 'Two' });
    await expect.poll(() => titles(page)).toEqual(['Two', 'One']);
    expect([await unseen(), await stored()]).toEqual([2, 2]);
    await show('');
    await expect.poll(stored).toBe(0);
    expect(await unseen()).toBe(0);
  });

  test('Home goes to the newest notification, also if its page was released', async () => {
    const user = pages.newUser();
    const content = 'Text that takes several lines. '.repeat(9);
    for (let sent = 0; sent < 40; sent += 10)
      await pages.send(user, ...Array.from({ length: 10 }, (_, at) => ({ title: `${sent + at}`, content })));
    const page = await pages.open(user, { mode: 'page', pageSize: 5 } as object);
    const last = page.locator('.primary', { hasText: /^0$/ });
    await expect
      .poll(async () => {
        await page.locator('.scroller').evaluate((scroller) => scroller.scrollTo(0, scroller.scrollHeight));
        return last.count();
      })
      .toBe(1);
    await expect.poll(() => page.locator('.block').first().getAttribute('class')).toContain('released');
    await last.focus();
    await page.keyboard.press('Home');
    const newest = page.locator('.primary', { hasText: /^39$/ });
    await expect.poll(() => newest.evaluate((one) => one.matches(':focus')).catch(() => false)).toBe(true);
    expect(await page.locator('.scroller').evaluate(({ scrollTop }) => scrollTop)).toBe(0);
  });

  test('a link to a place in the page closes the popover that covers it', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Order', action_url: '#/orders/1' });
    const page = await pages.open(user, {}, { viewport: { width: 390, height: 700 } });
    await page.locator('.bell').click();
    await page.locator('.tools').waitFor();
    await page.getByText('Order', { exact: true }).click();
    await page.locator('.panel').waitFor({ state: 'hidden' });
    expect(page.url()).toBe(`${pages.site.url}/#/orders/1`);
  });

  test('the filter has the categories of now, also if there are as many as before', async () => {
    const { project } = service;
    const save = (key: string) =>
      project.call('PUT', '/channels', { key, channels: [{ channel: 'in_app' }] });
    for (const key of ['alpha', 'beta']) await save(key);
    const page = await pages.open(pages.newUser(), { mode: 'page' });
    const options = () => page.locator('.filter option').allTextContents();
    await expect.poll(options).toContain('beta');
    const before = await options();
    expect((await project.call('DELETE', '/channels/beta')).status).toBe(204);
    await save('gamma');
    await page.evaluate(() =>
      (document.querySelector('belfry-inbox') as BelfryInbox).inbox?.loadPreferences(),
    );
    const expected = before.map((one) => (one === 'beta' ? 'gamma' : one));
    await expect.poll(options).toEqual(expect.arrayContaining(expected));
  });

  test('a failure to mark what is shown as seen needs no message', async () => {
    const user = pages.newUser();
    await pages.send(user, { title: 'One' });
    const proxy = await startProxy(service.address);
    let rejected = 0;
    proxy.decide = ({ url = '' }) => {
      if (!url.includes('/notifications/seen')) return 'pass';
      rejected += 1;
      return { status: 400, body: '{}' };
    };
    const page = await pages.site.open(browser);
    const baseUrl = `${proxy.url}/v2`;
    const inbox = await page.evaluateHandle(
      ({ token, url }) =>
        (globalThis as unknown as { createInbox: (options: object) => object }).createInbox({
          baseUrl: url,
          token,
          transports: ['sse'],
        }),
      { token: pages.propertiesOf(user).token as string, url: baseUrl },
    );
    await page.evaluate((store) => {
      const element = document.createElement('belfry-inbox');
      document.body.append(Object.assign(element, { mode: 'page', inbox: store }));
    }, inbox);
    await page.waitForFunction(isConnected, undefined);
    await page.locator('.tools').first().waitFor({ state: 'attached' });
    await expect.poll(() => rejected).toBeGreaterThan(0);
    await expect
      .poll(() =>
        page.evaluate(
          (store) => (store as never as BelfryInbox['inbox'])?.getSnapshot().counts.unseen,
          inbox,
        ),
      )
      .toBe(1);
    expect(await page.locator('.banner').isHidden()).toBe(true);
    await page.close();
    await proxy.close();
  });
});

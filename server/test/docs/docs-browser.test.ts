import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type Look, pagesFor } from '../../../inbox/test/support/shared-context.ts';
import { axeViolations, describeInChromium, openChromium } from '../support/browser.ts';
import { startTestService, type TestService } from '../support/service.ts';

describeInChromium('the documentation in a browser', () => {
  let service: TestService;
  let browser: Browser;
  let openShared: ReturnType<typeof pagesFor> | undefined;
  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), openChromium()]);
    await service.request('GET', '/docs'); // resolves when it is built
  });
  afterAll(async () => {
    await Promise.all([service?.stop(), browser?.close()]);
  });

  /** Opens a page, which should have no errors, no violations of its policy and no foreign requests. */
  async function open(path: string, look: Look = {}) {
    openShared ??= pagesFor(browser, `${service.address}/docs`);
    const page = await openShared(look);
    const problems: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (origin !== service.address && protocol !== 'data:') problems.push(request.url());
    });
    await page.goto(`${service.address}${path}`);
    const expectNoProblems = () => expect(problems).toEqual([]);
    return { page, expectNoProblems };
  }

  const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name });

  test('the search of the guides works by keyboard alone', async () => {
    const { page, expectNoProblems } = await open('/docs/guides/first-steps/');
    await page.keyboard.press('/');
    await page.keyboard.type('retry');
    const options = page.getByRole('option');
    await options.filter({ hasText: 'When does Belfry retry?' }).waitFor();
    expect(await options.first().getAttribute('aria-selected')).toBe('true');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    const second = options.nth(1);
    expect(await second.getAttribute('aria-selected')).toBe('true');
    expect(await page.getByRole('combobox').getAttribute('aria-activedescendant')).toBe('found-1');
    const href = await second.getAttribute('href');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**${href}`);
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.type('nothing at all matches zzzz');
    await page.getByText('No results for').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expectNoProblems();
  });

  test('the search finds operations, and opens them in the API reference', async () => {
    const { page, expectNoProblems } = await open('/docs/guides/first-steps/');
    await page.keyboard.press('/');
    await page.keyboard.type('cancel a broadcast');
    await page.getByRole('option').filter({ hasText: 'POST /broadcasts/{broadcast_id}/cancel' }).click();
    await heading(page, 'Cancel a broadcast').waitFor();
    expectNoProblems();
  });

  test('the start page finds guides, and forwards former links into the API reference', async () => {
    const { page, expectNoProblems } = await open('/docs');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('nginx');
    await page.getByRole('option').first().click();
    await page.waitForURL('**/docs/guides/**');
    await page.goto(`${service.address}/docs#tag/webhooks/PUT/webhooks`);
    await page.waitForURL('**/docs/api/#tag/webhooks/PUT/webhooks');
    await heading(page, 'Create or change a webhook').waitFor();
    expectNoProblems();
  });

  test('the API reference opens at a link, with samples in languages and a search by keyboard', async () => {
    const { page, expectNoProblems } = await open('/docs/api#tag/webhooks/PUT/webhooks');
    await heading(page, 'Create or change a webhook').waitFor();
    for (const [language, sample] of [
      ['JavaScript', "fetch('http"],
      ['Python', 'requests.put('],
      ['Shell', '--request PUT'],
    ] as const) {
      await page.getByRole('tab', { name: language, exact: true }).click();
      await page.locator('pre').filter({ hasText: sample }).first().waitFor();
    }
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('combobox').fill('lift a suppression');
    await page.getByRole('option').filter({ hasText: 'Lift a suppression' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(/suppression/i);
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expectNoProblems();
  });

  test('the theme follows the system, and a choice holds for all pages', async () => {
    const { page, expectNoProblems } = await open('/docs/concepts/', { media: { colorScheme: 'dark' } });
    onTestFinished(() => page.evaluate<void>('localStorage.clear()')); // where the choice is stored
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    expect(await background()).toBe('rgb(20, 23, 28)');
    await page.locator('pre.mermaid svg').first().waitFor();
    await page.getByRole('button', { name: 'Dark mode', pressed: true }).click();
    expect(await background()).toBe('rgb(255, 255, 255)');
    await page.getByRole('link', { name: 'API reference' }).click();
    await heading(page, 'Belfry').waitFor();
    expect(await background()).toBe('rgb(255, 255, 255)');
    await page.getByRole('button', { name: 'Dark mode', pressed: false }).click();
    await expect.poll(background).toBe('rgb(20, 23, 28)');
    expectNoProblems();
  });

  test('a telephone shows the guides in a menu, and nothing is wider than its screen', async () => {
    const viewport = { width: 360, height: 740 };
    const { page, expectNoProblems } = await open('/docs/authentication/', { viewport });
    const width = () => page.evaluate<number>('document.documentElement.scrollWidth');
    expect(await width()).toBe(viewport.width);
    expect(await axeViolations(page)).toEqual([]);
    const guides = page.getByRole('navigation', { name: 'Guides' });
    await guides.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Menu' }).click();
    await guides.getByRole('link', { name: 'Concepts' }).click();
    await heading(page, 'Concepts').waitFor();
    await guides.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Search' }).click();
    await page.keyboard.type('snooze');
    await page.getByRole('option').filter({ hasText: '/snooze' }).first().waitFor();
    const widths = `(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])`;
    const [whole, shown] = await page.evaluate<number[]>(`${widths}(document.querySelector('dialog'))`);
    expect(whole).toBe(shown);
    expectNoProblems();
  });

  test('a printed guide has whole lines of code', async () => {
    const { page, expectNoProblems } = await open('/docs/authentication/', {
      viewport: { width: 700, height: 900 },
    });
    await page.emulateMedia({ media: 'print' });
    const cut = `[...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth)`;
    expect(await page.evaluate(`${cut}.length`)).toBe(0);
    expectNoProblems();
  });

  for (const [path, name] of [
    ['/', 'Belfry'],
    ['/docs', 'Documentation'],
    ['/docs/api', 'Belfry'],
    ['/docs/guides/channels/', 'Choose where and when messages go out'],
    ['/docs/concepts/', 'Concepts'],
  ] as const)
    test(`${path} is accessible in light and dark mode`, async () => {
      const { page, expectNoProblems } = await open(path, {
        media: { colorScheme: 'light', reducedMotion: 'reduce' },
      });
      await heading(page, name).waitFor();
      expect(await axeViolations(page)).toEqual([]);
      await page.emulateMedia({ colorScheme: 'dark' });
      // The reference of the API follows by a script, a moment later.
      await expect.poll(() => axeViolations(page)).toEqual([]);
      expectNoProblems();
    });
});

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { axeViolations, describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { processed, startTestService, type TestService, until } from '../../server/test/support/service.ts';
import type { BelfryInbox } from '../src/element/belfry-inbox.ts';
import { type ElementPages, startElementPages } from './support/element-pages.ts';
import type { PageOptions } from './support/inbox-page.ts';

// What axe-core finds in each state of `<belfry-inbox>`, in each mode and look.

const MODES = ['popover', 'page', 'embedded'] as const;
// Colors are compared while nothing moves.
const STILL = { reducedMotion: 'reduce' } as const;
type Look = [name: string, properties: Partial<BelfryInbox>, options: PageOptions];
const LOOKS: Look[] = [
  ['light', {}, { media: { ...STILL, colorScheme: 'light' } }],
  ['dark', { colorScheme: 'dark' }, { media: { ...STILL, colorScheme: 'dark' } }],
  ['right-to-left', { locale: 'ar' }, { media: STILL }],
  ['phone', {}, { context: { ...STILL, viewport: { width: 390, height: 780 }, hasTouch: true } }],
];
const ACTIONS = [
  { label: 'Pay', url: 'https://pay.example/', primary: true },
  { label: 'View', url: 'https://pay.example/1' },
];

describeInChromium('belfry-inbox is accessible', () => {
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

  // On a phone, the modes are the same.
  const all = MODES.flatMap((mode) => LOOKS.map((look) => [mode, ...look] as const));
  test.each(all.filter(([mode, name]) => mode === 'popover' || name !== 'phone'))(
    '%s, %s',
    async (mode, name, properties, options) => {
      const user = pages.newUser();
      const isPhone = name === 'phone';
      await pages.send(
        user,
        { title: 'Old', category: 'security', topic: 'a' },
        {
          title: 'Invoice',
          content: 'Of <b>today</b>, <a href="https://pay.example">see</a>',
          category: 'orders',
        },
        { title: 'Pay it', custom_attributes: { actions: ACTIONS }, action_url: 'https://pay.example/2' },
      );
      const page = await pages.open(user, { ...properties, mode }, options);
      const openPanel = () => (mode === 'popover' ? page.locator('.bell').click() : Promise.resolve());
      const problems: Record<string, string[]> = {};
      /** Checks a state, which begins when an element appears. */
      const check = async (state: string, selector: string) => {
        await page.locator(selector).first().waitFor();
        const found = await axeViolations(page);
        if (found.length > 0) problems[state] = found;
      };

      await openPanel();
      await page.locator('.primary').nth(2).waitFor();
      await check('list', '.filter');
      expect(await page.locator('.root').getAttribute('dir')).toBe(properties.locale ? 'rtl' : 'ltr');

      const openMenu = async () => {
        if (!isPhone) await page.locator('.item').last().hover();
        await page.locator('.item').last().locator('.menu-button').click();
      };
      await openMenu();
      await check('menu', '.menu button');
      await page.locator('.menu button:has(.icon-clock)').click();
      await check('times to snooze', '.menu small');
      await page.locator('.menu button:has(.icon-settings)').click();
      await check('time to snooze', '.menu form');
      await page.keyboard.press('Escape');
      await page.locator('.menu').waitFor({ state: 'hidden' });
      expect(await page.locator('.menu-button:focus').count()).toBe(1);

      await page.context().setOffline(true);
      await check('offline', '.banner:not([hidden])');
      await page.context().setOffline(false);
      await page.locator('.banner').waitFor({ state: 'hidden' });
      await page.locator('.bar [aria-label]:has(.icon-archive)').click();
      await check('confirmation', '.banner button');
      await page.locator('.banner button').last().click();
      await page.route('**/archive', (route) =>
        route.fulfill({ status: 400, headers: { 'access-control-allow-origin': '*' } }),
      );
      await openMenu();
      await page.locator('.menu button:has(.icon-archive)').click();
      await check('failure', '.banner button');
      await page.locator('.banner button').click();

      await openMenu();
      await page.locator('.menu button:has(.icon-clock)').click();
      await page.locator('.menu button:has(.icon-clock)').first().click();
      await page.locator('.tab').nth(2).click();
      await check('snoozed', '.item.snoozed');
      await page.locator('.tab').last().click();
      await check('empty', '.empty');

      await page.locator('.footer button').click();
      await page.getByRole('switch').first().waitFor();
      await page.getByRole('switch').last().click();
      await check('preferences', 'input[type=time]');
      // A request that is cut off would be reported.
      await until(
        async () => (await service.project.as(user)('GET', '/channels/user_preferences')).body,
        ({ quiet_hours: hours }) => hours !== null,
      );
      expect(problems).toEqual({});
    },
  );

  test.each([
    ['reduce', []],
    ['no-preference', ['arrive', 'open']],
  ] as const)('what moves if the user has chosen: %s', async (reducedMotion, expected) => {
    const user = pages.newUser();
    await pages.send(user, { title: 'Old' });
    const page = await pages.open(user, {}, { media: { reducedMotion } });
    await page.evaluate(() => {
      const moved = new Set<string>();
      Object.assign(globalThis, { moved });
      const root = document.querySelector('belfry-inbox')?.shadowRoot;
      root?.addEventListener('animationstart', (event) => moved.add((event as AnimationEvent).animationName));
      root?.addEventListener('transitionrun', (event) => moved.add((event as TransitionEvent).propertyName));
    });
    await page.locator('.bell').click();
    await page.locator('.primary').waitFor();
    await pages.send(user, { title: 'New' });
    await page.locator('.item.unread').nth(1).waitFor(); // it is replaced when it is seen
    await page.locator('.footer button').click();
    await page.getByRole('switch').last().click();
    await page.locator('input[type=time]').first().waitFor();
    const moved = () =>
      page.evaluate(
        () =>
          new Promise<string[]>((resolve) => {
            const { moved } = globalThis as unknown as { moved: Set<string> };
            moved.delete('pulse'); // only while a list loads for longer
            // The events of a change are in the frame after it.
            requestAnimationFrame(() => requestAnimationFrame(() => resolve([...moved].sort())));
          }),
      );
    expect(await moved()).toEqual(expected);
  });

  test('switches show their state in forced colors', async () => {
    const page = await pages.open(pages.newUser(), { mode: 'page' }, { media: { forcedColors: 'active' } });
    await page.locator('.footer button').click();
    const quiet = page.getByRole('switch').last();
    const off = await quiet.screenshot();
    await quiet.click();
    await page.locator('input[type=time]').first().waitFor();
    const on = await quiet.screenshot();
    expect(off.equals(on)).toBe(false);
  });

  /** The name of what has the focus, in all shadow trees. */
  const focused = (page: Page) =>
    page.evaluate(() => {
      let active = document.activeElement;
      while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
      return active?.getAttribute('aria-label') || active?.getAttribute('role') || active?.textContent;
    });

  test('a popover that fills the window closes when the focus leaves it', async () => {
    const page = await pages.open(pages.newUser(), {}, { viewport: { width: 320, height: 256 } });
    await page.evaluate(() => document.body.append(document.createElement('button')));
    await page.locator('.bell').press('Enter');
    await page.locator('.empty').waitFor();
    const after = page.locator('body > button');
    await page.locator('.footer button').press('Tab');
    await page.locator('.panel').waitFor({ state: 'hidden' });
    expect(await after.evaluate((button) => button.matches(':focus'))).toBe(true);
    await page.locator('.bell').press('Enter');
    await page.locator('.panel').press('Shift+Tab');
    await page.locator('.panel').waitFor({ state: 'hidden' });
    expect(await focused(page)).toBe('Notifications');
  });

  test('the focus stays in the inbox when a topic is selected, and when all are shown', async () => {
    const user = pages.newUser();
    await pages.send(user, { topic: 'trips' });
    const page = await pages.open(user, { mode: 'page' });
    await page.locator('.menu-button').press('Enter');
    await page.getByRole('menuitem', { name: 'Only this topic' }).press('Enter');
    await page.locator('.chip').waitFor();
    expect(await focused(page)).toBe('tabpanel');
    await page.locator('.chip button').press('Enter');
    await page.locator('.chip').waitFor({ state: 'hidden' });
    expect(await focused(page)).toBe('tabpanel');
  });

  test('the focus returns to the bell, also in the shadow tree of an app', async () => {
    const page = await pages.open(pages.newUser());
    await page.evaluate(() => {
      const app = document.createElement('div');
      document.body.append(app);
      app.attachShadow({ mode: 'open' }).append(document.querySelector('belfry-inbox') as Element);
    });
    await page.locator('.bell').press('Enter');
    await page.locator('.tab').first().focus();
    await page.keyboard.press('Escape');
    await page.locator('.panel').waitFor({ state: 'hidden' });
    await expect.poll(() => focused(page)).toBe('Notifications');
  });
});

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { axeViolations, describeInChromium, openChromium } from '../support/browser.ts';
import { startTestService, type TestService } from '../support/service.ts';

// The pages that Belfry serves without a framework are accessible, and load nothing from other hosts.

describeInChromium('own pages', () => {
  let service: TestService;
  let browser: Browser;
  beforeAll(async () => {
    [service, browser] = await Promise.all([startTestService(), openChromium()]);
  });
  afterAll(async () => {
    await Promise.all([service?.stop(), browser?.close()]);
  });

  for (const colorScheme of ['light', 'dark'] as const)
    for (const [path, heading] of [
      ['/push/subscribe', 'Turn on notifications'],
      ['/unsubscribe/forged', 'This link does not work'],
      ['/nothing', 'Page not found'],
    ] as const)
      test(`${path} is accessible in ${colorScheme} mode`, async () => {
        const context = await browser.newContext({ colorScheme });
        const page = await context.newPage();
        const requested: string[] = [];
        page.on('request', (request) => requested.push(new URL(request.url()).origin));
        await page.goto(`${service.address}${path}`);
        expect(await page.getByRole('heading').first().textContent()).toContain(heading);
        expect(await axeViolations(page)).toEqual([]);
        expect(new Set(requested)).toEqual(new Set([service.address]));
        await context.close();
      });
});

import type { Browser, BrowserContext, BrowserContextOptions, Page, ViewportSize } from 'playwright-core';
import { onTestFinished } from 'vitest';

/** What a page can have without a context of its own. */
export interface Look {
  viewport?: ViewportSize;
  media?: Parameters<Page['emulateMedia']>[0];
}

/**
 * Returns a function that opens pages for a site, each until its test has finished. They are in one context,
 * so that they share a process, and what that has compiled: a page takes half of the CPU time of one in a
 * context of its own. A test that stores something in the browser, or changes its clock, needs such a one.
 */
export function pagesFor(browser: Browser, url: string, options: BrowserContextOptions = {}) {
  const openContext = async (): Promise<BrowserContext> => {
    const context = await browser.newContext(options);
    // Stays open: the process of a site ends with its last page.
    await (await context.newPage()).goto(url);
    return context;
  };
  let opened: Promise<BrowserContext> | undefined;
  return async ({ viewport, media }: Look = {}): Promise<Page> => {
    opened ??= openContext();
    const context = await opened;
    const page = await context.newPage();
    onTestFinished(async () => {
      await page.close();
      await context.setOffline(false); // which a test that fails has not done
    });
    if (viewport) await page.setViewportSize(viewport);
    if (media) await page.emulateMedia(media);
    return page;
  };
}

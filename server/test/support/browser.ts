import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type ViewportSize,
} from 'playwright-core';
import { describe, onTestFinished } from 'vitest';

// Debian's. `npm test` installs them when it runs as root. The shell is the same browser without windows: it
// takes a quarter of the CPU time for a page, and has no push messages.
const CHROMIUM = '/usr/bin/chromium';
const SHELL = '/usr/bin/chromium-headless-shell';

// Chromium has no sandbox as root. The rest keeps it from calling hosts of its vendor.
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Pages of one site in one context share a process. A page in a new one takes twice the CPU time.
  '--renderer-process-limit=1',
];

// Most pages live for a second: optimizing compilers cost more than they save.
const BRIEF = '--js-flags=--no-maglev,--no-opt,--min-semi-space-size=16';

/** `describe`, skipped where Chromium is missing. */
export const describeInChromium = describe.skipIf(!existsSync(CHROMIUM));

/**
 * Opens Chromium without windows, or the whole of it for push messages. `runsLong`: for pages that work for
 * many seconds, such as one that scrolls through a long list.
 */
export const openChromium = ({ whole = !existsSync(SHELL), runsLong = false } = {}): Promise<Browser> =>
  chromium.launch({
    executablePath: whole ? CHROMIUM : SHELL,
    args: runsLong ? FLAGS : [...FLAGS, BRIEF],
  });

/** What a page can have without a context of its own. */
export interface Look {
  viewport?: ViewportSize;
  media?: Parameters<Page['emulateMedia']>[0];
}

/**
 * Returns a function that opens pages for a site, each until its test has finished. They are in one context,
 * so that they share a process, and what that has compiled: a page takes half of the CPU time of one in a
 * context of its own. A test that stores something in the browser, or changes its clock, needs an own one.
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

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The violations of WCAG 2.2 AA that axe-core finds in a page, also in shadow trees. */
export async function axeViolations(page: Page): Promise<string[]> {
  // In a script of the test, a strict CSP of the page does not matter.
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(AXE);
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run({ runOnly: ${JSON.stringify(tags)} }).then(({ violations }) => ({ violations }))`,
  );
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

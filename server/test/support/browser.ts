import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { describe } from 'vitest';
import { PATIENCE_MS } from './patience.ts';

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
export async function openChromium({ whole = !existsSync(SHELL), runsLong = false } = {}): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: whole ? CHROMIUM : SHELL,
    args: runsLong ? FLAGS : [...FLAGS, BRIEF],
  });
  browser.on('context', (context) => context.setDefaultTimeout(PATIENCE_MS));
  return browser;
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

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { describe } from 'vitest';

// Debian's. `npm test` installs it when it runs as root.
const CHROMIUM = '/usr/bin/chromium';

// Chromium has no sandbox as root. The rest keeps it from calling hosts of its vendor.
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** `describe`, skipped where Chromium is missing. */
export const describeInChromium = describe.skipIf(!existsSync(CHROMIUM));

export const openChromium = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM, args: FLAGS });

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The violations of WCAG 2.2 AA that axe-core finds in a page, also in shadow trees. */
export async function axeViolations(page: Page): Promise<string[]> {
  // In a script of the test, a strict CSP of the page does not matter.
  await page.evaluate(AXE);
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run({ runOnly: ${JSON.stringify(tags)} }).then(({ violations }) => ({ violations }))`,
  );
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

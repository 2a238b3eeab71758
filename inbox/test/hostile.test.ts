import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { startTestService, type TestService } from '../../server/test/support/service.ts';
import { expectHarmless, scrollOn, sendPayloads, useContent, WATCH } from './support/hostile-content.ts';
import { addInbox, type Site, startSite } from './support/inbox-page.ts';
import { XSS_PAYLOADS } from './support/xss-payloads.ts';

// The content of a notification runs nothing, wherever it comes from.

describeInChromium('hostile content', () => {
  let service: TestService;
  let browser: Browser;
  let site: Site;
  beforeAll(async () => {
    [service, browser, site] = await Promise.all([startTestService(), openChromium(), startSite()]);
    await sendPayloads((body) => service.project.call('POST', '/broadcasts', body));
  });
  afterAll(async () => {
    await Promise.all([service?.stop(), browser?.close(), site?.close()]);
  });

  for (const [label, script] of [
    ["the browser's sanitizer", ''],
    ['a browser without one', 'delete Document.parseHTML;'],
  ] as const)
    test(`runs nothing and leaves only what is allowed: ${label}`, async () => {
      const context = await browser.newContext({ viewport: { width: 800, height: 4_000 } });
      await context.addInitScript(`${script} ${WATCH}`);
      // Without a policy of the page, only the inbox protects it.
      const page = await site.open(context, { policy: "object-src 'self'" });
      await addInbox(page, {
        baseUrl: `${service.address}/v2`,
        token: service.project.userJwt({ user_external_id: 'ada' }),
        mode: 'page',
        pageSize: 100, // all on a page that is never released
      });
      await expect.poll(() => page.evaluate(scrollOn)).toBe(XSS_PAYLOADS.length);
      expectHarmless(await page.evaluate(useContent), site.url);
      await context.close();
    });
});

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { startTestService, type TestService } from '../../server/test/support/service.ts';
import { addInbox, type Site, startSite } from './support/inbox-page.ts';
import { XSS_PAYLOADS } from './support/xss-payloads.ts';

// The content of a notification runs nothing, wherever it comes from.

describeInChromium('hostile content', () => {
  let service: TestService;
  let browser: Browser;
  let site: Site;
  beforeAll(async () => {
    [service, browser, site] = await Promise.all([startTestService(), openChromium(), startSite()]);
    for (const payload of XSS_PAYLOADS) {
      const recipients = [{ external_id: 'ada' }];
      const body = {
        title: payload.slice(0, 200),
        content: payload,
        recipients,
        custom_attributes: { actions: [{ label: payload.slice(0, 100), url: 'javascript:alert(1)' }] },
      };
      expect((await service.project.call('POST', '/broadcasts', body)).status).toBe(201);
    }
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
      await context.addInitScript(`${script} globalThis.ran = []; globalThis.alert = (x) => ran.push(x);`);
      // Without a policy of the page, only the inbox protects it.
      const page = await site.open(context, { policy: "object-src 'self'" });
      await addInbox(page, {
        baseUrl: `${service.address}/v2`,
        token: service.project.userJwt({ user_external_id: 'ada' }),
        mode: 'page',
        pageSize: 100, // all on a page that is never released
      });
      const shown = page.locator('.item');
      await expect
        .poll(async () => {
          await page.locator('.scroller').evaluate((one) => one.scrollTo(0, one.scrollHeight));
          return shown.count();
        })
        .toBe(XSS_PAYLOADS.length);
      const found = await page.evaluate(() => {
        const root = document.querySelector('belfry-inbox')?.shadowRoot;
        const inContent = [...(root?.querySelectorAll<HTMLElement>('.content *') ?? [])];
        for (const one of inContent) {
          one.dispatchEvent(new Event('focus'));
          one.dispatchEvent(new Event('mouseover'));
          if (!one.matches('a[href^=http]')) one.click();
        }
        return {
          names: [...new Set(inContent.map(({ localName }) => localName))],
          attributes: [...new Set(inContent.flatMap((one) => one.getAttributeNames()))],
          protocols: [
            ...new Set(
              [...(root?.querySelectorAll<HTMLAnchorElement>('a[href]') ?? [])].map((a) => a.protocol),
            ),
          ],
          rels: [
            ...new Set([...(root?.querySelectorAll<HTMLAnchorElement>('a[href]') ?? [])].map((a) => a.rel)),
          ],
          ran: (globalThis as unknown as { ran: unknown[] }).ran,
        };
      });
      expect(found.ran).toEqual([]);
      expect(found.protocols).toEqual(['http:']);
      expect(found.rels).toEqual(['noopener noreferrer']);
      const allowed = ['a', 'b', 'div', 'img', 'p', 'table', 'tbody', 'td', 'th', 'tr'];
      expect(found.names.filter((name) => !allowed.includes(name))).toEqual([]);
      const attributes = ['alt', 'href', 'loading', 'referrerpolicy', 'rel', 'src', 'target', 'title'];
      expect(found.attributes.filter((name) => !attributes.includes(name))).toEqual([]);
      expect(page.url()).toBe(`${site.url}/`);
      await context.close();
    });
});

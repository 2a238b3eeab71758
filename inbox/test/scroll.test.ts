import { randomUUID } from 'node:crypto';
import type { Browser, Request } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../server/src/db/client.ts';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { unlessThorough } from '../../server/test/support/rounds.ts';
import { startTestService, type TestService, until } from '../../server/test/support/service.ts';
import type { BelfryInbox } from '../src/element/belfry-inbox.ts';
import { addInbox, type Site, startSite } from './support/inbox-page.ts';

// An inbox of 100,000 notifications shows a window of them: scrolling keeps the number of items and of loaded
// notifications constant, and no element has many children.

const MANY = 100_000;
const SCROLLED = unlessThorough(1_400, 3_000); // more than twice what stays loaded, and 70 pages
const TIMEOUT_MS = 300_000; // on a machine with ten busy processes

const copy = sql(
  '',
  `insert into notifications (user_id, id, broadcast_id, sent_at)
  select n.user_id, ('01900000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, n.broadcast_id,
    now() - i * interval '1 minute'
  from notifications n, users u, generate_series(1, $1::int) i
  where u.external_id = $2 and n.user_id = u.id`,
);

describeInChromium('a long inbox', () => {
  let service: TestService;
  let browser: Browser;
  let site: Site;
  beforeAll(async () => {
    [service, browser, site] = await Promise.all([
      startTestService(),
      openChromium({ runsLong: true }),
      startSite(),
    ]);
  });
  afterAll(async () => {
    await Promise.all([service?.stop(), browser?.close(), site?.close()]);
  });

  test(
    'scrolls with a constant number of elements, down and up',
    async () => {
      const { project } = service;
      const user = randomUUID(); // of each attempt
      const content = '<p>A text of <b>several</b> lines. '.repeat(4);
      const body = { title: 'One of many', content, recipients: [{ external_id: user }] };
      await project.call('POST', '/broadcasts', body);
      const list = () => project.as(user)('GET', '/notifications');
      await until(list, (response) => response.body.data.length === 1);
      await service.context.db.query(copy, [MANY, user]);
      const page = await site.open(browser, { context: {} });
      let requests = 0;
      // On a slow machine, a stream by HTTP takes the place of the WebSocket. It stays open.
      const count = (by: number) => (request: Request) => {
        if (!request.url().includes('/notifications/stream')) requests += by;
      };
      page.on('request', count(1)).on('requestfinished', count(-1)).on('requestfailed', count(-1));
      await addInbox(page, {
        baseUrl: `${service.address}/v2`,
        token: project.userJwt({ user_external_id: user }),
        mode: 'page',
      });
      await page.locator('.item').first().waitFor();
      const result = await page.evaluate(async (wanted) => {
        const element = document.querySelector('belfry-inbox') as BelfryInbox;
        const scroller = element.shadowRoot?.querySelector('.scroller') as HTMLElement;
        const snapshot = () => element.inbox?.list().getSnapshot();
        const size = () => snapshot()?.pages.reduce((sum, page) => sum + page.size, 0) ?? 0;
        const most = { items: 0, loaded: 0 };
        const frames: number[] = [];
        const next = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
        const scroll = async (px: number, until: () => boolean) => {
          let last = await next();
          while (!until()) {
            scroller.scrollTop += px;
            const now = await next();
            frames.push(now - last);
            last = now;
            most.items = Math.max(most.items, scroller.querySelectorAll('.item').length);
            most.loaded = Math.max(most.loaded, snapshot()?.notifications.length ?? 0);
          }
        };
        await scroll(600, () => size() >= wanted);
        await scroll(-1_200, () => scroller.scrollTop === 0);
        const children = [...scroller.querySelectorAll('*')].map((one) => one.childElementCount);
        return { most, children: Math.max(...children), size: size(), frames: frames.sort((a, b) => a - b) };
      }, SCROLLED);
      expect(result.size).toBeGreaterThanOrEqual(SCROLLED);
      expect(result.most.items).toBeLessThanOrEqual(400);
      expect(result.most.loaded).toBeLessThanOrEqual(600);
      expect(result.children).toBeLessThanOrEqual(64);
      // What was released is shown once more, also after a jump to the middle.
      await expect.poll(() => page.locator('.item').count()).toBeGreaterThan(10);
      const visible = () =>
        page.evaluate(() => {
          const root = document.querySelector('belfry-inbox')?.shadowRoot as ShadowRoot;
          const at = (y: number) => root.elementFromPoint(innerWidth / 2, y)?.closest('.item');
          // The middle may lie between two items, or on the title of a day.
          return [0, 10, 50].some((below) => at(innerHeight / 2 + below) != null);
        });
      for (const share of [0.5, 0.9, 0.2]) {
        await page.evaluate((of) => {
          const root = document.querySelector('belfry-inbox')?.shadowRoot as ShadowRoot;
          const scroller = root.querySelector('.scroller') as HTMLElement;
          scroller.scrollTop = of * scroller.scrollHeight;
        }, share);
        await expect.poll(visible).toBe(true);
      }
      // An app hides the inbox for a while, such as behind a tab. What was requested before has arrived.
      const openRequests = async () => {
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
        return requests;
      };
      await expect.poll(openRequests).toBe(0);
      const loaded = await page.evaluate(async () => {
        const element = document.querySelector('belfry-inbox') as BelfryInbox;
        const frames = async (many: number) => {
          for (let i = 0; i < many; i += 1) await new Promise((resolve) => requestAnimationFrame(resolve));
        };
        const loaded = () => element.inbox?.list().getSnapshot().notifications.length;
        const before = loaded();
        document.body.style.display = 'none';
        await frames(5);
        const whileHidden = loaded();
        document.body.style.display = '';
        await frames(5);
        return { before, whileHidden };
      });
      expect(loaded.whileHidden).toBe(loaded.before);
      await expect.poll(visible).toBe(true);
    },
    TIMEOUT_MS,
  );
});

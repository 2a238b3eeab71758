import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { axeViolations, describeInChromium, openChromium } from '../support/browser.ts';
import { startTestService, type TestService } from '../support/service.ts';

const hasCurl = spawnSync('curl', ['--version']).error === undefined;

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

describe('the session of the demo', () => {
  const start = (headers: Record<string, string> = {}) =>
    service.request('POST', '/demo/session', { headers });

  test('has credentials of a project of its own, the same for each page', async () => {
    const { status, body, headers } = await start();
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect((await start()).body).toEqual(body);
    const token = { token: body.project_jwt };
    const sent = { title: 'Hello', recipients: [{ external_id: 'ada' }] };
    expect((await service.request('POST', '/v2/broadcasts', { ...token, body: sent })).status).toBe(201);
    expect((await service.project.call('GET', '/broadcasts')).body.data).toEqual([]);
    const [ada] = body.users;
    const inbox = () => service.request('GET', '/v2/notifications', { token: ada.user_jwt });
    await expect.poll(async () => (await inbox()).body.data).toMatchObject([{ title: 'Hello' }]);
  });

  test('is for its own page', async () => {
    const foreign = await start({ origin: 'https://evil.example' });
    expect([foreign.status, foreign.headers.get('access-control-allow-origin')]).toEqual([403, '*']);
    const own = await start({ origin: service.address });
    expect([own.status, own.headers.get('access-control-allow-origin')]).toEqual([200, null]);
    expect((await start({ origin: 'null' })).status).toBe(403);
  });

  test('is for addresses of this machine', async () => {
    for (const path of ['/demo', '/demo/session']) {
      const method = path === '/demo' ? 'GET' : 'POST';
      const sent = request(`${service.address}${path}`, {
        method,
        headers: { host: 'rebound.example' },
      }).end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      response.resume();
      expect([path, response.statusCode]).toEqual([path, 403]);
    }
  });
});

test.for([
  [{ HOST: '0.0.0.0' }, 404],
  [{ HOST: '0.0.0.0', DEMO: 'on' }, 200],
  [{ PUBLIC_URL: 'https://notify.example.com' }, 404],
  [{ DEMO: 'off' }, 404],
] as const)('with %o the status of /demo is %i', async ([settings, status]) => {
  const other = await startTestService({ settings: { ...settings } });
  expect((await other.request('GET', '/demo')).status).toBe(status);
  expect((await other.request('POST', '/demo/session')).status).toBe(status);
  await other.stop();
});

describeInChromium('the page', () => {
  let browser: Browser;
  let page: Page;
  const requested: string[] = [];
  const problems: string[] = [];
  beforeAll(async () => {
    browser = await openChromium();
    page = await browser.newPage({ viewport: { width: 1_600, height: 900 } });
    page.on('request', (request) => requested.push(new URL(request.url()).host));
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    await page.goto(`${service.address}/demo`);
  });
  afterAll(() => browser?.close());
  const configs = async () => {
    const { project_jwt: token } = (await service.request('POST', '/demo/session')).body;
    return (await service.request('GET', '/v2/channels', { token })).body.data;
  };
  const device = (name: string) => page.getByRole('region', { name });

  test('shows what is sent on all devices, and what is read on both of its user', async () => {
    await page.getByLabel('Title').fill('From the demo');
    const button = page.getByRole('button', { name: 'Send' });
    await button.press('Enter');
    for (const name of ["Ada's laptop", "Ada's phone", "Ben's phone"])
      await device(name).getByText('From the demo').first().waitFor();
    await expect.poll(() => page.getByRole('status').first().textContent()).toContain('Inbox sent: 2');
    expect(await page.getByRole('status').first().textContent()).toContain('“From the demo” was accepted');
    expect(await page.locator('button:focus').textContent()).toBe('Send');
    const unread = (name: string) =>
      device(name)
        .getByRole('tab', { name: /Unread/ })
        .textContent();
    await expect.poll(() => unread("Ada's phone")).toMatch(/\d/);
    await device("Ada's laptop").getByRole('button', { name: 'Mark all as read' }).click();
    await expect.poll(() => unread("Ada's phone")).not.toMatch(/\d/);
    expect(await unread("Ben's phone")).toMatch(/\d/);
  });

  test('sends content, a category and its channels, and shows the commands for it', async () => {
    await page.getByLabel('Title').fill(`It's "here"`);
    await page.getByLabel('Content').fill('With <b>content</b> & more');
    await page.locator('input[name=category]').fill('orders');
    await page.getByLabel('SMS').check();
    await page.getByRole('button', { name: 'Send' }).click();
    await expect.poll(() => page.getByRole('status').first().textContent()).toContain('Inbox sent: 2');
    const channels = ['in_app', 'sms'].map((channel) => ({ channel }));
    expect(await configs()).toMatchObject([{ key: 'orders', channels }]);

    await page.locator('input[name=category]').fill('');
    expect(await page.getByLabel('SMS').isVisible()).toBe(false);
    await page.getByText('every channel that is set up').waitFor();
  });

  test.runIf(hasCurl)('shows commands that send the same', async () => {
    await page.getByLabel('Title').fill(`By 'curl'`);
    await page.locator('input[name=category]').fill('news');
    await page.getByLabel('SMS').uncheck();
    const shown = page.getByRole('region', { name: 'Send a broadcast' }).locator('pre');
    await expect.poll(() => shown.textContent()).toMatch(/"key": "news"[\s\S]*"category": "news"/);
    await promisify(execFile)('sh', ['-ec', (await shown.textContent()) ?? '']);
    await device("Ben's phone").getByText(`By 'curl'`).first().waitFor();
    expect(await configs()).toMatchObject([
      { key: 'news', channels: [{ channel: 'in_app' }] },
      { key: 'orders' },
    ]);
  });

  test('loads nothing from elsewhere, reports no error, and is accessible', async () => {
    expect(await axeViolations(page)).toEqual([]);
    expect(problems).toEqual([]);
    expect(new Set(requested)).toEqual(new Set([new URL(service.address).host]));
  });
});

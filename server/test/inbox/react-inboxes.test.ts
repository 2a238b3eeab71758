import { createHmac } from 'node:crypto';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { startAppPage } from '../support/app-page.ts';
import { describeInChromium, openChromium } from '../support/browser.ts';
import { startTestService, type TestService } from '../support/service.ts';

// The published React inboxes work with Belfry, each in a page as an app has it.

let service: TestService;
let browser: Browser;
let page: Page;
let before: number; // WebSockets that were open before the page

beforeAll(async () => {
  service = await startTestService({ settings: { BRAND: 'magicbell', LEGACY_TIMESTAMPS: 'unix' } });
  await service.project.call('PUT', '/channels', {
    key: 'billing',
    channels: [{ channel: 'in_app' }, { channel: 'email' }],
  });
});
afterAll(() => service.stop());

/** Opens the program in a page. */
async function open(code: string, settings: object): Promise<void> {
  const app = await startAppPage(code, { settings });
  page.once('close', () => void app.stop());
  await page.goto(app.url);
}

const send = (user: string, title: string) =>
  service.project.call('POST', '/broadcasts', {
    title,
    category: 'billing',
    recipients: [{ external_id: user }],
  });

/** Each notification of the user with its status, as the server has it. */
const statusesOf = (user: string) => async () => {
  const { body } = await service.project.as(user)('GET', '/notifications');
  return body.data.map(({ title, status }: Record<string, string>) => `${title}: ${status}`);
};

async function idOf(user: string, wanted: string): Promise<string> {
  const { body } = await service.project.as(user)('GET', '/notifications');
  return body.data.find(({ title }: { title: string }) => title === wanted).id;
}

/** Whether the user wants the category on the channel. */
const wants = (user: string, channel: string) => async () => {
  const { body } = await service.project.as(user)('GET', '/channels/user_preferences');
  const { channels } = body.categories.find(({ key }: { key: string }) => key === 'billing');
  return channels.find(({ name }: { name: string }) => name === channel).enabled;
};

/** How many WebSockets are open in this process. */
async function openSockets(): Promise<number> {
  const metrics = await (await fetch(`${service.address}/metrics`)).text();
  return Number(/^belfry_realtime_connections\{transport="websocket"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

describeInChromium('in Chromium', () => {
  beforeAll(async () => {
    browser = await openChromium();
  });
  afterAll(() => browser.close());
  beforeEach(async () => {
    before = await openSockets();
    page = await browser.newPage();
  });
  afterEach(async () => {
    await page.close();
    await expect.poll(openSockets).toBe(before);
  });

  test('@magicbell/react shows notifications live, marks them as read and saves preferences', async () => {
    await send('ada', 'First');
    await send('ada', 'Second');
    await open(MAGICBELL_REACT, {
      token: service.project.userJwt({ user_external_id: 'ada' }),
      baseUrl: `${service.address}/v2`,
      socketUrl: service.address.replace('http', 'ws'),
    });
    const titles = page.locator('.magicbell--inbox-item--title');
    await expect.poll(() => titles.allTextContents()).toEqual(['Second', 'First']);

    // These clients read the list before they connect, and miss what comes between.
    await expect.poll(openSockets).toBe(before + 1);
    await send('ada', 'Third');
    await expect.poll(() => titles.allTextContents()).toEqual(['Third', 'Second', 'First']);

    const item = (title: string) => page.locator('.magicbell--inbox-item', { hasText: title });
    // Read on another device.
    await service.project.as('ada')('POST', `/notifications/${await idOf('ada', 'Third')}/read`);
    await expect.poll(() => item('Third').getAttribute('data-status')).toBe('read');
    await item('Second').hover();
    await item('Second').getByRole('button').click();
    await page.getByText('Mark as read').click();
    await expect.poll(() => item('Second').getAttribute('data-status')).toBe('read');
    await expect.poll(statusesOf('ada')).toEqual(['Third: read', 'Second: read', 'First: unseen']);
    await page.getByTitle('Mark all as read').click();
    await expect.poll(statusesOf('ada')).toEqual(['Third: read', 'Second: read', 'First: read']);

    await page.getByTitle('Preferences').click();
    await page.getByRole('checkbox', { name: 'email' }).first().click();
    await expect.poll(wants('ada', 'email')).toBe(false);
  });

  test('@magicbell/magicbell-react does so too, and counts unseen notifications', async () => {
    await send('bob', 'First');
    await send('bob', 'Second');
    const { apiKey, apiSecret } = service.project;
    await open(MAGICBELL_MAGICBELL_REACT, {
      apiKey,
      userExternalId: 'bob',
      userKey: createHmac('sha256', apiSecret).update('bob').digest('base64'),
      serverURL: service.address,
      socketURL: service.address.replace('http', 'ws'),
      network: { cacheTTL: 0 },
    });
    const bell = page.getByTestId('bell');
    await expect.poll(() => bell.textContent()).toBe('2');

    // These clients read the list before they connect, and miss what comes between.
    await expect.poll(openSockets).toBe(before + 1);
    await send('bob', 'Third');
    await expect.poll(() => bell.textContent()).toBe('3');
    await bell.click();
    await expect.poll(() => bell.textContent()).toBe('');
    const titles = page.locator('[id^=magicbell-notification-title]');
    await expect.poll(() => titles.allTextContents()).toEqual(['Third', 'Second', 'First']);
    await expect.poll(statusesOf('bob')).toEqual(['Third: unread', 'Second: unread', 'First: unread']);

    await page.getByRole('button', { name: 'Notification preferences' }).click();
    await page.locator('#billing-in_app').click();
    await expect.poll(wants('bob', 'in_app')).toBe(false);
    await page.getByRole('button', { name: 'Close preferences' }).click();

    await titles.first().click();
    await expect.poll(statusesOf('bob')).toEqual(['Third: read', 'Second: unread', 'First: unread']);
    await bell.click();
    await page.getByRole('button', { name: 'Mark all read' }).click();
    await expect.poll(statusesOf('bob')).toEqual(['Third: read', 'Second: read', 'First: read']);
  });
});

const MAGICBELL_REACT = `
  import { FloatingInbox, MagicBellProvider } from '@magicbell/react';
  import { createRoot } from 'react-dom/client';
  import '@magicbell/react/styles/index.css';

  createRoot(document.querySelector('#root')).render(
    <MagicBellProvider {...settings} persist={false}>
      <FloatingInbox defaultOpen />
    </MagicBellProvider>,
  );
`;

const MAGICBELL_MAGICBELL_REACT = `
  import MagicBell, { FloatingNotificationInbox } from '@magicbell/magicbell-react';
  import { createRoot } from 'react-dom/client';

  createRoot(document.querySelector('#root')).render(
    <MagicBell {...settings}>
      {(props) => <FloatingNotificationInbox {...props} />}
    </MagicBell>,
  );
`;

import { createSecretKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { LANGUAGES, withValues } from '../../src/domain/ground/catalogues/languages.ts';
import { unsubscribeToken } from '../../src/domain/ground/links/signed-links.ts';
import { switchedOff } from '../../src/domain/setup/preferences/switched-off.ts';
import { ICON_LINK } from '../../src/http/pages/icons.ts';
import { newId } from '../../src/lib/ids.ts';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;
let userId: string;
let users = 0;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service?.stop());

async function newUser(): Promise<string> {
  users += 1;
  const { body } = await service.project.call('PUT', '/users', { external_id: `u${users}` });
  return body.id;
}

async function link(category: string | null): Promise<string> {
  userId = await newUser();
  const project = await service.context.projects.byId(service.project.id);
  if (project === undefined) throw new Error('there is no such project');
  const what = { projectId: project.id, userId, channel: 'email', category };
  return `${service.address}/unsubscribe/${unsubscribeToken(project.signingKey, what)}`;
}

const isOff = async (category: string | null) =>
  (await switchedOff(service.context.db, [{ category, userIds: [userId] }]))(category, userId).has('email');

const form = (fields: Record<string, string>) => ({ method: 'POST', body: new URLSearchParams(fields) });
const ONE_CLICK = { 'List-Unsubscribe': 'One-Click' };

test('a GET request, as scanners send it, unsubscribes no user', async () => {
  const url = await link('orders');
  for (const method of ['GET', 'HEAD', 'GET']) {
    const page = await fetch(url, { method });
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(page.headers.get('set-cookie')).toBeNull();
  }
  expect(await isOff('orders')).toBe(false);
});

test('the page names the category, has a button, and loads only the icon', async () => {
  const page = await (await fetch(await link('orders'))).text();
  expect(page).toContain('about “orders”');
  expect(page).toMatch(/<form method="post">.*<button>Unsubscribe<\/button>/);
  expect(page.replace(ICON_LINK, '')).not.toMatch(/src=|href=|<script|url\(/);
  expect(await (await fetch(await link(null))).text()).toContain('e-mails of this kind');
});

test('one click disables this category, and a repeat records nothing', async () => {
  const url = await link('orders');
  for (let count = 0; count < 3; count += 1) {
    const done = await fetch(url, form(ONE_CLICK));
    expect(done.status).toBe(200);
    expect(await done.text()).toContain('You are unsubscribed');
  }
  expect(await isOff('orders')).toBe(true);
  expect(await isOff('news')).toBe(false);
  expect(await isOff(null)).toBe(false);
  const events = await service.context.db.query<{ details: string }>(
    sql(
      'test_preference_events',
      "select details::text from events where type = 'preferences.updated' and $1 = any (user_ids)",
    ),
    [userId],
  );
  expect(events.map((event) => JSON.parse(event.details))).toEqual([
    { payload: { changes: [{ category: 'orders', channel: 'email', enabled: false }] } },
  ]);
});

test('works as multipart and without a body, too', async () => {
  const body = new FormData();
  body.set('List-Unsubscribe', 'One-Click');
  const url = await link(null);
  expect((await fetch(url, { method: 'POST', body })).status).toBe(200);
  expect(await isOff(null)).toBe(true);
  expect((await fetch(await link('news'), { method: 'POST' })).status).toBe(200);
  expect(await isOff('news')).toBe(true);
});

test('a button on the page undoes it', async () => {
  const url = await link('orders');
  const done = await (await fetch(url, form(ONE_CLICK))).text();
  const [, name = '', value = ''] = /name="([^"]+)" value="([^"]+)"/.exec(done) ?? [];
  const again = await fetch(url, form({ [name]: value }));
  expect(await again.text()).toContain('You are subscribed again');
  expect(await isOff('orders')).toBe(false);
});

describe('the language of the page', () => {
  const langOf = async (url: string, accepted?: string) => {
    const page = await fetch(url, { headers: accepted === undefined ? {} : { 'accept-language': accepted } });
    return /<html lang="([^"]*)" dir="([^"]*)">/.exec(await page.text())?.slice(1);
  };
  const save = (locale: string | null) =>
    service.project.call('PATCH', `/users/${userId}`, { locale, external_id: userId });

  test.each([...LANGUAGES.values()])(
    'is $lang for users and browsers with it',
    async ({ lang, dir, texts }) => {
      const url = await link('orders');
      const headers = { 'accept-language': `${lang}-ZZ, en;q=0.5` };
      const asked = await (await fetch(url, { headers })).text();
      expect(asked).toContain(`<html lang="${lang}" dir="${dir}">`);
      expect(asked).toContain(`<h1>${texts.unsubscribeTitle}</h1>`);
      expect(asked).toContain(withValues(texts.unsubscribeCategoryText, { category: 'orders' }));
      expect(asked).toContain(`<button>${texts.unsubscribe}</button>`);
      await save(lang);
      const done = await (await fetch(url, form(ONE_CLICK))).text();
      expect(done).toContain(`<h1>${texts.unsubscribedTitle}</h1>`);
      expect(done).toContain(`<button class="quiet">${texts.subscribeAgain}</button>`);
      expect(await (await fetch(url, form({ again: 'yes' }))).text()).toContain(
        `<h1>${texts.subscribedTitle}</h1>`,
      );
      const broken = await fetch(`${service.address}/unsubscribe/x`, { headers });
      expect(await broken.text()).toContain(`<h1>${texts.brokenLinkTitle}</h1>`);
    },
  );

  test('is that of the user, else of the browser, else of the project', async () => {
    const url = await link('orders');
    expect(await langOf(url, '*')).toEqual(['en', 'ltr']);
    await service.project.call('PUT', '/project', { default_locale: 'ja' });
    expect(await langOf(url, '*')).toEqual(['ja', 'ltr']);
    expect(await langOf(url, 'nl, ar-EG')).toEqual(['ar', 'rtl']);
    await save('pt-BR');
    expect(await langOf(url, 'fr')).toEqual(['fr', 'ltr']);
    await save('es-MX');
    expect(await langOf(url, 'fr')).toEqual(['es', 'ltr']);
    await service.project.call('PUT', '/project', { default_locale: null });
  });
});

test('the texts of the page stand out from their background, also in dark mode', async () => {
  const [, style = ''] =
    /<style>(.*?)<\/style>/s.exec(await (await fetch(await link('orders'))).text()) ?? [];
  const palettes = [...style.matchAll(/:root \{(.*?)\}/gs)].map(([, rules = '']) =>
    Object.fromEntries([...rules.matchAll(/--([\w-]+): (#\w+)/g)].map(([, name, color]) => [name, color])),
  );
  expect(palettes).toHaveLength(2);
  for (const palette of palettes)
    for (const [text, behind] of [
      ['text', 'card'],
      ['soft', 'card'],
      ['on-button', 'button'],
    ] as const)
      expect(contrast(palette[text] ?? '', palette[behind] ?? '')).toBeGreaterThan(4.5);
});

/** The contrast of two colours (WCAG 2.2). */
function contrast(...colors: [string, string]): number {
  const [light = 0, dark = 0] = colors
    .map((color) => {
      const digits = color.length === 4 ? color.replace(/\w/g, '$&$&') : color;
      const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
        const value = Number.parseInt(digits.slice(at, at + 2), 16) / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    })
    .sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

test('the page shows the name or the logo of the project, and loads nothing else', async () => {
  const url = await link('orders');
  const shown = async () => {
    const page = await fetch(url);
    const [, sender] = /<main>(<p class="sender".*?<\/p>)?<h1>/.exec(await page.text()) ?? [];
    return [sender, / img-src [^;]*;/.exec(page.headers.get('content-security-policy') ?? '')?.[0]];
  };
  await service.project.call('PUT', '/project', { display_name: 'Tea & <Co>' });
  expect(await shown()).toEqual([
    '<p class="sender"><bdi>Tea &#38; &#60;Co&#62;</bdi></p>',
    " img-src 'self';",
  ]);
  await service.project.call('PUT', '/project', { logo_url: 'https://x.example:8443/a?b=;c' });
  expect(await shown()).toEqual([
    '<p class="sender"><img src="https://x.example:8443/a?b=;c" alt="Tea &#38; &#60;Co&#62;"></p>',
    " img-src 'self' https://x.example:8443;",
  ]);
  await service.project.call('PUT', '/project', { display_name: null, logo_url: null });
});

test('a forged or changed link is a 404 and changes nothing', async () => {
  const url = await link('orders');
  const token = url.slice(url.lastIndexOf('/') + 1);
  const flipped = token.startsWith('B') ? `A${token.slice(1)}` : `B${token.slice(1)}`;
  const forged = unsubscribeToken(createSecretKey(Buffer.alloc(32)), {
    projectId: service.project.id,
    userId,
    channel: 'email',
    category: 'orders',
  });
  for (const bad of [
    'x',
    flipped,
    token.slice(0, -2),
    `${token}AA`,
    forged,
    token.replace(/.{4}$/, 'AAAA'),
  ]) {
    const at = `${service.address}/unsubscribe/${bad}`;
    expect((await fetch(at)).status).toBe(404);
    const posted = await fetch(at, form(ONE_CLICK));
    expect(posted.status).toBe(404);
    expect(posted.headers.get('content-type')).toContain('text/html');
  }
  expect(await isOff('orders')).toBe(false);
});

test('a link of a deleted user succeeds and stores nothing', async () => {
  const project = await service.context.projects.byId(service.project.id);
  if (project === undefined) throw new Error('there is no such project');
  userId = newId();
  const what = { projectId: project.id, userId, channel: 'email', category: 'orders' };
  const url = `${service.address}/unsubscribe/${unsubscribeToken(project.signingKey, what)}`;
  expect((await fetch(url, form(ONE_CLICK))).status).toBe(200);
  expect(await isOff('orders')).toBe(false);
});

test('forged links are limited by address, and valid ones by user, in every spelling', async () => {
  const limited = await startTestService({ settings: { RATE_LIMIT_IP: '3' } });
  try {
    const project = await limited.context.projects.byId(limited.project.id);
    if (project === undefined) throw new Error('there is no such project');
    const click = async (name: string, category: string, spelt = (token: string) => token) => {
      const { body: user } = await limited.project.call('PUT', '/users', { external_id: name });
      const what = { projectId: project.id, userId: user.id, channel: 'email', category };
      const token = spelt(unsubscribeToken(project.signingKey, what));
      return (await fetch(`${limited.address}/unsubscribe/${token}`, form(ONE_CLICK))).status;
    };
    // As a mail provider does for its users.
    const many = ['a', 'b', 'c', 'd', 'e', 'f'];
    expect(await Promise.all(many.map((name) => click(name, 'orders')))).toEqual(many.map(() => 200));
    expect(await click('a', 'news')).toBe(200);
    expect(await click('a', 'news', (token) => `${token}/`)).toBe(200);
    expect(await click('a', 'news', (token) => `%${token.charCodeAt(0).toString(16)}${token.slice(1)}`)).toBe(
      429,
    );
    const responses: number[] = [];
    for (let count = 0; count < 5; count += 1)
      responses.push((await fetch(`${limited.address}/unsubscribe/x`)).status);
    expect(responses).toEqual([404, 404, 404, 429, 429]);
  } finally {
    await limited.stop();
  }
});

import { createSecretKey } from 'node:crypto';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { LANGUAGES } from '../../src/domain/ground/catalogues/languages.ts';
import { preferencesToken } from '../../src/domain/ground/links/signed-links.ts';
import { rollKey } from '../../src/domain/setup/projects/roll-key.ts';
import { newId } from '../../src/lib/ids.ts';
import { axeViolations, describeInChromium, openChromium } from '../support/browser.ts';
import { startTestService, type TestProject, type TestService } from '../support/service.ts';
import { startVendors, type Vendors } from '../support/vendors.ts';

let service: TestService;
let vendors: Vendors;
let project: TestProject;
let url: string;
let made = 0;

beforeAll(async () => {
  vendors = await startVendors();
  service = await startTestService({ settings: vendors.settings });
});
afterAll(async () => {
  await service?.stop();
  await vendors?.stop();
});
beforeEach(async () => {
  made += 1;
  project = await service.createProject(`page ${made}`);
  await vendors.setUp(project, ['smtp', 'twilio']);
  await configure('orders', ['in_app', 'email', 'sms'], {
    label: 'Shipped <orders>',
    description: 'When a parcel leaves & arrives',
    locales: { ar: { label: 'الطلبات' } },
  });
  await configure('news', ['email', 'slack']);
  await configure('auth/code', ['sms'], { critical: true });
  url = await linkOf('ada');
});

const configure = (key: string, channels: string[], more: object = {}) =>
  project.call('PUT', '/channels', { key, channels: channels.map((channel) => ({ channel })), ...more });
const api = '/channels/user_preferences';
const stored = async (user = 'ada') => (await project.as(user)('GET', api)).body;
/** The link of a user, at the address of this server. */
const linkOf = async (user: string): Promise<string> =>
  service.address + new URL((await stored(user)).preferences_url).pathname;
const tokenOf = async (content: { userId: string; category?: string }, key?: Buffer): Promise<string> => {
  const found = await service.context.projects.byId(project.id);
  if (found === undefined) throw new Error('there is no such project');
  const signingKey = key === undefined ? found.signingKey : createSecretKey(key);
  return preferencesToken(signingKey, { projectId: project.id, ...content });
};
const userId = async (): Promise<string> =>
  (await project.call('PUT', '/users', { external_id: 'ada' })).body.id;
const isOff = async (key: string, channel: string) =>
  (await stored()).categories
    .find((one: { key: string }) => one.key === key)
    ?.channels.find(({ name }: { name: string }) => name === channel)?.enabled === false;

interface Box {
  value: string;
  isOn: boolean;
  isDisabled: boolean;
}

/** The form of a page, as a browser without scripts reads it. */
function formIn(html: string) {
  const boxes = [...html.matchAll(/<input type="checkbox" name="(\w+)" value="([^"]*)"([^>]*)>/g)];
  const hidden = [...html.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)];
  const plain = (text: string) => text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
  const value = (name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? '';
  const entries: [string, string][] = [
    ...hidden.map(([, name = '', text = '']): [string, string] => [name, plain(text)]),
    ...boxes.flatMap(([, name = '', text = '', state = '']): [string, string][] =>
      state.includes('checked') && !state.includes('disabled') ? [[name, plain(text)]] : [],
    ),
    ['from', value('from')],
    ['to', value('to')],
    ['zone', /<option value="([^"]*)" selected>/.exec(html)?.[1] ?? ''],
  ];
  const channels = boxes
    .filter(([, name]) => name === 'on')
    .map(
      ([, , text = '', state = '']): Box => ({
        value: plain(text),
        isOn: state.includes('checked'),
        isDisabled: state.includes('disabled'),
      }),
    );
  return { fields: new URLSearchParams(entries), channels };
}
const open = async (at = url, headers: Record<string, string> = {}) => {
  const response = await fetch(at, { headers });
  const html = await response.text();
  return { response, html, ...formIn(html) };
};
const submit = async (fields: URLSearchParams, at = url) => {
  const response = await fetch(at, { method: 'POST', body: fields });
  const html = await response.text();
  return { response, html, ...formIn(html) };
};

test('the page shows the categories with the channels that are set up, and changes nothing', async () => {
  const before = await stored();
  const { response, html, channels } = await open();
  expect(response.status).toBe(200);
  expect(channels).toEqual([
    { value: 'orders in_app', isOn: true, isDisabled: false },
    { value: 'orders email', isOn: true, isDisabled: false },
    { value: 'orders sms', isOn: true, isDisabled: false },
    { value: 'news email', isOn: true, isDisabled: false },
    { value: 'auth/code sms', isOn: true, isDisabled: true },
  ]);
  expect(html).toContain('<bdi>Shipped &#60;orders&#62;</bdi>');
  expect(html).toContain('When a parcel leaves &#38; arrives');
  expect(html).toContain(`<bdi>page ${made}</bdi>`);
  expect(html).not.toContain('<script src');
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-robots-tag': 'noindex',
    'content-security-policy': expect.stringMatching(
      /^default-src 'none'; style-src ('sha256-[^']+' ?){2}; script-src 'sha256-[^']+'; img-src 'self'; /,
    ),
  });
  expect(response.headers.get('set-cookie')).toBeNull();
  expect((await fetch(url, { method: 'HEAD' })).status).toBe(200);
  expect(await stored()).toEqual(before);
});

const languageOf = (html: string) => /<html lang="(\w+)" dir="(\w+)">/.exec(html)?.slice(1);

test.each([
  ['de-AT', 'de', 'ltr'],
  ['ar-EG', 'ar', 'rtl'],
  ['ja', 'ja', 'ltr'],
])('the page of a user with the locale %s is in %s', async (locale, lang, dir) => {
  await project.call('PUT', '/users', { external_id: 'ada', locale });
  const { html, fields } = await open(url, { 'accept-language': 'fr' });
  const texts = LANGUAGES.get(lang)?.texts;
  expect(languageOf(html)).toEqual([lang, dir]);
  expect(html).toContain(`<title>${texts?.preferences}</title>`);
  expect(html).toContain(`<h1>${texts?.preferences}</h1>`);
  expect(html).toContain(`<button>${texts?.save}</button>`);
  expect(html).toContain(`<bdi>${lang === 'ar' ? 'الطلبات' : 'Shipped &#60;orders&#62;'}</bdi>`);
  const weekday = new Intl.DateTimeFormat(lang, { weekday: 'short', timeZone: 'UTC' });
  expect(html).toContain(`>${weekday.format(Date.UTC(2024, 0, 1))}</label>`);
  const saved = await submit(fields);
  expect(languageOf(saved.html)).toEqual([lang, dir]);
  expect(saved.html).toContain(`autofocus>${texts?.preferencesSaved}</p>`);
});

test('the page of a user without a locale is in the language of the browser, or of the project', async () => {
  await project.call('PUT', '/project', { default_locale: 'es' });
  expect(languageOf((await open(url, { 'accept-language': 'xx, fr-CA;q=0.5' })).html)).toEqual(['fr', 'ltr']);
  expect(languageOf((await open(url, { 'accept-language': 'xx' })).html)).toEqual(['es', 'ltr']);
  await project.call('PUT', '/project', { default_locale: null });
  expect(languageOf((await open(url, { 'accept-language': 'xx' })).html)).toEqual(['en', 'ltr']);
});

test('what is switched off is saved, shown and recorded once', async () => {
  const { fields } = await open();
  fields.delete('on', 'orders sms');
  fields.delete('on', 'news email');
  for (let count = 0; count < 2; count += 1) {
    const { response, html, channels } = await submit(fields);
    expect(response.status).toBe(200);
    expect(html).toContain('role="status" tabindex="-1" autofocus>Your settings are saved.</p>');
    expect(channels.filter(({ isOn }) => !isOn).map(({ value }) => value)).toEqual([
      'orders sms',
      'news email',
    ]);
  }
  expect([await isOff('orders', 'sms'), await isOff('orders', 'email')]).toEqual([true, false]);
  const { body } = await project.call('GET', '/events?type=preferences.updated');
  expect(body.data.map(({ payload }: { payload: unknown }) => payload)).toEqual([
    {
      changes: [
        { category: 'news', channel: 'email', enabled: false },
        { category: 'orders', channel: 'sms', enabled: false },
      ],
    },
  ]);
  const again = await open();
  again.fields.append('on', 'orders sms');
  await submit(again.fields);
  expect(await isOff('orders', 'sms')).toBe(false);
});

test('a saved form redirects to the page, which a browser can show once more', async () => {
  const { fields } = await open();
  const { status, headers } = await fetch(url, { method: 'POST', body: fields, redirect: 'manual' });
  expect([status, headers.get('location')]).toEqual([303, '?saved']);
  fields.append('quiet', 'on');
  fields.set('to', '22:00');
  expect((await fetch(url, { method: 'POST', body: fields, redirect: 'manual' })).status).toBe(422);
});

test('two tabs keep the changes of each other', async () => {
  const [one, other] = [await open(), await open()];
  one.fields.delete('on', 'orders sms');
  other.fields.delete('on', 'news email');
  other.fields.append('quiet', 'on');
  await submit(one.fields);
  await submit(other.fields);
  await submit(one.fields);
  expect([await isOff('orders', 'sms'), await isOff('news', 'email')]).toEqual([true, true]);
  expect((await stored()).quiet_hours).toEqual({ from: '22:00', to: '07:00' });
});

test('quiet hours and the time zone are saved, changed and removed', async () => {
  await project.call('PUT', '/channels/delivery_windows', { time_zone: 'Asia/Tokyo', channels: [] });
  const first = await open();
  expect(first.fields.get('zone')).toBe('Asia/Tokyo');
  await submit(first.fields);
  expect(await stored()).toMatchObject({ time_zone: null, quiet_hours: null });
  first.fields.append('quiet', 'on');
  first.fields.set('from', '21:30');
  first.fields.delete('day', 'sunday');
  const { fields } = await submit(first.fields);
  const days = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
  expect(await stored()).toMatchObject({
    time_zone: 'Asia/Tokyo',
    quiet_hours: { days, from: '21:30', to: '07:00' },
  });
  expect([fields.get('quiet'), fields.get('from'), fields.getAll('day')]).toEqual(['on', '21:30', days]);
  fields.set('zone', 'Europe/Berlin');
  fields.delete('quiet');
  await submit(fields);
  expect(await stored()).toMatchObject({ time_zone: 'Europe/Berlin', quiet_hours: null });
});

test('quiet hours of the API that a form shows differently stay as they are', async () => {
  for (const quiet_hours of [
    { days: ['sunday', 'saturday'], from: '00:00', to: '24:00' },
    { from: '20:00', to: '24:00' },
  ]) {
    await project.as('ada')('PUT', api, { quiet_hours });
    const { fields } = await open();
    expect(fields.get('to')).toBe('00:00');
    await submit(fields);
    expect((await stored()).quiet_hours).toEqual(quiet_hours);
    fields.delete('day', 'sunday');
    await submit(fields);
    expect((await stored()).quiet_hours).toMatchObject({ from: quiet_hours.from, days: expect.anything() });
  }
});

test.each<[string, (fields: URLSearchParams) => void]>([
  ['the same times', (fields) => fields.set('to', '22:00')],
  ['no time', (fields) => fields.set('from', '')],
  ['no day', (fields) => fields.delete('day')],
  ['all day', (fields) => [fields.set('from', '00:00'), fields.set('to', '00:00')]],
  ['markup', (fields) => fields.set('from', '"><script>')],
  ['an unknown time zone', (fields) => fields.set('zone', 'Mars/Phobos')],
])('quiet hours with %s are rejected, and the form keeps what was chosen', async (_what, change) => {
  const { fields } = await open();
  fields.append('quiet', 'on');
  fields.delete('on', 'orders sms');
  change(fields);
  const { response, html, channels } = await submit(fields);
  expect(response.status).toBe(422);
  expect(html).toContain('role="alert"');
  expect(html).not.toContain('"><script>');
  expect(channels.find(({ value }) => value === 'orders sms')?.isOn).toBe(false);
  expect(await stored()).toMatchObject({ time_zone: null, quiet_hours: null });
  expect(await isOff('orders', 'sms')).toBe(false);
});

test('a category that became critical or was deleted meanwhile is left alone', async () => {
  const { fields } = await open();
  fields.delete('on');
  await configure('orders', ['in_app', 'email', 'sms'], { critical: true });
  await project.call('DELETE', '/channels/news');
  fields.append('was', 'made/up +email');
  fields.append('was', 'auth/code +sms');
  expect((await submit(fields)).response.status).toBe(200);
  const { categories } = await stored();
  expect(categories.map(({ key, required }: { key: string; required?: true }) => [key, required])).toEqual([
    ['orders', true],
    ['auth/code', true],
  ]);
});

test.each([
  ['nothing', new URLSearchParams()],
  ['the one click of a mail program', new URLSearchParams({ 'List-Unsubscribe': 'One-Click' })],
  ['broken fields', new URLSearchParams('was=&was=+&was=a+b+c&on=x&day=&zone=&zone_was=x&from=1')],
])('a form with %s changes nothing', async (_what, fields) => {
  const before = await stored();
  expect((await submit(fields)).response.status).toBe(200);
  expect(await stored()).toEqual(before);
});

test('the link of a message also shows its category if that is not configured', async () => {
  const token = await tokenOf({ userId: await userId(), category: 'offers' });
  const at = `${service.address}/preferences/${token}`;
  const { fields, channels } = await open(at);
  expect(channels.map(({ value }) => value)).toEqual(
    expect.arrayContaining(['offers in_app', 'offers email', 'offers sms', 'orders email']),
  );
  fields.delete('on', 'offers email');
  await submit(fields, at);
  expect(await isOff('offers', 'email')).toBe(true);
});

test('without categories there is a choice for all messages', async () => {
  project = await service.createProject(`empty ${made}`);
  await vendors.setUp(project, ['smtp']);
  const { html, channels } = await open(await linkOf('ada'));
  expect(html).toContain('<bdi>Other messages</bdi>');
  expect(channels.map(({ value }) => value)).toEqual(['uncategorized in_app', 'uncategorized email']);
});

test('the page is in the language of the user, and shows the name and the logo of the project', async () => {
  const logo_url = 'https://shop.example/logo.png';
  await project.call('PUT', '/project', { display_name: 'The <Shop>', logo_url, default_locale: 'es' });
  const shown = async (headers: Record<string, string> = {}) => {
    const { html } = await open(url, headers);
    const [, lang = '', dir] = /<html lang="(\w+)" dir="(\w+)"/.exec(html) ?? [];
    const { preferences = '' } = LANGUAGES.get(lang)?.texts ?? {};
    expect(html).toContain(`<h1>${preferences}</h1>`);
    return `${lang} ${dir}`;
  };
  expect(await shown()).toBe('es ltr');
  expect(await shown({ 'accept-language': 'fr' })).toBe('fr ltr');
  await project.call('PUT', '/users', { external_id: 'ada', locale: 'ar-EG' });
  expect(await shown({ 'accept-language': 'fr' })).toBe('ar rtl');
  const { html, response } = await open();
  expect(html).toContain(`<img src="${logo_url}" alt="The &#60;Shop&#62;">`);
  expect(html).toContain('<bdi>الطلبات</bdi>');
  expect(response.headers.get('content-security-policy')).toContain("img-src 'self' https://shop.example");
});

test('a forged, changed or cut link is a 404 with a page, and changes nothing', async () => {
  const token = url.slice(url.lastIndexOf('/') + 1);
  const unsubscribe = url.replace('/preferences/', '/unsubscribe/');
  const bad = [
    'x',
    token.slice(0, -3),
    `${token}AAAA`,
    token.replace(/.{4}$/, 'AAAA'),
    `B${token.slice(1)}`,
    await tokenOf({ userId: await userId() }, Buffer.alloc(32)),
  ].map((one) => `${service.address}/preferences/${one}`);
  const { fields } = await open();
  fields.delete('on');
  for (const at of [...bad, unsubscribe]) {
    const { response, html } = await open(at);
    expect([response.status, html.includes('This link does not work')]).toEqual([404, true]);
    expect((await submit(fields, at)).response.status).toBe(404);
  }
  expect(await isOff('orders', 'email')).toBe(false);
});

test('a link works after the signing key was replaced', async () => {
  await rollKey(service.context, { projectId: project.id, kind: 'signing_key', overlapMs: 0 });
  expect((await open()).response.status).toBe(200);
});

test('a deleted user, and one that never was, have no page', async () => {
  const { fields } = await open();
  fields.delete('on');
  await project.call('DELETE', `/users/${await userId()}`);
  const unknown = `${service.address}/preferences/${await tokenOf({ userId: newId() })}`;
  for (const at of [url, unknown])
    for (const { response, html } of [await open(at), await submit(fields, at)])
      expect([response.status, html.includes('These settings no longer exist')]).toEqual([404, true]);
});

test('each e-mail has the link, also of a critical category', async () => {
  await configure('auth/mail', ['email'], { critical: true });
  const recipients = [{ external_id: 'ada', email: 'ada@example.com' }];
  for (const category of ['orders', 'auth/mail', undefined]) {
    vendors.mail.received.length = 0;
    await project.call('POST', '/broadcasts', { title: 'Hello', recipients, ...(category && { category }) });
    await expect.poll(() => vendors.mail.received.length).toBe(1);
    const mail = await vendors.mail.received[0]?.parsed();
    const [link = ''] = /https?:\/\/[^"\s]+\/preferences\/[\w-]+/.exec(mail?.html ?? '') ?? [];
    expect(mail?.text).toContain(`Notification settings: ${link}`);
    expect(mail?.html?.includes('/unsubscribe/')).toBe(category !== 'auth/mail');
    expect((await open(service.address + new URL(link).pathname)).response.status).toBe(200);
  }
});

describeInChromium('in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openChromium();
  });
  afterAll(() => browser?.close());

  const inPage = async (options: BrowserContextOptions, work: (page: Page) => Promise<void>) => {
    const context = await browser.newContext(options);
    try {
      const page = await context.newPage();
      const problems: string[] = [];
      page.on('console', (message) => problems.push(message.text()));
      page.on('pageerror', (error) => problems.push(error.message));
      await page.goto(url);
      await work(page);
      expect(problems).toEqual([]);
    } finally {
      await context.close();
    }
  };

  const inAll = [...LANGUAGES.values()].flatMap(({ lang, dir, texts }) => [
    { lang, dir, texts, colorScheme: 'light' as const },
    ...(lang === 'en' || dir === 'rtl' ? [{ lang, dir, texts, colorScheme: 'dark' as const }] : []),
  ]);
  test.each(inAll)(
    'it is accessible in $lang, $colorScheme and narrow',
    async ({ lang, dir, texts, colorScheme }) => {
      await inPage({ colorScheme, locale: lang, viewport: { width: 320, height: 700 } }, async (page) => {
        expect(await page.locator('html').getAttribute('dir')).toBe(dir);
        await page.getByLabel(texts.quietOn).check();
        const width = await page.evaluate<number>('document.documentElement.scrollWidth');
        expect(width).toBeLessThanOrEqual(320);
        await page.getByRole('button', { name: texts.save }).click();
        await page.getByText(texts.preferencesSaved).waitFor();
        expect(await axeViolations(page)).toEqual([]);
      });
    },
  );

  test('it shows the name of the project, or its logo with the name as text', async () => {
    await project.call('PUT', '/project', { display_name: 'The <Shop>' });
    await inPage({}, async (page) => {
      expect(await page.locator('.sender').textContent()).toBe('The <Shop>');
      expect(await page.getByRole('img').count()).toBe(0);
    });
    const logo = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="100"/>';
    await project.call('PUT', '/project', { logo_url: 'https://cdn.shop.example/logo.svg?size=2&dark' });
    const context = await browser.newContext();
    await context.route('https://cdn.shop.example/**', (route) =>
      route.fulfill({ contentType: 'image/svg+xml', body: logo }),
    );
    const page = await context.newPage();
    await page.goto(url);
    const image = page.getByRole('img', { name: 'The <Shop>' });
    const widthOf = `document.querySelector('img')?.naturalWidth`;
    const size = async () => [await page.evaluate(widthOf), (await image.boundingBox())?.height];
    await expect.poll(size).toEqual([300, 40]);
    expect(await axeViolations(page)).toEqual([]);
    await context.close();
  });

  test.each([true, false])('Back after saving twice shows the form, with scripts: %s', async (hasScripts) => {
    await inPage({ javaScriptEnabled: hasScripts }, async (page) => {
      const notice = page.getByRole('status');
      for (const label of ['E-mail', 'Inbox']) {
        await page.getByRole('group', { name: 'Shipped' }).getByLabel(label).uncheck();
        const saved = page.waitForResponse((response) => response.url().endsWith('?saved'));
        await page.getByRole('button', { name: 'Save' }).click();
        await saved;
        await notice.waitFor();
      }
      if (hasScripts) {
        await page.reload(); // which saved nothing
        expect(await notice.count()).toBe(0);
      }
      await page.goBack();
      const boxes = page.getByRole('group', { name: 'Shipped' }).getByRole('checkbox');
      expect(await Promise.all((await boxes.all()).map((one) => one.isChecked()))).toEqual([
        false,
        false,
        true,
      ]);
    });
  });

  test('it works with the keyboard alone, and without scripts', async () => {
    await inPage({ javaScriptEnabled: false }, async (page) => {
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Space');
      await page.keyboard.press('Enter');
      await page.getByText('Your settings are saved.').waitFor();
      expect(await page.getByRole('group', { name: 'Login codes' }).count()).toBe(0);
      expect(await page.getByRole('group', { name: 'auth/code Always on' }).count()).toBe(1);
    });
    expect([await isOff('orders', 'in_app'), await isOff('orders', 'email')]).toEqual([false, true]);
  });

  test('it offers the time zone of the browser, unless the user has one', async () => {
    const zone = (page: Page) => page.getByLabel('Time zone').inputValue();
    await inPage({ timezoneId: 'America/Chicago' }, async (page) => {
      expect(await zone(page)).toBe('America/Chicago');
      expect((await stored()).time_zone).toBeNull();
      await page.getByRole('button').click();
      await page.getByText('Your settings are saved.').waitFor();
    });
    expect((await stored()).time_zone).toBe('America/Chicago');
    await inPage({ timezoneId: 'Asia/Tokyo' }, async (page) => {
      expect(await zone(page)).toBe('America/Chicago');
    });
  });
});

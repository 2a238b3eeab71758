// Makes docs/images: the demo, and the inbox in its modes. Run it with `npm run screenshots [folder]`.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { sql } from '../server/src/db/client.ts';
import { type Belfry, startBelfry, until } from './support/belfry.ts';
import { CHROMIUM, FLAGS } from './support/chromium.ts';

const FOLDER = process.argv[2] ?? join(import.meta.dirname, '..', 'docs', 'images');
const ACTIONS = [
  { label: 'Accept', url: 'https://app.example/join', primary: true },
  { label: 'Decline', url: 'https://app.example/decline' },
];
const NOTIFICATIONS = [
  ['Welcome', 'Your account is ready. Take a look around.', 'Account'],
  ['Invoice 2041 is paid', 'Thank you! The receipt is in your e-mail.', 'Billing'],
  ['New sign-in from Lisbon', 'If this was not you, <a href="https://app.example">tell us</a>.', 'Security'],
  ['Cleo invited you to “Launch plan”', 'You can read and edit the document.', 'Comments', ACTIONS],
  ['Ben commented on “Launch plan”', 'Can we move the date to <b>Friday</b>?', 'Comments'],
  ['Your order is on its way', 'It arrives <b>tomorrow</b> before noon.', 'Orders'],
] as const;
const AGES = [1, 12, 55, 180, 26 * 60, 3 * 24 * 60]; // minutes, of the newest first

/** A picture: the attributes of the inbox that is shown, and how the browser shows it. */
const PICTURES: Record<
  string,
  { attributes: { mode?: string; open?: string; locale?: string }; options: BrowserContextOptions }
> = {
  'inbox-popover': {
    attributes: { open: '' },
    options: { viewport: { width: 720, height: 720 } },
  },
  'inbox-page': {
    attributes: { mode: 'page' },
    options: { viewport: { width: 800, height: 640 } },
  },
  'inbox-dark': {
    attributes: { mode: 'page' },
    options: { viewport: { width: 800, height: 640 }, colorScheme: 'dark' },
  },
  'inbox-right-to-left': {
    attributes: { mode: 'page', locale: 'ar' },
    options: { viewport: { width: 800, height: 640 } },
  },
  'inbox-phone': {
    attributes: { mode: 'page' },
    options: { viewport: { width: 390, height: 780 }, isMobile: true },
  },
};

// In the page of the demo: shows one of its inboxes, with these attributes, and nothing else.
const SHOW_ALONE = `(attributes) => {
  const { token } = document.querySelector('belfry-inbox');
  const inbox = document.createElement('belfry-inbox');
  Object.assign(inbox, { baseUrl: 'v2', token });
  for (const [name, value] of Object.entries(attributes)) inbox.setAttribute(name, value);
  document.body.replaceChildren(inbox);
  const isPage = attributes.mode === 'page';
  document.body.style.padding = isPage ? '0' : '16px';
  if (isPage) inbox.style.height = '100vh';
  else document.body.style.textAlign = 'end';
}`;

// The font of the pictures, where it is installed.
const FONTS = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include>/etc/fonts/fonts.conf</include>
${['system-ui', 'sans-serif', 'sans']
  .map(
    (family) =>
      `<match><test name="family"><string>${family}</string></test>
<edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>`,
  )
  .join('')}
</fontconfig>`;

const dataDir = mkdtempSync(join(tmpdir(), 'belfry-screenshots-'));
mkdirSync(FOLDER, { recursive: true });
const fontConfig = join(dataDir, 'fonts.conf');
writeFileSync(fontConfig, FONTS);
const belfry = await startBelfry({ dataDir });
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: FLAGS,
  env: { ...process.env, FONTCONFIG_FILE: fontConfig },
});
try {
  await send(belfry);
  await pictureOfDemo(browser, belfry);
  for (const [name, { attributes, options }] of Object.entries(PICTURES)) {
    const page = await open(browser, belfry, options);
    await page.evaluate(`(${SHOW_ALONE})(${JSON.stringify(attributes)})`);
    await page.getByText('Your order is on its way').waitFor();
    await save(page, name);
  }
} finally {
  await browser.close();
  await belfry.stop();
  rmSync(dataDir, { recursive: true, force: true });
}

/** Sends the notifications to the users of the demo. Some of them are read. */
async function send({ address, db }: Belfry): Promise<void> {
  const session = await fetch(`${address}/demo/session`, { method: 'POST' });
  const { project_jwt: jwt, users } = (await session.json()) as {
    project_jwt: string;
    users: { user_jwt: string }[];
  };
  const call = async (method: string, path: string, token: string, body?: object) => {
    const response = await fetch(`${address}/v2${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}`);
  };
  const listed = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${address}/v2/notifications`, { headers });
    return ((await response.json()) as { data: unknown[] }).data.length;
  };
  const recipients = ['ada', 'ben'].map((external_id) => ({ external_id }));
  for (const label of new Set(NOTIFICATIONS.map(([, , category]) => category)))
    await call('PUT', '/channels', jwt, { key: label, label, channels: [{ channel: 'in_app' }] });
  for (const [index, [title, content, category, actions]] of NOTIFICATIONS.entries()) {
    const custom_attributes = actions === undefined ? null : { actions };
    await call('POST', '/broadcasts', jwt, { title, content, category, custom_attributes, recipients });
    if (index !== 2) continue;
    for (const { user_jwt } of users) {
      await until('three notifications', async () => (await listed(user_jwt)) === 3);
      await call('POST', '/notifications/read', user_jwt);
    }
  }
  for (const { user_jwt } of users)
    await until('all notifications', async () => (await listed(user_jwt)) === NOTIFICATIONS.length);
  await db.query(
    sql(
      '',
      `update notifications n
      set sent_at = now() - ($1::integer[])[one.number] * interval '1 minute'
      from (
        select user_id, id, row_number() over (partition by user_id order by id desc) as number
        from notifications
      ) one
      where n.user_id = one.user_id and n.id = one.id`,
    ),
    [AGES],
  );
}

async function pictureOfDemo(browserOf: Browser, server: Belfry): Promise<void> {
  const page = await open(browserOf, server, { viewport: { width: 1_640, height: 800 } });
  await page.getByText('Your order is on its way').nth(2).waitFor();
  // The token and the port would change with every run.
  await page.evaluate(`{
    const code = document.querySelector('pre code');
    code.textContent = code.textContent.replace(/TOKEN='[^']+/, "TOKEN='eyJ…").replace(/:\\d+/g, ':3000');
  }`);
  await save(page, 'demo');
}

async function open(browserOf: Browser, { address }: Belfry, options: BrowserContextOptions): Promise<Page> {
  const context = await browserOf.newContext({ reducedMotion: 'reduce', deviceScaleFactor: 2, ...options });
  const page = await context.newPage();
  await page.goto(`${address}/demo`);
  return page;
}

async function save(page: Page, name: string): Promise<void> {
  const path = join(FOLDER, `${name}.png`);
  await page.screenshot({ path });
  console.log(path);
  await page.context().close();
}

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { servePage } from '../../server/test/support/app-page.ts';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { startTestService, type TestService } from '../../server/test/support/service.ts';

// Apps with the packed packages: each is type-checked, built with Vite, and opened in Chromium.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

let service: TestService;
let folder: string;
/** A project with the packed packages installed. */
let consumer: string;

beforeAll(async () => {
  service = await startTestService();
  await service.project.call('PUT', '/channels', {
    key: 'orders',
    channels: [{ channel: 'in_app' }, { channel: 'email' }],
  });
  folder = await mkdtemp(join(tmpdir(), 'belfry-inbox-'));
  consumer = join(folder, 'consumer');
  await mkdir(consumer);
  await writeFile(join(consumer, 'package.json'), '{"name":"consumer","private":true,"type":"module"}');
  const npm = (args: string[], cwd: string) =>
    run('npm', [...args, '--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd,
      env: { ...process.env, npm_config_cache: join(folder, 'cache') }, // empty, so nothing else is installed
    });
  for (const name of ['sdk', 'inbox']) {
    await run(process.execPath, [join(root, name, 'build.mjs'), join(folder, name)]);
    await npm(['pack', '--pack-destination', folder], join(folder, name));
  }
  const archives = (await readdir(folder)).filter((name) => name.endsWith('.tgz'));
  await npm(['install', ...archives.map((name) => join(folder, name))], consumer);
  const others = ['react', 'react-dom', 'scheduler', 'vue', '@vue', '@types', 'csstype'];
  for (const name of others)
    await symlink(join(root, 'node_modules', name), join(consumer, 'node_modules', name));
  for (const [name, code] of Object.entries(APPS)) {
    await mkdir(join(consumer, name));
    const file = name === 'react' ? 'main.tsx' : 'main.ts';
    await writeFile(join(consumer, name, file), code);
    await writeFile(
      join(consumer, name, 'index.html'),
      `<!doctype html><html lang="en"><title>App</title><div id="app"></div>` +
        `<script type="module" src="./${file}"></script></html>`,
    );
  }
}, 300_000);
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});

test('the package has only its code, declarations and texts', async () => {
  const installed = join(consumer, 'node_modules/@belfry/inbox');
  const files = await readdir(installed, { recursive: true, withFileTypes: true });
  const unexpected = files
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installed, join(entry.parentPath, entry.name)))
    .filter((path) => !/^(dist\/[\w/-]+\.(js|d\.ts)|README\.md|LICENSE|package\.json)$/.test(path));
  expect(unexpected).toEqual([]);
  const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  for (const absent of ['private', 'devDependencies', 'scripts']) expect(manifest).not.toHaveProperty(absent);
});

test('the element, its store and the sanitizer are at most 20 kB', async () => {
  await run(process.execPath, [join(root, 'bin/size.mjs'), consumer]);
});

test('programs find the types of every entry', { timeout: 300_000 }, async () => {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: 'es2022',
    lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'],
    types: [],
    module: 'esnext',
    moduleResolution: 'bundler',
    jsx: 'react-jsx',
    skipDefaultLibCheck: true, // those of the packages are checked
    noEmit: true,
  };
  await writeFile(
    join(consumer, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, include: ['*/main.*'] }),
  );
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const problems = await run(process.execPath, [tsc, '-p', consumer]).then(
    () => '',
    ({ stdout, message }: { stdout: string; message: string }) => stdout || message,
  );
  expect(problems).toBe('');
});

test('on a server, all entries can be imported, and components are rendered', async () => {
  await writeFile(join(consumer, 'server.mjs'), SERVER);
  const { stdout, stderr } = await run(process.execPath, ['server.mjs'], { cwd: consumer });
  expect({ stdout, stderr }).toEqual({
    stdout: [
      '<p>undefined</p><belfry-inbox></belfry-inbox>',
      '<main><p>undefined</p><belfry-inbox></belfry-inbox></main>',
      'unsupported\n',
    ].join('\n'),
    stderr: '',
  });
});

describeInChromium('in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await openChromium();
  });
  afterAll(() => browser.close());

  test.each(Object.keys(APPS))('an app with %s shows the inbox of the user, live', (name) =>
    showsInbox(name),
  );

  // Their packages are fetched, so this is run only by `npm run proof:package`.
  test.runIf(process.env.PACKAGE_BY_NPM === '1')(
    'apps with the oldest supported versions of React and Vue show it, too',
    { timeout: 300_000 },
    async () => {
      const oldest = join(folder, 'oldest');
      await mkdir(oldest);
      const { peerDependencies } = JSON.parse(await readFile(join(root, 'inbox/package.json'), 'utf8'));
      const lowest = (name: string) => peerDependencies[name].replace(/^>=/, '');
      const packages = [`react@${lowest('react')}`, `react-dom@${lowest('react')}`, `vue@${lowest('vue')}`];
      await run('npm', ['install', '--prefix', oldest, '--no-audit', '--no-fund', ...packages]);
      for (const name of ['react', 'vue']) await showsInbox(name, join(oldest, 'node_modules'));
    },
  );

  async function showsInbox(name: string, packages?: string): Promise<void> {
    const user = packages === undefined ? name : `${name}-oldest`;
    const settings = {
      baseUrl: `${service.address}/v2`,
      token: service.project.userJwt({ user_external_id: user }),
    };
    const out = join(folder, `${user}-built`);
    await build({
      root: join(consumer, name),
      configFile: false,
      logLevel: 'error',
      resolve: {
        alias: (packages === undefined ? [] : ['react', 'react-dom', 'vue']).map((one) => ({
          find: new RegExp(`^${one}(?=$|/)`),
          replacement: join(packages ?? '', one),
        })),
      },
      define: { settings: JSON.stringify(settings) },
      build: { outDir: out, emptyOutDir: true },
    });
    const entries = await readdir(out, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map(async (path) => [`/${relative(out, path)}`, await readFile(path, 'utf8')] as const);
    const app = await servePage(Object.fromEntries(await Promise.all(files)));
    const send = (title: string) =>
      service.project.call('POST', '/broadcasts', { title, recipients: [{ external_id: user }] });
    await send('First');
    const context = await browser.newContext();
    // Without a screen, Chromium denies this permission to all pages.
    await context.addInitScript(GRANTED);
    const page = await context.newPage();
    const errors: Error[] = [];
    page.on('pageerror', (error) => errors.push(error));
    await page.goto(app.url);
    const shown = () => page.locator('#counts').textContent();
    await expect.poll(shown).toBe('1 unread: First');
    await send('Second');
    await expect.poll(shown).toBe('2 unread: Second, First');
    const titles = page.locator('belfry-inbox').getByText(/^(First|Second)$/);
    await expect.poll(() => titles.allTextContents()).toEqual(['Second', 'First']);
    await page.getByRole('button', { name: 'Read all of them' }).click();
    await expect.poll(shown).toBe('0 unread: Second, First');
    const unread = () => service.project.as(user)('GET', '/notifications/unread/count');
    await expect.poll(async () => (await unread()).body).toEqual({ count: 0 });
    if (name !== 'vanilla') await showsOthers(page, user);
    expect(errors).toEqual([]);
    await context.close();
    await app.stop();
  }
});

const GRANTED = `
  Object.defineProperty(Notification, 'permission', { value: 'granted' });
  Notification.requestPermission = async () => 'granted';
`;

/** The rest of the bindings: what arrives, filters, preferences and web push. */
async function showsOthers(page: Page, user: string): Promise<void> {
  const shown = (id: string) => page.locator(id).textContent();
  await expect.poll(() => shown('#others')).toBe('live; Second; 0 unread; in_app true, email true');
  await page.getByRole('button', { name: 'Mute orders' }).click();
  await expect.poll(() => shown('#others')).toBe('live; Second; 0 unread; in_app false, email true');
  const saved = async () => (await service.project.as(user)('GET', '/channels/user_preferences')).body;
  await expect.poll(async () => (await saved()).categories[0].channels[0].enabled).toBe(false);
  // The app hosts no service worker.
  await expect.poll(() => shown('#push')).toBe('off, fine');
  await page.getByRole('button', { name: 'Enable pushes' }).click();
  await expect.poll(() => shown('#push')).toBe('off, failed');
}

const VANILLA = `
import { createInbox } from '@belfry/inbox';
import type { BelfryInbox } from '@belfry/inbox/element';
import '@belfry/inbox/element';

declare const settings: { baseUrl: string; token: string };

const inbox = createInbox(settings);
const list = inbox.list();
const counts = document.createElement('p');
counts.id = 'counts';
const show = () => {
  const titles = list.getSnapshot().notifications.map(({ title }) => title);
  counts.textContent = inbox.getSnapshot().counts.unread + ' unread: ' + titles.join(', ');
};
inbox.subscribe(show);
list.subscribe(show);
const button = document.createElement('button');
button.textContent = 'Read all of them';
button.onclick = () => void inbox.markAllRead();
const element: BelfryInbox = document.createElement('belfry-inbox');
element.mode = 'embedded';
element.inbox = inbox;
document.querySelector('#app')?.append(counts, button, element);
`;

const REACT = `
import {
  BelfryInbox, InboxProvider, useCounts, useInbox, useInboxState, useNewNotification, useNotifications,
  usePreferences, useWebPush,
} from '@belfry/inbox/react';
import { StrictMode, useState } from 'react';
// @ts-expect-error the test has no types of react-dom
import { createRoot } from 'react-dom/client';

declare const settings: { baseUrl: string; token: string };

function Counts() {
  const { unread } = useCounts();
  const { notifications } = useNotifications();
  const titles = notifications.map(({ title }) => title);
  const inbox = useInbox();
  return (
    <>
      <p id="counts">{unread + ' unread: ' + titles.join(', ')}</p>
      <button onClick={() => inbox.markAllRead()}>Read all of them</button>
    </>
  );
}

function Others() {
  const [arrived, setArrived] = useState('none');
  useNewNotification(({ title }) => setArrived(title));
  const { connection } = useInboxState();
  const { notifications } = useNotifications({ status: 'unread' });
  const { preferences, save } = usePreferences();
  const { status, error, enable } = useWebPush(settings);
  const orders = preferences?.categories.find(({ key }) => key === 'orders');
  const channels = orders?.channels.map(({ name, enabled }) => name + ' ' + enabled).join(', ');
  const off = { name: 'in_app', enabled: false } as const;
  const mute = () => save({ categories: [{ key: 'orders', channels: [off] }] });
  return (
    <>
      <p id="others">{[connection, arrived, notifications.length + ' unread', channels].join('; ')}</p>
      <p id="push">{[status, error ? 'failed' : 'fine'].join(', ')}</p>
      <button onClick={mute}>Mute orders</button>
      <button onClick={enable}>Enable pushes</button>
    </>
  );
}

createRoot(document.querySelector('#app')).render(
  <StrictMode>
    <InboxProvider {...settings}>
      <Counts />
      <Others />
      <BelfryInbox mode="embedded" onNew={({ detail }) => console.log(detail.notification.title)} />
    </InboxProvider>
  </StrictMode>,
);
`;

const VUE = `
import {
  BelfryInbox, provideInbox, useCounts, useInbox, useInboxState, useNotifications, usePreferences, useWebPush,
} from '@belfry/inbox/vue';
import { createApp, defineComponent, h, ref } from 'vue';

declare const settings: { baseUrl: string; token: string };

const Counts = defineComponent(() => {
  const counts = useCounts();
  const { list } = useNotifications();
  const inbox = useInbox();
  return () => [
    h('p', { id: 'counts' }, [
      counts.value.unread + ' unread: ',
      list.value.notifications.map(({ title }) => title).join(', '),
    ]),
    h('button', { onClick: () => inbox.markAllRead() }, 'Read all of them'),
  ];
});

const Others = defineComponent(() => {
  const arrived = ref('none');
  useInbox().onNew(({ title }) => { arrived.value = title; });
  const inbox = useInboxState();
  const { list } = useNotifications(() => ({ status: 'unread' }));
  const { preferences, save } = usePreferences();
  const { state, enable } = useWebPush(settings);
  const off = { name: 'in_app', enabled: false } as const;
  const mute = () => save({ categories: [{ key: 'orders', channels: [off] }] });
  return () => {
    const orders = preferences.value?.categories.find(({ key }) => key === 'orders');
    const channels = orders?.channels.map(({ name, enabled }) => name + ' ' + enabled).join(', ');
    const unread = list.value.notifications.length + ' unread';
    return [
      h('p', { id: 'others' }, [inbox.value.connection, arrived.value, unread, channels].join('; ')),
      h('p', { id: 'push' }, [state.value.status, state.value.error ? 'failed' : 'fine'].join(', ')),
      h('button', { onClick: mute }, 'Mute orders'),
      h('button', { onClick: enable }, 'Enable pushes'),
    ];
  };
});

createApp(
  defineComponent(() => {
    provideInbox(settings);
    return () => [h(Counts), h(Others), h(BelfryInbox, { mode: 'embedded' })];
  }),
).mount('#app');
`;

const APPS = { vanilla: VANILLA, react: REACT, vue: VUE };

const SERVER = `
import '@belfry/inbox/element';
import '@belfry/inbox/web-push/element';
import { createWebPush } from '@belfry/inbox/web-push';
import * as react from '@belfry/inbox/react';
import * as vue from '@belfry/inbox/vue';
import { createElement } from 'react';
import { renderToString } from 'react-dom/server';
import { createSSRApp, h } from 'vue';
import { renderToString as renderVue } from 'vue/server-renderer';

const options = { baseUrl: 'https://notify.example.com/v2', token: 'none' };
const Unread = () => createElement('p', null, String(react.useCounts().unread));
const children = [createElement(Unread, { key: 1 }), createElement(react.BelfryInbox, { key: 2 })];
console.log(renderToString(createElement(react.InboxProvider, options, children)));
const app = createSSRApp({
  setup() {
    vue.provideInbox(options);
    return () => h('main', [h(Counts), h(vue.BelfryInbox)]);
  },
});
const Counts = {
  setup() {
    const counts = vue.useCounts();
    return () => h('p', String(counts.value.unread));
  },
};
console.log(await renderVue(app));
const push = createWebPush(options);
await push.refresh();
console.log(push.getSnapshot().status);
`;

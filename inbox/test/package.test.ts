import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AppPage, servePage } from '../../server/test/support/app-page.ts';
import { describeInChromium, openChromium } from '../../server/test/support/browser.ts';
import { processed, startTestService, type TestService, until } from '../../server/test/support/service.ts';
import { APPS, HOOKS, SERVER } from './support/package-apps.ts';

// Apps with the packed packages: each is type-checked, built with Vite, and opened in Chromium.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));

let service: TestService;
let folder: string;
/** A project with the packed packages installed. */
let consumer: string;

beforeAll(async () => {
  service = await startTestService();
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
  for (const [name, code] of Object.entries({ ...APPS, ...HOOKS })) {
    await mkdir(join(consumer, name));
    const file = name.startsWith('react') ? 'main.tsx' : 'main.ts';
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

test('the guide to web push copies the service worker of the package', async () => {
  const guide = await readFile(join(root, 'docs/guides/web-push.md'), 'utf8');
  const [copy = ''] = /^cp .*service-worker.js$/m.exec(guide) ?? [];
  await mkdir(join(consumer, 'public'));
  await run('sh', ['-c', copy], { cwd: consumer });
  const copied = await readFile(join(consumer, 'public/belfry-service-worker.js'), 'utf8');
  expect(copied).toContain("addEventListener('push'");
});

test('the element, its store and the sanitizer are at most 20 kB', async () => {
  await run(process.execPath, [join(root, 'bin/size.mjs'), consumer]);
});

test('programs find the types of every entry', async () => {
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

  /** Builds an app and opens it for a user. With `isOld`, it has the oldest frameworks that are supported. */
  async function open(name: string, user: string, isOld: boolean): Promise<{ app: AppPage; page: Page }> {
    const settings = {
      baseUrl: `${service.address}/v2`,
      token: service.project.userJwt({ user_external_id: user }),
    };
    const out = join(folder, `${user}-built`);
    await build({
      root: join(consumer, name),
      configFile: false,
      logLevel: 'error',
      define: { settings: JSON.stringify(settings) },
      resolve: { alias: isOld ? OLDEST : {} },
      build: { outDir: out, emptyOutDir: true },
    });
    const entries = await readdir(out, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map(async (path) => [`/${relative(out, path)}`, await readFile(path, 'utf8')] as const);
    const app = await servePage(Object.fromEntries(await Promise.all(files)));
    const context = await browser.newContext();
    const page = await context.newPage();
    page.on('pageerror', (error) => errors.push(error));
    await page.goto(app.url);
    return { app, page };
  }
  const errors: Error[] = [];

  /** Sends notifications to a user. The last one is on top. */
  async function send(user: string, ...broadcasts: object[]): Promise<void> {
    for (const one of broadcasts) {
      const given = { ...one, recipients: [{ external_id: user }] };
      const { body } = await service.project.call('POST', '/broadcasts', given);
      await processed(service.project.call, body.id);
    }
  }

  test.each([
    ['vanilla', false],
    ['react', false],
    ['react', true],
    ['vue', false],
    ['vue', true],
  ])('an app with %s shows the inbox of the user, live (oldest: %s)', async (name, isOld) => {
    const user = isOld ? `${name}-oldest` : name;
    await send(user, { title: 'First' });
    const { app, page } = await open(name, user, isOld);
    const shown = () => page.locator('#counts').textContent();
    await expect.poll(shown).toBe('1 unread: First');
    await send(user, { title: 'Second' });
    await expect.poll(shown).toBe('2 unread: Second, First');
    const titles = page.locator('belfry-inbox').getByText(/^(First|Second)$/);
    await expect.poll(() => titles.allTextContents()).toEqual(['Second', 'First']);
    await page.getByRole('button', { name: 'Read all of them' }).click();
    await expect.poll(shown).toBe('0 unread: Second, First');
    const unread = () => service.project.as(user)('GET', '/notifications/unread/count');
    await expect.poll(async () => (await unread()).body).toEqual({ count: 0 });
    expect(errors).toEqual([]);
    await page.context().close();
    await app.stop();
  });

  test('a page without a bundler shows the inbox, with the import map of the README', async () => {
    await send('plain', { title: 'Without a bundler' });
    const readme = await readFile(join(root, 'inbox/README.md'), 'utf8');
    const [map = ''] = /<script type="importmap">.*?<\/script>/s.exec(readme) ?? [];
    expect(map).toContain('@belfry/inbox/element');
    const token = service.project.userJwt({ user_external_id: 'plain' });
    const html =
      `<!doctype html><html lang="en"><title>App</title>${map}<script type="module">` +
      `import '@belfry/inbox/element';` +
      `document.querySelector('belfry-inbox').token = async () => '${token}';` +
      `</script><belfry-inbox base-url="${service.address}/v2" mode="embedded"></belfry-inbox></html>`;
    const modules = join(consumer, 'node_modules/@belfry');
    const paths = (await readdir(modules, { recursive: true })).filter((path) => path.endsWith('.js'));
    const files = paths.map(
      async (path) => [`/node_modules/@belfry/${path}`, await readFile(join(modules, path), 'utf8')] as const,
    );
    const app = await servePage({ '/index.html': html, ...Object.fromEntries(await Promise.all(files)) });
    const page = await browser.newPage();
    page.on('pageerror', (error) => errors.push(error));
    await page.goto(app.url);
    const inbox = page.locator('belfry-inbox');
    await inbox.getByText('Without a bundler').waitFor();
    // As v-show and Suspense hide it: the styles of the package are shortened, and still select that.
    await inbox.evaluate((element) => element.style.setProperty('display', 'none'));
    expect(await inbox.isHidden()).toBe(true);
    expect(errors).toEqual([]);
    await page.close();
    await app.stop();
  });

  test.each([
    ['react', false],
    ['react', true],
    ['vue', false],
    ['vue', true],
  ])('everything else of %s works (oldest: %s)', async (name, isOld) => {
    const user = `${name}-${crypto.randomUUID()}`; // another attempt has other notifications
    const call = service.project.as(user);
    const channels = [{ channel: 'in_app' }, { channel: 'email' }];
    await service.project.call('PUT', '/channels', { key: 'orders', channels });
    await send(user, { title: 'a' }, { title: 'b' }, { title: 'c' });
    const { app, page } = await open(`${name}-hooks`, user, isOld);
    // A token that becomes valid between two attempts would connect by the fallback. Here that rejects it.
    await page.route('**/notifications/stream*', (route) =>
      route.fulfill({ status: 401, headers: { 'access-control-allow-origin': '*' }, json: { errors: [] } }),
    );
    const text = (id: string) => page.locator(`#${id}`).textContent();
    const press = (button: string) => page.getByRole('button', { name: button, exact: true }).click();

    await expect.poll(() => text('state')).toBe('unauthorized ');
    await press('Log in');
    await expect.poll(() => text('state')).toBe('live websocket');
    await expect.poll(() => text('list')).toBe('c, b');
    await press('More');
    await expect.poll(() => text('list')).toBe('c, b, a');
    await send(user, { title: 'd', action_url: '/d' });
    await expect.poll(() => text('arrived')).toBe('d');
    await expect.poll(() => text('list')).toBe('d, c, b, a');
    await press('Only unread');
    await expect.poll(() => text('list')).toBe('d, c');

    const email = page.getByLabel('Orders by e-mail');
    expect(await email.isChecked()).toBe(true);
    await email.click();
    const isEnabled = async () => {
      const { categories } = (await call('GET', '/channels/user_preferences')).body;
      const { channels } = categories.find(({ key }: { key: string }) => key === 'orders');
      return channels.find(({ name }: { name: string }) => name === 'email').enabled;
    };
    await until(isEnabled, (enabled) => !enabled);
    expect(await email.isChecked()).toBe(false);

    const element = page.locator('belfry-inbox');
    expect(await element.getAttribute('class')).toBe('own');
    const panel = element.locator('.panel');
    await press('Open');
    await panel.waitFor();
    await expect.poll(() => element.locator('h2').textContent()).toBe('Opened');
    expect(await element.locator('.root').getAttribute('data-scheme')).toBe('dark');
    expect(await element.locator('.footer').isHidden()).toBe(true);
    const header = element.locator('.header');
    expect(await header.evaluate((one) => getComputedStyle(one).backgroundColor)).toBe('rgb(1, 2, 3)');
    await element.locator('.primary', { hasText: 'd' }).click();
    await panel.waitFor({ state: 'hidden' });
    await expect.poll(() => text('list')).toBe('c');
    await press('Open');
    await expect.poll(() => text('events')).toMatch(/open.*close.*open/); // those of the browser come later
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'hidden' });
    await press('Fail');
    await expect.poll(() => text('error')).toContain('archive: 400');
    const events = ((await text('events')) ?? '').split(', ').filter((one) => !one.endsWith('unread'));
    const ofElement = ['new d', 'open', `click ${app.url}d`, 'close', 'open', 'close', 'error'];
    expect(events.slice(events.indexOf('new d'))).toEqual(ofElement);
    await expect.poll(() => text('events')).toMatch(/4 unread.*3 unread/);

    await expect.poll(() => text('push')).toBe('denied'); // it works in Firefox: web-push.test.ts
    expect(errors).toEqual([]);
    await page.context().close();
    await app.stop();
  });
});

/** The oldest versions that the package supports. */
const OLDEST = Object.fromEntries(
  [
    ['react', 'react-18'],
    ['react-dom', 'react-dom-18'],
    ['vue', 'vue-3.3'],
  ].map(([name, folder]) => [name, join(root, 'node_modules', folder as string)]),
);

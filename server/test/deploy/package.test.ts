import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startBelfry } from '../support/belfry-process.ts';

// The published package `belfry`, installed in an empty folder by a user with an empty home. By default its
// dependencies are those of this copy. `npm run proof:package` lets npm install the packed package.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const withNpm = process.env.PACKAGE_BY_NPM === '1';

interface Lock {
  packages: Record<string, { version: string }>;
}

interface Manifest {
  dependencies: Record<string, string>;
}

let folder: string;
let home: string;
/** The installed package. */
let installed: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-package-'));
  home = join(folder, 'home');
  const consumer = join(folder, 'consumer');
  installed = join(consumer, 'node_modules/belfry');
  await mkdir(home);
  await mkdir(join(consumer, 'node_modules'), { recursive: true });
  await (withNpm ? installByNpm(consumer) : installByLinks(consumer));
}, 600_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Packs all packages, and installs them as a user does. */
async function installByNpm(consumer: string): Promise<void> {
  const { stdout } = await run(process.execPath, [join(root, 'bin/build.mjs'), join(folder, 'packed')]);
  console.log(stdout.trim());
  const archives = (await readdir(join(folder, 'packed')))
    .filter((name) => name.endsWith('.tgz'))
    .map((name) => join(folder, 'packed', name));
  await writeFile(join(consumer, 'package.json'), '{"name":"consumer","private":true}');
  const startedAt = performance.now();
  await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...archives], {
    cwd: consumer,
    env: { ...process.env, HOME: home, npm_config_cache: join(home, '.npm') },
  });
  console.log(`npm installed them in ${Math.round(performance.now() - startedAt)} ms`);
}

/** Builds the package, and links what its lock file names. */
async function installByLinks(consumer: string): Promise<void> {
  await build(installed);
  const lock = JSON.parse(await readFile(join(installed, 'npm-shrinkwrap.json'), 'utf8')) as Lock;
  for (const [path, { version }] of Object.entries(lock.packages)) {
    if (!/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path)) continue;
    const places = [join(root, 'server', path), join(root, path)];
    const found = await Promise.all(places.map(async (place) => (await versionAt(place)) === version));
    const place = places[found.indexOf(true)];
    if (place === undefined) continue; // for another platform
    await mkdir(dirname(join(consumer, path)), { recursive: true });
    await symlink(place, join(consumer, path));
  }
}

async function build(target: string): Promise<void> {
  const program = `import(${JSON.stringify(pathToFileURL(join(root, 'bin/build-program.mjs')).href)})`;
  await run(process.execPath, ['-e', `${program}.then((m) => m.buildProgram(process.argv[1]))`, target]);
}

async function versionAt(place: string): Promise<string | undefined> {
  const text = await readFile(join(place, 'package.json'), 'utf8').catch(() => '{}');
  return (JSON.parse(text) as { version?: string }).version;
}

test('the package has only what it runs, and no tool that builds pages', async () => {
  const files = await readdir(installed, { recursive: true, withFileTypes: true });
  const unexpected = files
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installed, join(entry.parentPath, entry.name)))
    .filter((path) => !ALLOWED.test(path) || /(^|\/)test\/|\.test\.ts$/.test(path));
  expect(unexpected).toEqual([]);
  expect(Object.keys(JSON.parse(await readFile(join(installed, 'package.json'), 'utf8')))).toEqual([
    'name',
    'version',
    'description',
    'license',
    'type',
    'engines',
    'bin',
    'dependencies',
    'optionalDependencies',
  ]);
  const lock = JSON.parse(await readFile(join(installed, 'npm-shrinkwrap.json'), 'utf8')) as Lock;
  const needed = Object.keys(lock.packages).map((path) => path.replace('node_modules/', ''));
  expect(needed).toEqual(expect.arrayContaining(['fastify', 'pg', 'undici']));
  const clone = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Manifest;
  const server = JSON.parse(await readFile(join(root, 'server/package.json'), 'utf8')) as Manifest;
  const tools = Object.keys(clone.dependencies).filter((name) => !(name in server.dependencies));
  expect(tools).toContain('esbuild');
  expect(needed.filter((name) => tools.includes(name))).toEqual([]);
});

test.skipIf(withNpm)('another build of the same source has the same files, byte for byte', async () => {
  const second = join(folder, 'second');
  await build(second);
  const [first, other] = await Promise.all([hashesIn(installed), hashesIn(second)]);
  expect(other.size).toBeGreaterThan(100);
  expect([...other].filter(([path, digest]) => first.get(path) !== digest)).toEqual([]);
  expect(other.size).toBe(first.size);
});

async function hashesIn(directory: string): Promise<Map<string, string>> {
  const files = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = files.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    await Promise.all(
      paths.map(async (path) => [relative(directory, path), hash('sha256', await readFile(path))] as const),
    ),
  );
}

const ALLOWED = new RegExp(
  [
    '^(LICENSE|README\\.md|CHANGELOG\\.md|package\\.json|npm-shrinkwrap\\.json)$',
    '^bin/(belfry|runtime)\\.mjs$',
    '^docs-site/[0-9a-f]{32}/([\\w.-]+/)*[\\w.-]+$',
    '^inbox/demo/demo\\.(js|css)$|^inbox/src/web-push/service-worker\\.js$',
    '^server/package\\.json$|^server/src/([\\w.-]+/)*[\\w.-]+\\.(js|sql|br|svg|png|ico|css|html|gz|md)$',
  ].join('|'),
);

test('it starts, delivers to an inbox, shows its pages and stops', async () => {
  const server = await startBelfry(join(folder, 'data'), { HOME: home }, join(installed, 'bin/belfry.mjs'));
  onTestFinished(() => server.killTree());
  if (withNpm) console.log(`it was ready after ${Math.round(server.readyAfterMs)} ms`);
  const { address, credentials } = server;
  const belfry = (...args: string[]) =>
    run(process.execPath, [join(installed, 'bin/belfry.mjs'), ...args], {
      env: { PATH: process.env.PATH, HOME: home, DATA_DIR: join(folder, 'data') },
    });
  const sent = await belfry('send', '--to', 'ada', '--title', 'Hello', '--wait', '--json');
  expect(JSON.parse(sent.stdout)).toMatchObject({ title: 'Hello', status: { status: 'processed' } });

  const { stdout } = await belfry('token', 'user', '--external-id', 'ada');
  const inbox = await fetch(`${address}/v2/notifications`, {
    headers: { authorization: `Bearer ${stdout.trim()}` },
  });
  expect(await inbox.json()).toMatchObject({ data: [{ title: 'Hello' }] });

  const call = (method: string, path: string, body: object) =>
    fetch(`${address}/v2${path}`, {
      method,
      headers: { authorization: `Bearer ${credentials.project_jwt}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  // Long bodies are parsed, and previews rendered, in threads with files of their own.
  const content = 'x'.repeat(2_000_000);
  const long = await call('POST', '/broadcasts', {
    title: 'L',
    content,
    recipients: [{ external_id: 'ada' }],
  });
  expect(long.status).toBe(201);
  const template = { default_locale: 'en', locales: { en: { title: 'Hello {{ data.name }}' } } };
  expect((await call('PUT', '/templates/hello', template)).status).toBe(200);
  const preview = await call('POST', '/templates/hello/preview', {
    channel: 'in_app',
    data: { name: 'Ada' },
  });
  expect(await preview.json()).toMatchObject({ title: 'Hello Ada' });

  const demo = await (await fetch(`${address}/demo`)).text();
  const script = /src="(\/demo\/[^"]+\.js)"/.exec(demo)?.[1];
  expect((await fetch(`${address}${script}`)).status).toBe(200);
  expect(await (await fetch(`${address}/docs`)).text()).toContain('API reference');
  expect(await (await fetch(`${address}/docs/guides/first-steps/`)).text()).toContain('First steps');

  server.signal('SIGTERM');
  expect(await server.ended).toBe(0);
});

test('every line of its code is as long as in the source, so that stack traces fit', async () => {
  const files = await readdir(join(installed, 'server/src'), { recursive: true });
  const changed: string[] = [];
  for (const file of files.filter((name) => name.endsWith('.js') && name !== 'typebox.js')) {
    const [source, built] = await Promise.all([
      readFile(join(root, 'server/src', file.replace(/js$/, 'ts')), 'utf8'),
      readFile(join(installed, 'server/src', file), 'utf8'),
    ]);
    if (lengthsOf(source).join() !== lengthsOf(built).join()) changed.push(file);
  }
  expect(changed).toEqual([]);
});

const lengthsOf = (text: string) => {
  const sameImports = text.replace(/from '[./]*typebox(\.js)?'/g, "from 'typebox'");
  return sameImports.split('\n').map((line) => line.length);
};

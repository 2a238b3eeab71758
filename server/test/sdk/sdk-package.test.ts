import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createContext, runInContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestService, type TestService } from '../support/service.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../../', import.meta.url));
const sdk = join(root, 'sdk');

let service: TestService;
let folder: string;
/** A project with the published package installed. */
let consumer: string;
let packed: { name: string; files: { path: string }[]; size: number };

beforeAll(async () => {
  service = await startTestService();
  folder = await mkdtemp(join(tmpdir(), 'belfry-sdk-'));
  consumer = join(folder, 'consumer');
  await run(process.execPath, [join(sdk, 'build.mjs'), join(folder, 'package')]);
  const npm = (args: string[], cwd: string) =>
    run('npm', [...args, '--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd,
      env: { ...process.env, npm_config_cache: join(folder, 'cache') }, // empty, so nothing else is installed
    });
  const { stdout } = await npm(['pack', '--json', '--pack-destination', folder], join(folder, 'package'));
  const listed: unknown = JSON.parse(stdout);
  // An array up to npm 11, later an object by name.
  packed = Object.values(listed as Record<string, typeof packed>)[0] as typeof packed;
  await mkdir(consumer);
  await writeFile(join(consumer, 'package.json'), '{"name":"consumer","private":true,"type":"module"}');
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz'));
  await npm(['install', join(folder, archive ?? 'nothing was packed')], consumer);
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});

test('the package has only its code, declarations, examples and texts', async () => {
  const unexpected = packed.files
    .map(({ path }) => path)
    .filter(
      (path) =>
        !/^(dist\/[\w/-]+\.(js|d\.ts)|examples\/[\w-]+\.ts|README\.md|LICENSE|package\.json)$/.test(path),
    );
  expect(unexpected).toEqual([]);
  const manifest: Record<string, unknown> = JSON.parse(
    await readFile(join(consumer, 'node_modules/@belfry/sdk/package.json'), 'utf8'),
  );
  expect(manifest).toMatchObject({ name: '@belfry/sdk', type: 'module', sideEffects: false });
  for (const absent of [
    'private',
    'dependencies',
    'devDependencies',
    'peerDependencies',
    'optionalDependencies',
    'scripts',
  ])
    expect(manifest).not.toHaveProperty(absent);
  expect(await readdir(join(consumer, 'node_modules/@belfry'))).toEqual(['sdk']);
});

/** Every installed Node: the one that runs this test, and those in the PATH. */
const nodes = [
  process.execPath,
  ...(process.env.PATH ?? '')
    .split(delimiter)
    .map((path) => join(path, process.platform === 'win32' ? 'node.exe' : 'node'))
    .filter((path) => existsSync(path)),
];

test('plain JavaScript imports it and calls a server, in every installed Node from 20 on', async () => {
  await writeFile(join(consumer, 'main.js'), CALL);
  const versions = new Set<string>();
  for (const node of nodes) {
    const version = (await run(node, ['--version'])).stdout.trim();
    if (versions.has(version) || Number.parseInt(version.slice(1), 10) < 20) continue;
    versions.add(version);
    const { stdout, stderr } = await run(node, ['main.js'], { cwd: consumer, env: environment() });
    expect({ version, stdout, stderr }).toEqual({ version, stdout: 'notifications/new Hello\n', stderr: '' });
  }
  expect([...versions]).toContain(process.version);
});

test('programs in TypeScript and in its README find its types', async () => {
  const readme = await readFile(join(sdk, 'README.md'), 'utf8');
  const blocks = [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = '']) => code);
  expect(blocks.length).toBeGreaterThan(8);
  for (const [index, code] of blocks.entries()) {
    const names = [...code.matchAll(/^import { (.*) } from '@belfry\/sdk';\n/gm)].flatMap(
      ([, list = '']) => list,
    );
    const declared = ['belfry: ProjectClient', 'inbox: UserClient']
      .filter((name) => !new RegExp(`const ${name.split(':')[0]}\\b`).test(code))
      .map((name) => `declare const ${name};\n`);
    const types = ['ProjectClient', 'UserClient'].filter((name) => !names.join().includes(name));
    const imports = types.length > 0 ? `import type { ${types.join(', ')} } from '@belfry/sdk';\n` : '';
    await writeFile(join(consumer, `readme-${index}.ts`), `${imports}${declared.join('')}${code}`);
  }
  await writeFile(join(consumer, 'main.ts'), TYPES);
  await cp(join(consumer, 'node_modules/@belfry/sdk/examples'), join(consumer, 'examples'), {
    recursive: true,
  });
  await mkdir(join(consumer, 'node_modules/@types'));
  for (const name of ['@types/node', 'undici-types'])
    await symlink(join(root, 'node_modules', name), join(consumer, 'node_modules', name));
  for (const moduleResolution of ['nodenext', 'bundler']) {
    const compilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      target: 'es2022',
      lib: ['es2023', 'dom', 'dom.iterable'],
      types: ['node'],
      skipDefaultLibCheck: true, // ours are checked, those of the compiler take long
      module: moduleResolution === 'nodenext' ? 'nodenext' : 'esnext',
      moduleResolution,
      noEmit: true,
    };
    const include = ['*.ts', 'examples'];
    await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const refused = await run(process.execPath, [tsc, '-p', consumer]).then(
      () => '',
      (error: { stdout: string; message: string }) => error.stdout || error.message,
    );
    expect(refused).toBe('');
  }
});

describe('in a browser', () => {
  let bundle: string;

  beforeAll(async () => {
    bundle = await bundled('export * from "@belfry/sdk";', 'whole');
  });

  test('it needs nothing of Node', async () => {
    expect(bundle).not.toMatch(/node:|\brequire\(|\bprocess\b|\bBuffer\b/);
    const printed: unknown[] = [];
    // The globals of a page, without those of Node.
    const page = {
      AbortController,
      AbortSignal,
      clearTimeout,
      crypto,
      Error,
      fetch,
      Headers,
      setTimeout,
      TextDecoder,
      TextEncoder,
      TypeError,
      URL,
      URLSearchParams,
      btoa,
      performance,
      console: { log: (...parts: unknown[]) => printed.push(parts.join(' ')) },
    };
    const { apiKey, apiSecret, jwt } = service.project;
    const credentials = JSON.stringify([`${service.address}/v2`, jwt, apiKey, apiSecret]);
    const call = CALL.replace(
      /^import .*$/m,
      'const { createUserToken, ProjectClient, UserClient } = sdk;',
    ).replace(/^const {.*} = process\.env;$/m, `const [BASE, JWT, KEY, SECRET] = ${credentials};`);
    await runInContext(`${bundle};\n(async () => {${call}})()`, createContext(page));
    expect(printed).toEqual(['notifications/new Hello']);
  });

  test('it is small, and a page with an inbox does not include the project client', async () => {
    const user = await bundled('export { UserClient } from "@belfry/sdk";', 'user');
    expect(user).not.toContain('/broadcasts');
    expect(user).not.toContain('HS256');
    const bytes = { whole: gzipSync(bundle).length, user: gzipSync(user).length };
    // The limit only detects large additions.
    expect(bytes.user).toBeLessThan(8_000);
    expect(bytes.whole).toBeLessThan(12_000);
  });
});

/** Bundles the package as one minified script for a page. */
async function bundled(code: string, name: string): Promise<string> {
  await writeFile(join(consumer, `${name}.js`), code);
  const out = join(folder, `${name}.min.js`);
  const rolldown = join(root, 'node_modules/rolldown/bin/cli.mjs');
  const options = ['--format', 'iife', '--name', 'sdk', '--platform', 'browser', '--minify', '--file', out];
  await run(process.execPath, [rolldown, join(consumer, `${name}.js`), ...options], { cwd: consumer });
  return readFile(out, 'utf8');
}

function environment(): Record<string, string> {
  const { apiKey, apiSecret, jwt } = service.project;
  return { BASE: `${service.address}/v2`, JWT: jwt, KEY: apiKey, SECRET: apiSecret };
}

// Calls, a list, a stream and a token, because these depend on the platform.
const CALL = `
import { createUserToken, ProjectClient, UserClient } from '@belfry/sdk';
const { BASE, JWT, KEY, SECRET } = process.env;
const belfry = new ProjectClient({ baseUrl: BASE, token: JWT });
const externalId = 'user-' + Math.random();
const token = await createUserToken({ apiKey: KEY, apiSecret: SECRET, externalId });
const inbox = new UserClient({ baseUrl: BASE, token });
const recipients = [{ external_id: externalId }];
const onOpen = () => void belfry.broadcasts.create({ title: 'Hello', recipients });
for await (const event of inbox.notifications.stream({ onOpen })) {
  console.log(event.name, event.data.notification.title);
  break;
}
let count = 0;
for await (const { title } of inbox.notifications.list({ limit: 1 })) count += 1;
if (count !== 1) throw new Error('listed ' + count);
`;

// Errors are expected where marked. If a type becomes too wide, its mark is unused, which is an error, too.
const TYPES = `
import { type Broadcast, type BroadcastInput, type Channel, type Page, type PageRequest } from '@belfry/sdk';
import { ProjectClient, type User, UserClient, verifyWebhook } from '@belfry/sdk';

const belfry = new ProjectClient({ baseUrl: 'http://localhost/v2', token: 'x' });
const body: BroadcastInput = { title: 'x', recipients: [{ email: 'a@example.com' }] };
export const broadcast: Broadcast = await belfry.broadcasts.create(body);
export const users: PageRequest<User> = belfry.users.list();
export const page: Page<User> = await users;
export const all: Promise<Page<User>> = users;
export const title: string = broadcast.title;
export const content: string | null = broadcast.content;

for await (const event of belfry.events.list({ type: 'delivery.*' })) {
  if (event.type === 'delivery.failed') {
    const channel: Channel = event.context.channel;
    const failed: number | undefined = event.payload?.failed;
    console.log(channel, failed, event.context.provider?.length);
    // @ts-expect-error this is a payload of other types
    const url: string = event.payload?.url;
  }
  if (event.type === 'delivery.clicked') console.log(event.payload?.url.length);
  if (event.type === 'workflow.saved') console.log(event.context.workflow_key.length);
  // @ts-expect-error some types have no context
  console.log(event.context.channel);
}
for await (const event of belfry.events.stream())
  if ('type' in event && event.type === 'token.saved') console.log(event.context.channel.length);
const message = await verifyWebhook({ headers: new Headers(), body: '', secret: 'whsec_' });
if (message.type === 'delivery.failed') console.log(message.data.context.delivery_id.length);
// @ts-expect-error there is no such type
if (message.type === 'delivery.lost') console.log(message);

// @ts-expect-error a broadcast has a title
await belfry.broadcasts.create({ recipients: [{ external_id: '42' }] });
// @ts-expect-error a recipient is named by external_id or email
await belfry.broadcasts.create({ title: 'x', recipients: [{ first_name: 'Ada' }] });
// @ts-expect-error it is called external_id
await belfry.broadcasts.create({ title: 'x', recipients: [{ externalId: '42' }] });
// @ts-expect-error an id is a string
await belfry.broadcasts.get(42);
// @ts-expect-error broadcasts are the project's
new UserClient({ baseUrl: 'http://localhost/v2', token: 'x' }).broadcasts;
`;

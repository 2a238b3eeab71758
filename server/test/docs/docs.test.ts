import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { highlight } from '../../../docs/site/build/highlight.ts';
import { DocsSite } from '../../src/http/docs/site.ts';
import { filesAt, ROOT } from '../../src/http/docs/sources.ts';
import { createLogger } from '../../src/lib/log.ts';
import { startTestService, type TestService } from '../support/service.ts';

const run = promisify(execFile);

let it: TestService;
beforeAll(async () => {
  it = await startTestService();
  // If the build fails, this shows the reason. The tests would only get a 500.
  await new DocsSite({ log: createLogger({ level: 'silent' }) }).files();
});
afterAll(() => it.stop());

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  it.request(method, path, { headers });

test('the API reference of both versions shows what this server describes', async () => {
  for (const [path, document] of [
    ['/docs/api', '/v2/openapi.json'],
    ['/docs/api/', '/v2/openapi.json'],
    ['/docs/v1', '/v1/openapi.json'],
  ] as const) {
    const page = await get(path);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.text).toContain(`data-document="${document}"`);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  }
});

test('/docs leads to the guides and to the API reference', async () => {
  for (const path of ['/docs', '/docs/']) {
    const { status, text } = await get(path);
    expect(status).toBe(200);
    for (const page of ['guides/first-steps/', 'guides/deploying/', 'api/', 'v1/'])
      expect(text).toContain(`<a href="/docs/${page}">`);
  }
});

test('a page loads nothing from other hosts, and all its files exist', async () => {
  for (const path of ['/docs', '/docs/api', '/docs/guides/channels/']) {
    const page = await get(path);
    const head = page.text.slice(0, page.text.indexOf('</head>'));
    const files = [...head.matchAll(/(?:src|href|data-\w+)="([^"]+)"/g)].map(([, file]) => file ?? '');
    expect(files.length).toBeGreaterThan(4);
    for (const file of files) {
      expect(file).toMatch(/^\/docs\//);
      expect((await get(file)).status, file).toBe(200);
    }
  }
});

test('every link of every page leads to a page, a heading or a file', async () => {
  const { body: sections } = await get('/docs/search.json');
  const pages = new Map<string, Promise<string>>();
  const read = (path: string) => {
    const known = pages.get(path) ?? get(path).then(({ status, text }) => (status === 200 ? text : ''));
    pages.set(path, known);
    return known;
  };
  const starts = new Set((sections as { href: string }[]).map(({ href }) => href.split('#')[0] ?? ''));
  expect(starts.size).toBeGreaterThan(40);
  const broken: string[] = [];
  for (const path of starts) {
    const html = await read(path);
    for (const [, href = ''] of html.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      if (/^[a-z]+:/.test(href)) continue;
      const [target = '', id] = href.split('#');
      const text = await read(target === '' ? path : target);
      if (text === '' || (id !== undefined && !text.includes(` id="${id}"`))) broken.push(`${path}: ${href}`);
    }
  }
  expect(broken).toEqual([]);
});

test('code has colours without a script, and stays what it is for the search', async () => {
  const { text } = await get('/docs/guides/webhooks/');
  expect(text).toContain('<span class="hljs-');
  const files = await Promise.all(
    filesAt('docs')
      .filter((file) => file.endsWith('.md'))
      .map((file) => readFile(join(ROOT, file), 'utf8')),
  );
  const languages = files.flatMap((file) => [...file.matchAll(/^ *```(\w+)/gm)].map(([, name = '']) => name));
  const plain = ['mermaid', 'text'];
  for (const name of new Set(languages.filter((one) => !plain.includes(one))))
    expect([name, highlight('x', name)]).toEqual([name, expect.any(String)]);
  const { body: sections } = await get('/docs/search.json');
  const texts = (sections as { text: string }[]).map(({ text }) => text).join('\n');
  expect(texts).toContain(`JSON='Content-Type: application/json'`);
  expect(texts).not.toMatch(/hljs-|&#x27;/);
});

test('every guide is in the sidebar once', async () => {
  const { text } = await get('/docs/guides/first-steps/');
  const sidebar = text.slice(text.indexOf('id="sidebar"'), text.indexOf('<main'));
  const links = [...sidebar.matchAll(/href="([^"]+)"/g)].map(([, href]) => href ?? '');
  const guides = filesAt('docs').filter((file) => /^docs\/(guides\/|reference\/)?[^/]+\.md$/.test(file));
  for (const guide of guides) {
    const href = guide
      .replace(/^docs/, '/docs')
      .replace(/README\.md$|\.md$/, (end) => (end === '.md' ? '/' : ''));
    expect(links.filter((link) => link === href)).toEqual([href]);
  }
});

test('a page is sent with or without a slash at the end, and to HEAD without a body', async () => {
  const page = await get('/docs/guides/channels/');
  expect((await get('/docs/guides/channels')).text).toBe(page.text);
  const head = await get('/docs/guides/channels', {}, 'HEAD');
  expect([head.status, head.text, head.headers.get('etag')]).toEqual([200, '', page.headers.get('etag')]);
});

test('pages are validated, and their files cached for ever', async () => {
  const page = await get('/docs/guides/channels');
  expect(page.headers.get('cache-control')).toBe('no-cache');
  const etag = page.headers.get('etag') ?? '';
  const cached = await get('/docs/guides/channels', { 'if-none-match': etag });
  expect([cached.status, cached.text]).toEqual([304, '']);
  const [, script = ''] = /src="([^"]+theme[^"]+)"/.exec(page.text) ?? [];
  const file = await get(script);
  expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
});

test('files are compressed for clients that accept it', async () => {
  const page = await get('/docs/guides/channels');
  const { headers, body } = await raw('/docs/guides/channels', { 'accept-encoding': 'br, gzip' });
  expect(headers['content-encoding']).toBe('gzip');
  expect(gunzipSync(body).toString()).toBe(page.text);
  const plain = await raw('/docs/guides/channels', { 'accept-encoding': 'gzip;q=0' });
  expect([plain.headers['content-encoding'], plain.body.toString()]).toEqual([undefined, page.text]);
  expect(plain.headers.vary).toContain('accept-encoding');
});

test('unknown paths get a page or an error, and no path leaves the site', async () => {
  for (const path of [
    '/docs/nothing',
    '/docs/guides',
    '/docs/../package.json',
    '/docs/../../../../../../etc/passwd',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/files/../../package.json',
    '/docs//etc/passwd',
    '/docs/index.html.gz',
    '/docs/__proto__',
    `/docs/${'x'.repeat(5_000)}`,
  ]) {
    const page = await raw(path, { accept: BROWSER });
    expect([page.status, page.headers['content-type']], path).toEqual([404, 'text/html; charset=utf-8']);
    const error = await raw(path, { accept: 'application/json' });
    expect([error.status, JSON.parse(error.body.toString()).errors[0].code], path).toEqual([
      404,
      'not_found',
    ]);
  }
});

/** Sends a path as it is: `fetch` would resolve its dots. */
async function raw(path: string, headers: Record<string, string>) {
  const sent = request(it.address, { path, headers }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) };
}

describe('the build', () => {
  const log = createLogger({ level: 'silent' });
  let cache: string;
  let built: string[][];
  beforeAll(async () => {
    cache = await mkdtemp(join(tmpdir(), 'belfry-docs-'));
    const old = new Date(Date.now() - 25 * 60 * 60_000);
    for (const name of ['former', 'new-killed', 'recent']) {
      await mkdir(join(cache, name));
      if (name !== 'recent') await utimes(join(cache, name), old, old);
    }
    const sites = [new DocsSite({ log, cache }), new DocsSite({ log, cache })];
    const files = await Promise.all(sites.map((site) => site.files()));
    built = files.map((paths) => [...paths.keys()]);
  });
  afterAll(() => rm(cache, { recursive: true, force: true }));

  /** The folder of the built site. */
  const folder = async () => {
    const names = (await readdir(cache)).filter((name) => /^[0-9a-f]{32}$/.test(name));
    expect(names).toHaveLength(1);
    return join(cache, names[0] ?? '');
  };

  test('has one result for servers that start together, and for those that start later', async () => {
    expect(built[0]).toContain('guides/channels/');
    expect(built[1]).toEqual(built[0]);
    const file = join(await folder(), 'v1', 'index.html');
    await rm(file);
    expect((await new DocsSite({ log, cache }).files()).has('v1/')).toBe(false);
  });

  test('removes what former sources and killed builds have left for a day', async () => {
    expect((await readdir(cache)).sort()).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), 'recent']);
  });

  test('can be read by another user than the one that builds it, such as root', async () => {
    const site = await folder();
    for (const path of await readdir(site, { recursive: true })) {
      const { mode } = await stat(join(site, path));
      expect([path, mode & 0o004]).toEqual([path, 0o004]);
    }
    expect((await stat(site)).mode & 0o005).toBe(0o005);
  });

  test('ends with the server', async () => {
    const site = new DocsSite({ log, cache: join(cache, 'ended') });
    const files = site.files();
    site.close();
    await expect(files).rejects.toThrow('abort');
  });

  test('that fails is logged and shown, and the rest of the server works', async () => {
    const service = await startTestService({ http: { docsCache: '/dev/null/cache' } });
    const page = await service.request('GET', '/docs/guides/channels', { headers: { accept: BROWSER } });
    expect([page.status, page.headers.get('content-type')]).toEqual([500, 'text/html; charset=utf-8']);
    expect(page.text).toContain('The documentation could not be built');
    expect(page.text).not.toContain('/dev/null');
    expect(service.logged.join('')).toContain('/dev/null/cache');
    expect((await service.request('GET', '/v2/openapi.json')).status).toBe(200);
    await service.stop();
  });

  test('writes a folder for a web server, under any path', async () => {
    const output = join(cache, 'alone');
    const { stderr } = await run(process.execPath, [
      join(ROOT, 'docs/site/build/main.ts'),
      ...[output, '--base', '/help/'],
    ]);
    expect(stderr).toBe('');
    const files = await readdir(output, { recursive: true });
    for (const file of [
      'index.html',
      'api/index.html',
      'v1/index.html',
      'openapi.json',
      'openapi-v1.json',
      'search.json',
    ])
      expect(files).toContain(file);
    const reference = await readFile(join(output, 'api', 'index.html'), 'utf8');
    expect(reference).toContain('data-document="/help/openapi.json"');
    const start = await readFile(join(output, 'index.html'), 'utf8');
    expect(start).toContain('href="/help/guides/first-steps/"');
    for (const page of [reference, start]) expect(page).not.toContain('"/docs/');
  });
});

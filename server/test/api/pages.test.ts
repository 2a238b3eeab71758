import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../src/db/client.ts';
import { LANGUAGES } from '../../src/domain/ground/catalogues/languages.ts';
import { VERSION } from '../../src/lib/version.ts';
import { startTestService, type TestService } from '../support/service.ts';

let it: TestService;
beforeAll(async () => {
  it = await startTestService();
});
afterAll(() => it.stop());

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const get = (path: string, headers: Record<string, string>, method = 'GET') =>
  it.request(method, path, { headers });

test('browsers get a start page with the state of the server and links', async () => {
  const page = await get('/', { accept: BROWSER });
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  for (const part of ['<h1>Belfry</h1>', 'This server is ready.', VERSION]) expect(page.text).toContain(part);
  const links = [...page.text.matchAll(/<a href="([^"]+)">/g)].map(([, href]) => href);
  expect(links).toEqual(['demo', 'docs/guides/first-steps', 'docs/api']);
  expect((await get('/', { accept: BROWSER }, 'HEAD')).status).toBe(200);
});

test('the start page gives the reason why the server is not ready', async () => {
  const { db } = it.context;
  await db.query(sql('add_newer', "insert into migrations (version, name) values (9999, 'newer')"));
  const page = await get('/', { accept: BROWSER });
  expect(page.status).toBe(503);
  expect(page.text).toContain(
    'This server is not ready: the database has schema 9999, made by a newer Belfry: ' +
      'it needs a release that knows schema 9999, and this one knows ',
  );
  await db.query(sql('remove_newer', 'delete from migrations where version = 9999'));
});

test('other clients get the same errors everywhere', async () => {
  for (const path of ['/', '/nothing', '/v2/nothing', '/docs-and-more'])
    for (const accept of ['application/json', '*/*', 'application/json, text/html']) {
      const response = await get(path, { accept });
      expect([response.status, response.codes]).toEqual([404, ['not_found']]);
      expect(response.messages).toEqual([`There is nothing at GET ${path}`]);
    }
  const posted = await it.request('POST', '/', { headers: { accept: BROWSER } });
  expect([posted.status, posted.codes]).toEqual([404, ['not_found']]);
});

test.each([...LANGUAGES.values()])('browsers get a page for unknown paths in $lang', async (language) => {
  const { lang, dir, texts } = language;
  const page = await get('/nothing/<script>', { accept: BROWSER, 'accept-language': lang });
  expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
  expect(page.text).toContain(`<html lang="${lang}" dir="${dir}">`);
  expect(page.text).toContain(texts.notFoundTitle);
  expect(page.text).toContain('<a href="/">');
  expect(page.text).not.toContain('<script');
});

test.each([
  ['/favicon.svg', 'image/svg+xml', '<svg'],
  ['/favicon.ico', 'image/x-icon', '\0\0\u0001\0'],
  ['/apple-touch-icon.png', 'image/png', 'PNG'],
])('%s is the icon', async (path, type, start) => {
  const icon = await get(path, { accept: 'image/*' });
  expect([icon.status, icon.headers.get('content-type')]).toEqual([200, type]);
  expect(icon.headers.get('cache-control')).toBe('public, max-age=86400');
  expect(icon.text.slice(0, 10)).toContain(start);
});

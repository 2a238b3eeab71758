import { createHash } from 'node:crypto';
import { buildClientSchema, printSchema } from 'graphql';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { schemaText } from '../../src/http/graphql/schema.ts';
import { startTestService, type TestService } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

const get = (path: string, accept: string) => service.request('GET', path, { headers: { accept } });
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

test('a browser gets GraphiQL without a credential, and all its files from this server', async () => {
  const page = await get('/graphql', BROWSER);
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const policy = page.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(page.text).not.toMatch(/https?:/);
  const [, script = ''] = /<script>(.*?)<\/script>/s.exec(page.text) ?? [];
  expect(policy).toContain(`'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  const files = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
  expect(files).toEqual(['/graphql/graphiql.css', '/graphql/graphiql.js']);
  for (const [path, type] of [
    ['/graphql/graphiql.css', 'text/css'],
    ['/graphql/graphiql.js', 'text/javascript'],
  ] as const) {
    const file = await get(path, '*/*');
    expect([file.status, file.headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`]);
    expect(file.text.length).toBeGreaterThan(10_000);
    expect(file.text).not.toContain('sourceMappingURL');
  }
});

test('its schema is the published one', async () => {
  const { body } = await get('/graphql/schema.json', 'application/json');
  expect(`${printSchema(buildClientSchema(body.data))}\n`).toBe(schemaText());
});

test('other clients get no page', async () => {
  const query = '/graphql?query={__typename}';
  expect((await get(query, BROWSER)).status).toBe(401);
  for (const accept of ['application/json', '*/*', 'application/graphql-response+json, text/html'])
    expect((await get('/graphql', accept)).status).toBe(401);
});

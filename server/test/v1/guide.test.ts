import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describedBy } from '../support/operations.ts';
import { startTestService, type TestService } from '../support/service.ts';

// The examples of docs/guides/from-v1.md run, and there is one for every operation of v1.

const guide = readFileSync(new URL('../../../docs/guides/from-v1.md', import.meta.url), 'utf8');
const [, functions = '', ...examples] = [...guide.matchAll(/^```sh\n(.*?)^```/gms)].map(([, text]) => text);

let it: TestService;
beforeAll(async () => {
  it = await startTestService();
  const channels = ['in_app', 'email'].map((channel) => ({ channel }));
  await it.project.call('PUT', '/channels', { key: 'billing', channels });
});
afterAll(() => it.stop());

test('its examples run', async () => {
  const withoutIssuing = functions.replace(/^BELFRY_USER_JWT=.*\n/m, '');
  const script = ['set -euo pipefail', withoutIssuing, ...examples].join('\n');
  const { apiKey, apiSecret, jwt, userJwt } = it.project;
  await promisify(execFile)('bash', ['-c', script], {
    env: {
      PATH: process.env.PATH,
      BELFRY_URL: it.address,
      BELFRY_API_KEY: apiKey,
      BELFRY_API_SECRET: apiSecret,
      BELFRY_PROJECT_JWT: jwt,
      BELFRY_USER_JWT: userJwt({ user_external_id: 'ada' }),
    },
  });
});

test('it has an example of every operation', () => {
  const { operations } = describedBy(it.http.fastify.swaggerV1() as unknown as Record<string, unknown>);
  const calls = [...examples.join('').matchAll(/\bv1(?:_user)? ([A-Z]+) ['"]?([^\s'"?]+)/g)].map(
    ([, method, path]) => `${method} ${path}`,
  );
  const lacking = operations.filter(({ method, path }) => {
    const pattern = path.replace(/\{\w+\}/g, '[^/]+');
    return !calls.some((call) => new RegExp(`^${method} ${pattern}$`).test(call));
  });
  expect(lacking.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});

test('every response of v1 links to the page, which shows it', async () => {
  const { headers } = await it.project.v1('GET', '/users');
  const path = /^<([^>]+)>; rel="deprecation"/.exec(headers.get('link') ?? '')?.[1] ?? '';
  const page = await it.request('GET', path);
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
  for (const heading of guide.matchAll(/^#+ (.*)$/gm)) expect(page.text).toContain(`>${heading[1]}</`);
});

import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NODE_COMPILE_CACHE } from '../support/compile-cache.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { startTestService, type TestService } from '../support/service.ts';

const folder = fileURLToPath(new URL('../../../sdk/examples/', import.meta.url));

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

test.each(readdirSync(folder))('%s works unchanged', async (name) => {
  const { apiKey, apiSecret, jwt } = service.project;
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, name)], {
    timeout: PATIENCE_MS,
    env: {
      NODE_COMPILE_CACHE,
      BELFRY_URL: `${service.address}/v2`,
      BELFRY_PROJECT_JWT: jwt,
      BELFRY_API_KEY: apiKey,
      BELFRY_API_SECRET: apiSecret,
    },
  });
  expect(stderr).toBe('');
  const expected = [...(await readFile(join(folder, name), 'utf8')).matchAll(/^\/\/ prints: (.*)$/gm)];
  expect(expected.length).toBeGreaterThan(0);
  for (const [, line = ''] of expected) expect(stdout).toContain(line);
});

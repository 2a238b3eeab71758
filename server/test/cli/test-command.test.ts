import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const COMMAND = fileURLToPath(new URL('../../../bin/test.mjs', import.meta.url));

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'belfry-npm-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs `npm test` on a folder with these test files. */
async function npmTest(name: string, files: Record<string, string>) {
  const root = join(folder, name);
  await mkdir(root);
  await writeFile(join(root, 'package.json'), '{"type": "module"}');
  for (const [file, content] of Object.entries(files)) await writeFile(join(root, file), content);
  // Globals, so that the files need not import vitest. One worker, so that they run in sequence, the largest
  // first.
  const args = [COMMAND, '--root', root, '--globals', '--maxWorkers=1'];
  const { VITEST: _, VITEST_WORKER_ID: __, ...env } = process.env;
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const out = text(child.stdout);
  child.stderr.resume();
  return {
    root,
    child,
    async ended() {
      const [code] = await once(child, 'close');
      return { code, last: (await out).trimEnd().split('\n').at(-1) };
    },
  };
}

test('npm test counts tests, and files that cannot be loaded as failed', async () => {
  const run = await npmTest('whole', {
    'a.test.js': `test('one', () => {}); test('two', () => {}); test.skip('three', () => {});`,
    'b.test.js': `test('four', () => { throw new Error('x'); });`,
    'c.test.js': `throw new Error('cannot be loaded');`,
  });
  expect(await run.ended()).toEqual({ code: 1, last: '2 passed, 2 failed, 1 skipped' });
});

test('an interrupted npm test reports that, and counts the tests that ran', async () => {
  const run = await npmTest('broken off', {
    'a.test.js': `test('one', () => {}); test('two', () => {}); // ${'large '.repeat(1_000)}`,
    'b.test.js': `
      import { writeFileSync } from 'node:fs';
      test('three', () => {});
      test('four', async () => {
        writeFileSync(new URL('begun', import.meta.url), '');
        await new Promise(() => setInterval(() => {}, 1_000));
      }, 600_000);
    `,
  });
  await expect.poll(() => existsSync(join(run.root, 'begun'))).toBe(true);
  run.child.kill('SIGTERM');
  const { code, last } = await run.ended();
  expect(code).toBe(1);
  expect(last).toMatch(/^[23] passed, 0 failed, interrupted by SIGTERM: 1 of 2 files are finished$/);
});

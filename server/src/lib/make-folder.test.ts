import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { makeFolder } from './make-folder.ts';

const root = mkdtempSync(join(tmpdir(), 'belfry-folder-'));
afterAll(() => rmSync(root, { recursive: true }));

test('a folder is created with its parents, and may exist', () => {
  const path = join(root, 'a', 'b');
  makeFolder(path, 0o700);
  makeFolder(path, 0o755);
  symlinkSync(path, join(root, 'link'));
  makeFolder(join(root, 'link', 'c'), 0o700);
  for (const made of [join(root, 'a'), path, join(path, 'c')])
    expect(statSync(made).mode & 0o777).toBe(0o700);
});

test('what cannot be created is an error', () => {
  const file = join(root, 'file');
  writeFileSync(file, '');
  expect(() => makeFolder(file, 0o700)).toThrow('EEXIST');
  expect(() => makeFolder(join(file, 'a'), 0o700)).toThrow('ENOTDIR');
});

test.runIf(process.platform === 'linux')('a path in a virtual file system is an error, too', () => {
  expect(() => makeFolder('/proc/belfry/data', 0o700)).toThrow('ENOENT');
});

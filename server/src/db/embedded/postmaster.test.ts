import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { removeStaleLocks } from './postmaster.ts';

test('an empty lock file is removed, but not while a server may be writing it', () => {
  const cluster = mkdtempSync(join(tmpdir(), 'belfry-locks-'));
  onTestFinished(() => rmSync(cluster, { recursive: true }));
  const lock = join(cluster, 'postmaster.pid');
  writeFileSync(lock, '');
  removeStaleLocks(cluster, cluster);
  expect(existsSync(lock)).toBe(true);
  const before = Date.now() / 1_000 - 6;
  utimesSync(lock, before, before);
  removeStaleLocks(cluster, cluster);
  expect(existsSync(lock)).toBe(false);
});

import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { diskProblem } from './disk.ts';

test('a disk with room has no problem, and an unreadable one is reported with the reason', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-disk-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  expect(await diskProblem(dataDir)).toBe('the disk of the database cannot be used (ENOENT)');
  mkdirSync(join(dataDir, 'postgres'));
  expect(await diskProblem(dataDir)).toBeUndefined();
});

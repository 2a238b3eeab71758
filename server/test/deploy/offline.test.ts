import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { newDataDir } from '../support/data-dir.ts';
import type { Offline } from '../support/offline.ts';

const run = promisify(execFile);
const PROGRAM = fileURLToPath(new URL('../support/offline.ts', import.meta.url));

// A network of its own needs root.
const NETWORK = ['--net', '--mount'];
const hasNetworks = spawnSync('unshare', [...NETWORK, 'ip', 'link', 'set', 'lo', 'up']).status === 0;

test.skipIf(!hasNetworks)('it works without a network, and looks for no other host', async () => {
  const dataDir = await newDataDir('offline');
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const folder = await mkdtemp(join(tmpdir(), 'belfry-resolver-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const resolver = join(folder, 'resolv.conf');
  await writeFile(resolver, 'nameserver 192.0.2.53\n');
  const { stdout } = await run('unshare', [
    ...NETWORK,
    ...['sh', '-c', 'mount --bind "$1" /etc/resolv.conf && ip link set lo up && shift && exec "$@"', 'sh'],
    ...[resolver, process.execPath, PROGRAM, dataDir],
  ]);
  const result = JSON.parse(stdout) as Offline;
  expect(result.deliveries).toEqual(['in_app sent']);
  expect(Object.entries(result.pages).filter(([, status]) => status !== 200)).toEqual([]);
  expect(result).toMatchObject({ exitCode: 0, refused: 0 });
  expect(result.refusedAfterOne).toBeGreaterThan(0);
});

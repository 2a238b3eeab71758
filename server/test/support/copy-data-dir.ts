import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Copies the embedded database of a data directory, which is stopped, with the owners of its files. */
export async function copyDataDir(from: string, to: string): Promise<void> {
  await mkdir(join(to, 'postgres'), { recursive: true, mode: 0o700 });
  await run('cp', ['-a', join(from, 'postgres', 'data'), join(to, 'postgres', 'data')]);
}

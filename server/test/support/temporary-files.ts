import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const MEMORY = '/dev/shm';
const PREFIX = 'belfry-';
// All files of a run need up to 2 GiB.
const NEEDED_BYTES = 8 * 1024 ** 3;

/**
 * Keeps the temporary files of this process and its children in memory, if there is plenty, and returns a
 * function that deletes them. Each test file has a database of its own, about a thousand files: on a disk,
 * creating and deleting them takes a quarter of the CPU time of the tests. TMPDIR chooses another folder.
 */
export async function keepTemporaryFilesInMemory(): Promise<() => Promise<void>> {
  if (process.env.TMPDIR !== undefined || !(await hasSpace())) return async () => {};
  await deleteLeftovers();
  const folder = join(MEMORY, `${PREFIX}${process.pid}`);
  await mkdir(folder);
  await chmod(folder, 0o1777); // servers may run as another user
  const remove = () => rm(folder, { recursive: true, force: true });
  if (!(await allowsPrograms(folder))) {
    await remove();
    return async () => {};
  }
  process.env.TMPDIR = folder;
  return async () => {
    delete process.env.TMPDIR;
    await remove();
  };
}

async function hasSpace(): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(MEMORY);
    return Math.min(bavail * bsize, process.availableMemory()) >= NEEDED_BYTES;
  } catch {
    return false; // not Linux
  }
}

/** Deletes the files of runs that were killed. */
async function deleteLeftovers(): Promise<void> {
  for (const name of await readdir(MEMORY)) {
    const pid = Number(name.startsWith(PREFIX) && name.slice(PREFIX.length));
    if (Number.isInteger(pid) && pid > 0 && !isRunning(pid))
      await rm(join(MEMORY, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Some tests install programs there. Containers often mount it without the right to run any. */
async function allowsPrograms(folder: string): Promise<boolean> {
  const program = join(folder, 'program');
  await writeFile(program, '#!/bin/sh\n', { mode: 0o755 });
  try {
    await promisify(execFile)(program);
    return true;
  } catch {
    return false;
  } finally {
    await rm(program);
  }
}

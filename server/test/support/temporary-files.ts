import { execFile } from 'node:child_process';
import { chmod, mkdir, readdir, readlink, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const MEMORY = '/dev/shm';
// All files of a run need up to 2 GiB.
const NEEDED_BYTES = 8 * 1024 ** 3;

/**
 * Keeps the temporary files of this process and its children in memory, if there is plenty, and returns a
 * function that deletes them. Each test file has a database of its own, about a thousand files: on a disk,
 * creating and deleting them takes a quarter of the CPU time of the tests. TMPDIR chooses another folder.
 */
export async function keepTemporaryFilesInMemory(): Promise<() => Promise<void>> {
  if (process.env.TMPDIR !== undefined || !(await hasSpace())) return async () => {};
  const prefix = await ownPrefix();
  await deleteLeftovers(prefix);
  const folder = join(MEMORY, `${prefix}${process.pid}`);
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

/** What the names of these folders start with. Containers may share this memory, but not their processes. */
async function ownPrefix(): Promise<string> {
  const namespace = await readlink('/proc/self/ns/pid').catch(() => '');
  return `belfry-${namespace.replace(/\D/g, '')}-`;
}

/** Deletes the files of runs that were killed, also of one that had the id of this process. */
async function deleteLeftovers(prefix: string): Promise<void> {
  for (const name of await readdir(MEMORY)) {
    const pid = Number(name.startsWith(prefix) && name.slice(prefix.length));
    if (Number.isInteger(pid) && pid > 0 && (pid === process.pid || !isRunning(pid)))
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

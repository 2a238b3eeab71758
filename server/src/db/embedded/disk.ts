import { constants, statfsSync, statSync } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { join } from 'node:path';

// PostgreSQL's log needs files of 16 MiB: with room for only a few it may stop at any moment.
export const FULL_BYTES = 64 * 1024 * 1024;

const homeOf = (dataDir: string) => join(dataDir, 'postgres');
const logOf = (dataDir: string) => join(homeOf(dataDir), 'data', 'pg_wal');

/** Why the disk of an embedded database cannot be written to; undefined if it can. */
export async function diskProblem(dataDir: string): Promise<string | undefined> {
  const directory = homeOf(dataDir);
  try {
    await access(directory, constants.W_OK);
    const { bavail, bsize } = await statfs(directory);
    const free = bavail * bsize;
    return free < FULL_BYTES ? `the disk of the database is full (${inMib(free)} free)` : undefined;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return code === 'EROFS'
      ? 'the disk of the database is read-only'
      : `the disk of the database cannot be used (${code ?? String(error)})`;
  }
}

/**
 * Why an embedded database that does not run may have stopped: its disk, or that of its log. While it runs,
 * a disk of the log alone may be nearly full, because PostgreSQL uses the same files again.
 */
export async function diskProblemOfStopped(dataDir: string): Promise<string | undefined> {
  const log = diskOfLog(dataDir);
  if (log !== undefined && log.free < FULL_BYTES)
    return `the disk of the database's write-ahead log is full (${inMib(log.free)} free)`;
  return diskProblem(dataDir);
}

/** The folder of the log with its free bytes, if it is on another disk than the rest of the database. */
export function diskOfLog(dataDir: string): { folder: string; free: number } | undefined {
  const folder = logOf(dataDir);
  try {
    if (statSync(folder).dev === statSync(homeOf(dataDir)).dev) return undefined;
    const { bavail, bsize } = statfsSync(folder);
    return { folder, free: bavail * bsize };
  } catch {
    return undefined; // there is none yet, or this user cannot see it
  }
}

const inMib = (bytes: number) => `${Math.floor(bytes / 1024 / 1024)} MiB`;

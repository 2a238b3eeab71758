import { constants } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { join } from 'node:path';

// PostgreSQL's log needs files of 16 MiB: with room for only a few it may stop at any moment.
const FULL_BYTES = 64 * 1024 * 1024;

/** Why the disk of an embedded database cannot be written to; undefined if it can. */
export async function diskProblem(dataDir: string): Promise<string | undefined> {
  const directory = join(dataDir, 'postgres');
  try {
    await access(directory, constants.W_OK);
    const { bavail, bsize } = await statfs(directory);
    const free = bavail * bsize;
    if (free >= FULL_BYTES) return undefined;
    return `the disk of the database is full (${Math.floor(free / 1024 / 1024)} MiB free)`;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return code === 'EROFS'
      ? 'the disk of the database is read-only'
      : `the disk of the database cannot be used (${code ?? String(error)})`;
  }
}

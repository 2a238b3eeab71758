import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Creates a folder, and its parents, unless it exists. `mkdirSync` with `recursive` never returns for a path
 * such as `/proc/x`, where the system says that the parent does not exist.
 */
export function makeFolder(path: string, mode: number): void {
  const parent = dirname(path);
  if (statSync(parent, { throwIfNoEntry: false }) === undefined) makeFolder(parent, mode);
  try {
    mkdirSync(path, mode);
  } catch (error) {
    // It existed, or another process has created it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

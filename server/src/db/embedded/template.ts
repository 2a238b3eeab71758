import { chownSync, closeSync, fchownSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import type { Account } from './account.ts';

/** A ready cluster in one file: a line of JSON that lists its files, then their bytes, equal files once. */
export interface TemplateIndex {
  /** The full version of the PostgreSQL that made it. */
  readonly version: string;
  readonly dirs: readonly string[];
  readonly files: readonly { path: string; start: number; size: number }[];
}

/** The file of the template, which `make-template.ts` writes. */
export const TEMPLATE_FILE = new URL('./template.br', import.meta.url);

/**
 * Unpacks a ready cluster into an empty directory; the caller syncs it to the disk. Only for users without a
 * name (`docker run --user 12345`), for whom initdb fails.
 */
export function unpackTemplate(dir: string, account: Account | undefined): void {
  const { index, content } = readTemplate();
  for (const name of index.dirs) {
    mkdirSync(path.join(dir, name), { mode: 0o700 });
    if (account !== undefined) chownSync(path.join(dir, name), account.uid, account.gid);
  }
  for (const { path: name, start, size } of index.files) {
    const handle = openSync(path.join(dir, name), 'wx', 0o600);
    writeSync(handle, content, start, size);
    if (account !== undefined) fchownSync(handle, account.uid, account.gid);
    closeSync(handle);
  }
}

/** Reads the template. */
export function readTemplate(): { index: TemplateIndex; content: Buffer } {
  const bytes = brotliDecompressSync(readFileSync(TEMPLATE_FILE));
  const end = bytes.indexOf('\n');
  return {
    index: JSON.parse(bytes.toString('utf8', 0, end)) as TemplateIndex,
    content: bytes.subarray(end + 1),
  };
}

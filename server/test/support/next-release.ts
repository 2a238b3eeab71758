import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Migration } from '../../src/db/migrations.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const COPIED = ['bin', 'package.json', 'package-lock.json', 'server/package.json', 'server/src'];
const LINKED = ['node_modules', 'server/node_modules', 'inbox', 'docs'];

/** Makes a copy of Belfry that has more migrations. Returns its folder. */
export function copyWithMigrations(folder: string, added: readonly Migration[]): string {
  mkdirSync(join(folder, 'server'), { recursive: true });
  for (const path of COPIED) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  for (const path of LINKED) symlinkSync(join(ROOT, path), join(folder, path));
  for (const { version, name, text } of added) {
    const file = `${String(version).padStart(4, '0')}_${name}.sql`;
    writeFileSync(join(folder, 'server/src/db/migrations', file), text);
  }
  return folder;
}

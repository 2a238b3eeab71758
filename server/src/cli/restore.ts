import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config.ts';
import type { Progressed } from '../db/backup.ts';
import { restore } from '../db/restore.ts';
import { print, printJson } from './output.ts';
import { movedText, progress } from './progress.ts';
import { withConnection } from './with-connection.ts';

/** `belfry restore`: restores everything or nothing, into an empty database. */
export async function restoreCommand(file: string, { json }: { json?: boolean }): Promise<void> {
  const shown = progress();
  const { rows, schema, tables } = await withConnection(file, async (connection) => {
    const handle = await open(file);
    const onProgress = (moved: Progressed) => shown.show(movedText(moved));
    return restore({ connection, onProgress }, handle.createReadStream());
  }).finally(() => shown.end());
  if (json) return printJson({ file, schema, tables, rows });
  print(`Restored ${rows} rows of schema ${schema}.`);
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = join(DATA_DIR, 'secret.key');
  if (SECRET_KEY.length === 0 && !existsSync(key))
    print(`Before the next start, copy the secret.key of the backed-up server to ${key}`);
}

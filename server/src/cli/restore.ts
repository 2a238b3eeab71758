import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../config.ts';
import { restore } from '../db/restore.ts';
import { print } from './output.ts';
import { withConnection } from './with-connection.ts';

/** `belfry restore`: into an empty database, all or nothing. */
export async function restoreCommand(file: string): Promise<void> {
  const { rows, schema } = await withConnection(file, async (connection) => {
    const handle = await open(file);
    return restore({ connection }, handle.createReadStream());
  });
  print(`${rows} rows of schema ${schema} are restored.`);
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = join(DATA_DIR, 'secret.key');
  if (SECRET_KEY.length === 0 && !existsSync(key))
    print(`Before the next start, put the secret.key of the backed-up server there: ${key}`);
}

import { lstatSync } from 'node:fs';
import { readConfig } from '../config.ts';
import { backupToFile } from '../db/backup.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { movedText, progress } from './progress.ts';
import { untilStopped } from './until-stopped.ts';
import { withConnection } from './with-connection.ts';

/** `belfry backup`: works while the server runs, and replaces an existing file only with `force`. */
export async function backupCommand(
  file: string,
  { force = false, json }: { force?: boolean; json?: boolean },
): Promise<void> {
  checkPlace(file, force);
  const shown = progress();
  const signal = untilStopped();
  const { rows, schema, tables } = await withConnection(file, (connection) =>
    backupToFile({ connection, signal, onProgress: (moved) => shown.show(movedText(moved)) }, file, {
      force,
    }),
  )
    .catch((error: unknown) => {
      if (signal.aborted) throw new CommandError('the backup was stopped: no file was written');
      // Another program created it meanwhile.
      throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? fileExists(file) : error;
    })
    .finally(() => shown.end());
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = SECRET_KEY.length > 0 ? 'SECRET_KEY' : `${DATA_DIR}/secret.key`;
  if (json) return printJson({ file, schema, tables, rows, key });
  print(`${file} contains the whole database: ${rows} rows, schema ${schema}.`);
  print(`Keep a copy of ${key} in another place: it seals the secrets in the backup.`);
}

/** Throws for anything that the backup must not replace, such as the device /dev/stdout. */
function checkPlace(file: string, force: boolean): void {
  const present = lstatSync(file, { throwIfNoEntry: false });
  if (present === undefined) return;
  if (!present.isFile()) throw new CommandError(`${file} is not a regular file: choose another name`);
  if (!force) throw fileExists(file);
}

function fileExists(file: string): CommandError {
  return new CommandError(`${file} exists: choose another name, or replace it with --force`);
}

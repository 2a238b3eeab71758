import { lstatSync, rmSync } from 'node:fs';
import { readConfig } from '../config.ts';
import { backupToFile, type Moved, type Progressed } from '../db/backup.ts';
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
  const onProgress = (moved: Progressed) => shown.show(movedText(moved));
  const { moved, cells } = await withConnection(file, async (main, others) => {
    const cells: CellFile[] = [];
    try {
      for (const { cell, direct } of await others()) {
        const target = fileOfCell(file, cell);
        checkPlace(target, force);
        const options = { connection: direct, signal, onProgress };
        cells.push({ cell, file: target, ...(await backupToFile(options, target, { force })) });
      }
      // Last, because it has the directory, which so knows all projects of the others.
      const options = { connection: main.direct, signal, onProgress };
      return { moved: await backupToFile(options, file, { force }), cells };
    } catch (error) {
      if (!force) for (const written of cells) rmSync(written.file);
      throw error;
    }
  })
    .catch((error: unknown) => {
      if (signal.aborted) throw new CommandError('the backup was stopped: no file was written');
      // Another program created it meanwhile.
      throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? fileExists(file) : error;
    })
    .finally(() => shown.end());
  const { SECRET_KEY, DATA_DIR } = readConfig();
  const key = SECRET_KEY.length > 0 ? 'SECRET_KEY' : `${DATA_DIR}/secret.key`;
  const { schema, tables, rows } = moved;
  if (json) return printJson({ file, schema, tables, rows, key, ...(cells.length > 0 ? { cells } : {}) });
  const what = cells.length === 0 ? 'the whole database' : 'the first cell and the directory of cells';
  print(`${file} contains ${what}: ${rows} rows, schema ${schema}.`);
  for (const one of cells) print(`${one.file} contains the cell ${one.cell}: ${one.rows} rows.`);
  print(`Keep a copy of ${key} in another place: it encrypts the secrets in the backup.`);
}

/** A file with a cell. */
interface CellFile extends Moved {
  cell: string;
  file: string;
}

/** The file beside that of the default cell. */
export function fileOfCell(file: string, cell: string): string {
  return `${file}.${cell}`;
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

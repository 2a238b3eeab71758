import { existsSync, lstatSync, rmSync } from 'node:fs';
import { type Config, readConfig } from '../config.ts';
import { type DraftBackup, draftBackup, type Moved, type Progressed } from '../db/backup.ts';
import { type ConnectionSettings, openDatabase } from '../db/client.ts';
import { EmptyDatabase } from '../db/migrate.ts';
import { takeMovesLock } from '../db/move/lock.ts';
import { keysInUse } from '../domain/setup/projects/sealing-key.ts';
import { keyPath } from '../lib/seal.ts';
import { CommandError } from './command.ts';
import { sealerOf } from './doctor/sealing.ts';
import { print, printJson } from './output.ts';
import { movedText, progress } from './progress.ts';
import { reasonOf } from './reason-of.ts';
import { untilStopped } from './until-stopped.ts';
import { reportFailures } from './with-cells.ts';
import { describeFileError, isOfDatabase, withConnection } from './with-connection.ts';

/**
 * `belfry backup`: works while the server runs, and replaces an existing file only with `force`. Exit code 1
 * also if the database of a cell cannot be reached: the files of the others are written.
 */
export async function backupCommand(
  file: string,
  { force = false, json }: { force?: boolean; json?: boolean },
): Promise<void> {
  checkPlace(file, force);
  const shown = progress();
  const signal = untilStopped();
  const onProgress = (moved: Progressed) => shown.show(movedText(moved));
  const config = readConfig();
  const { moved, cells, failures, missingKeys } = await withConnection(file, async (main, others) => {
    const drafts: Draft[] = [];
    const failures: Error[] = [];
    const draft = async (cell: string, connection: ConnectionSettings, target: string) => {
      const options = { connection, signal, onProgress };
      drafts.push({ cell, file: target, ...(await draftBackup(options, target)) });
    };
    const moves = await keepMovesAway(main.direct);
    try {
      for (const { cell, direct } of await others()) {
        const target = fileOfCell(file, cell);
        checkPlace(target, force);
        await draft(cell, direct, target).catch((error: unknown) => {
          const known = describeFileError(error, target);
          if (!(known instanceof CommandError)) throw known;
          // Whatever concerns all files stops the backup, as does a project that is in none of them.
          if (signal.aborted || !(isOfDatabase(error) || error instanceof EmptyDatabase))
            throw new CommandError(`cell ${cell}: ${known.message}`);
          failures.push(notBackedUp(cell, target, known));
        });
      }
      // Last, because it has the directory: so the directory knows all projects of the other cells.
      await draft(main.cell, main.direct, file);
      await moves.check();
      await publish(drafts, force);
    } catch (error) {
      for (const { discard } of drafts) await discard();
      throw error;
    } finally {
      await moves.end();
    }
    const files = drafts.map(({ cell, file, moved }) => ({ cell, file, ...moved }));
    const missingKeys = await keysMissingHere(config, main.direct);
    return { moved: files.at(-1) as CellFile, cells: files.slice(0, -1), failures, missingKeys };
  })
    .catch((error: unknown) => {
      if (signal.aborted) throw new CommandError('the backup was stopped: no file was written');
      // Another program created it meanwhile.
      throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? fileExists(file) : error;
    })
    .finally(() => shown.end());
  const key = config.SECRET_KEY.length > 0 ? 'SECRET_KEY' : keyPath(config.DATA_DIR);
  const { schema, tables, rows } = moved;
  if (missingKeys.length > 0)
    console.error(
      `belfry: the backup is complete, but its secrets are encrypted with the key ` +
        `${missingKeys.join(', ')}, which ${key} does not have: keep a copy of the key of the server, ` +
        'which a restore needs',
    );
  reportFailures(failures);
  if (json) return printJson({ file, schema, tables, rows, key, ...(cells.length > 0 ? { cells } : {}) });
  const what =
    cells.length + failures.length === 0 ? 'the whole database' : 'the first cell and the directory of cells';
  print(`${file} contains ${what}: ${rows} rows, schema ${schema}.`);
  for (const one of cells) print(`${one.file} contains the cell ${one.cell}: ${one.rows} rows.`);
  if (missingKeys.length === 0)
    print(`Keep a copy of ${key} in another place: it encrypts the secrets in the backup.`);
}

/** Says that a cell has no file, and that one from before remains: it is not a new one. */
function notBackedUp(cell: string, file: string, { message }: CommandError): CommandError {
  const former = existsSync(file) ? `; ${file} is from an earlier backup` : '';
  return new CommandError(`cell ${cell}: ${message}. It was not backed up, the others were${former}`);
}

/** The keys of secrets in the backup that this machine does not have: a copy of its key would be useless. */
async function keysMissingHere(config: Config, connection: ConnectionSettings): Promise<string[]> {
  const db = openDatabase(connection, { size: 1, name: 'belfry backup' });
  try {
    const known: readonly string[] = sealerOf(config).sealer?.keyIds ?? [];
    return (await keysInUse(db)).filter((id) => !known.includes(id));
  } catch (error) {
    // The backup is complete. That of another release may have other tables.
    const isOfOtherSchema = UNDEFINED.includes((error as { code?: string }).code ?? '');
    if (!isOfOtherSchema)
      console.error(`belfry: the key of the secrets could not be checked (${reasonOf(error)})`);
    return [];
  } finally {
    await db.close();
  }
}

// SQLSTATE of a table and of a column that do not exist.
const UNDEFINED = ['42P01', '42703'];

/** A file with a cell. */
interface CellFile extends Moved {
  cell: string;
  file: string;
}

interface Draft extends DraftBackup {
  cell: string;
  file: string;
}

/** Gives all files their names. Without `force`, none remains if one of them exists. */
async function publish(drafts: readonly Draft[], force: boolean): Promise<void> {
  const published: string[] = [];
  try {
    for (const draft of drafts) {
      await draft.publish({ force });
      published.push(draft.file);
    }
  } catch (error) {
    if (!force) for (const file of published) rmSync(file);
    throw error;
  }
}

/**
 * Lets no project move to another cell until `end`: it could be in no file. `check` throws if the connection
 * was lost meanwhile, and the lock with it.
 */
async function keepMovesAway(
  connection: ConnectionSettings,
): Promise<{ check(): Promise<void>; end(): Promise<void> }> {
  const db = openDatabase(connection, { size: 1, name: 'belfry backup' });
  const client = await db.connect();
  const end = async () => {
    await client.end().catch(() => undefined);
    await db.close();
  };
  if (!(await takeMovesLock(client, { shared: true }))) {
    await end();
    throw new CommandError('a project is moving to another cell: wait until the move has ended');
  }
  return {
    end,
    async check() {
      await client.query('select');
    },
  };
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

import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { readConfig } from '../config.ts';
import type { Moved, MoveOptions, Progressed } from '../db/backup.ts';
import { type Database, openDatabase } from '../db/client.ts';
import { StartError } from '../db/embedded/start-error.ts';
import { restore } from '../db/restore.ts';
import { createSchemaOf, DEFAULT_CELL } from '../domain/setup/cells/cells.ts';
import { describeConflicts, type IndexedProject, indexCells } from '../domain/setup/cells/index-cells.ts';
import { deleteProjects } from '../domain/setup/cells/move-project.ts';
import { listProjects } from '../domain/setup/projects/find.ts';
import type { Place } from '../open.ts';
import { fileOfCell } from './backup.ts';
import { CommandError } from './command.ts';
import { print, printJson } from './output.ts';
import { movedText, progress } from './progress.ts';
import { secretProblems } from './restored-secrets.ts';
import { reportFailures } from './with-cells.ts';
import { describeFileError, withConnection } from './with-connection.ts';

/**
 * `belfry restore`: restores everything or nothing, into an empty database. Exit code 1 also if the keys of
 * this machine do not decrypt what was restored: a server would not start, or not send.
 */
export async function restoreCommand(file: string, { json }: { json?: boolean }): Promise<void> {
  const shown = progress();
  const onProgress = (moved: Progressed) => shown.show(movedText(moved));
  const config = readConfig();
  const { moved, cells, failures, secrets } = await withConnection(file, async (main, others) => {
    const moved = await restoreFrom(file, { connection: main.direct, onProgress });
    const cells: RestoredCell[] = [];
    const failures: Error[] = [];
    const secrets = await secretProblems(config, main.direct);
    // The directory that was restored says which cells there are. One that fails does not stop the others.
    const places = await others().catch((error: unknown) => {
      if (!(error instanceof StartError)) throw error;
      failures.push(unreachableCells(error));
      return [];
    });
    for (const place of places) {
      const source = fileOfCell(file, place.cell);
      if (!existsSync(source)) {
        failures.push(new CommandError(`${source} is missing, so its cell was not restored`));
        continue;
      }
      try {
        await createSchema(main, place);
        const { rows } = await restoreFrom(source, { connection: place.direct, onProgress });
        cells.push({ cell: place.cell, file: source, rows, database: databaseOf(place), moved: [] });
        const problems = await secretProblems(config, place.direct);
        secrets.push(...problems.map((problem) => `cell ${place.cell}: ${problem}`));
      } catch (error) {
        failures.push(failureOf(error, place.cell, source));
      }
    }
    if (places.length > 0) {
      const entered = enterProjects([main, ...places], cells);
      failures.push(...(await entered.catch((error: unknown) => [notEntered(error, file)])));
    }
    return { moved, cells, failures, secrets };
  }).finally(() => shown.end());
  report(file, { moved, cells, json });
  // A second restore would fail, because the database is no longer empty.
  const known = failures.length === 0 ? 'everything is restored, but ' : '';
  reportFailures([...failures, ...secrets.map((problem) => new CommandError(`${known}${problem}`))]);
}

function report(
  file: string,
  { moved, cells, json }: { moved: Moved; cells: readonly RestoredCell[]; json: boolean | undefined },
): void {
  const { schema, tables, rows } = moved;
  if (json) {
    const shown = cells.map(({ moved, ...cell }) => ({
      ...cell,
      ...(moved.length > 0 ? { moved_projects: moved } : {}),
    }));
    printJson({ file, schema, tables, rows, ...(cells.length > 0 ? { cells: shown } : {}) });
    return;
  }
  print(`Restored ${rows} rows of schema ${schema}.`);
  for (const { cell, rows, database } of cells)
    print(`Restored ${rows} rows of the cell ${cell}${database === undefined ? '' : `, in ${database}`}.`);
  for (const { cell, moved } of cells)
    for (const id of moved)
      print(`Left out of the cell ${cell}: the project ${id}, which has moved to another one since.`);
  if (cells.some(({ database }) => database !== undefined))
    print('A server with this directory opens these databases: stop all others that use them.');
}

/** The directory is restored, but says nothing that this machine can read about where the cells are. */
function unreachableCells({ message }: StartError): CommandError {
  return new CommandError(
    `only the first cell is restored. ${message}. Correct that, ` +
      'then restore everything into an empty database',
  );
}

interface RestoredCell {
  cell: string;
  file: string;
  rows: number;
  /** Where its own URL points to. */
  database: string | undefined;
  /** The projects in its file that live in another cell, and were left out. */
  moved: string[];
}

/** Without the password. */
function databaseOf({ isBesideDefault, direct: { connectionString } }: Place): string | undefined {
  if (isBesideDefault || connectionString === undefined) return undefined;
  const url = URL.parse(connectionString);
  return url === null ? 'an invalid URL' : `${url.host}${url.pathname}`;
}

function failureOf(error: unknown, cell: string, source: string): Error {
  const known = describeFileError(error, source);
  if (!(known instanceof Error)) return new Error(String(known));
  return new CommandError(`cell ${cell}, from ${source}: ${known.message}`);
}

function notEntered(error: unknown, file: string): CommandError {
  const known = describeFileError(error, file);
  const reason = known instanceof Error ? known.message : String(known);
  return new CommandError(
    `the directory lacks projects of the restored cells: ${reason}. Run belfry cell index, ` +
      'which also reports projects that are in two cells',
  );
}

async function restoreFrom(file: string, options: MoveOptions): Promise<Moved> {
  const handle = await open(file);
  return restore(options, handle.createReadStream());
}

/** Creates the schema of a cell that lives in the database of the default one. */
async function createSchema(main: Place, { schema, isBesideDefault }: Place): Promise<void> {
  if (schema === undefined || !isBesideDefault) return;
  const db = openDatabase(main.direct, { size: 1, name: 'belfry restore' });
  await createSchemaOf(db, schema).finally(() => db.close());
}

/**
 * Enters the projects of the restored cells into the directory, which may be older than their files. The file
 * of a cell may be older, too: it then has projects that have moved since, and these are deleted from it.
 */
async function enterProjects(places: readonly Place[], restored: readonly RestoredCell[]): Promise<Error[]> {
  const databases = new Map(
    places.map(({ cell, direct }) => [cell, openDatabase(direct, { size: 1, name: 'belfry restore' })]),
  );
  try {
    const found = new Map<string, IndexedProject[]>();
    const isRestored = (cell: string) => restored.some((one) => one.cell === cell);
    const isComplete = (cell: string) => cell === DEFAULT_CELL || isRestored(cell);
    for (const [cell, db] of databases) {
      // Also the projects of cells that were not restored now: they may have had their data.
      const projects = await listProjects({ db }).catch((error: unknown) => {
        if (isComplete(cell)) throw error;
      });
      if (projects !== undefined) found.set(cell, projects);
    }
    const { copies, uncertain } = await indexCells(databaseIn(databases, DEFAULT_CELL), found, isComplete);
    for (const one of restored) {
      one.moved = copies.filter(({ cell }) => cell === one.cell).map(({ projectId }) => projectId);
      await deleteProjects(databaseIn(databases, one.cell), one.moved);
    }
    const left = { copies: copies.filter(({ cell }) => !isRestored(cell)), uncertain };
    return describeConflicts(left).map((conflict) => new CommandError(conflict));
  } finally {
    await Promise.all([...databases.values()].map((db) => db.close()));
  }
}

function databaseIn(databases: ReadonlyMap<string, Database>, cell: string): Database {
  const db = databases.get(cell);
  if (db === undefined) throw new Error(`there is no database of the cell ${cell}`);
  return db;
}

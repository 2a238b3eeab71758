import { type Database, openDatabase } from '../db/client.ts';
import { takeMovesLock } from '../db/move/lock.ts';
import { connectionObstacle, isUnreachable } from '../db/usability.ts';
import { type Cell, deleteCell, hasTablesOf } from '../domain/setup/cells/cells.ts';
import { projectsOf } from '../domain/setup/cells/directory.ts';
import { endMoveWithout, startedMove } from '../domain/setup/cells/move-project.ts';
import { type Opened, placeOfCell } from '../open.ts';
import { CommandError, UsageError } from './command.ts';
import { confirmed } from './confirmed.ts';
import { print, printJson, printTable } from './output.ts';
import { withCells } from './with-cells.ts';
import { linked } from './with-context.ts';

/**
 * `belfry cell remove --lost`: removes a cell whose database or tables are gone, with its projects. Refuses
 * while they respond.
 */
export async function removeLostCell(
  name: string,
  { yes, json }: { yes: boolean; json: boolean | undefined },
): Promise<void> {
  if (json && !yes) throw new UsageError('--json shows nothing to confirm: use --yes with it');
  const removed = await withCells(async ({ main, cells, named }) => {
    const cell = cells.find((one) => one.name === name);
    if (cell === undefined) throw new CommandError(`there is no cell ${name}: see belfry cell list`);
    const lock = await main.db.connect();
    try {
      if (!(await takeMovesLock(lock)))
        throw new CommandError('another move or a backup is running: wait until it has ended');
      const why = await whyLost(main, cell);
      const move = await startedMove(main.db);
      const other = move?.from === name ? move.to : move?.to === name ? move.from : undefined;
      const survivor = other === undefined ? undefined : await named(other);
      const projects = await projectsOf(main.db, name);
      if (!json) show(name, why, projects);
      if (!yes) {
        if (!(await confirmed(`Remove the cell ${name} and these projects for ever?`))) return undefined;
        await whyLost(main, cell);
      }
      if (survivor !== undefined) await endMoveWithout(name, { main, survivor });
      await linked(main);
      // Read again: a move that had come far may have ended in the other cell.
      const gone = await projectsOf(main.db, name);
      await deleteCell(main.db, name);
      main.bus.publish({ type: 'cells_changed' });
      return gone;
    } finally {
      await lock.end().catch(() => {});
    }
  });
  if (removed === undefined) return;
  if (json) {
    const lost = removed.map(({ id, apiKey }) => ({ project_id: id, api_key: apiKey }));
    return printJson({ name, removed: true, lost_projects: lost });
  }
  const count = removed.length;
  const lost = count === 0 ? '' : `, with its projects (${count}). Requests with their keys get a 401`;
  print(`Cell ${name} was removed${lost}.`);
}

function show(name: string, why: string, projects: readonly { id: string; apiKey: string }[]): void {
  print(`Cell ${name}: ${why}.`);
  if (projects.length > 0) {
    print('These projects are lost with all that was in them: users, broadcasts, integrations and keys.');
    print('A backup of the cell still has what was in it then.');
  }
  printTable(
    projects.map(({ id, apiKey }) => ({ project: id, 'api key': apiKey })),
    'The directory has no projects in it.',
  );
}

/** Why the data of a cell is not there. Throws a `CommandError` if it is, or may be. */
async function whyLost(main: Opened, cell: Cell): Promise<string> {
  const { name, schema } = cell;
  const { direct } = placeOfCell(main.place, cell, main.sealer);
  const db: Database = openDatabase(direct, { size: 1, name: 'belfry cell' });
  try {
    if (!(await hasTablesOf(db, cell))) return `its database has no tables in the schema ${schema}`;
  } catch (error) {
    const { message, advice } = connectionObstacle(error);
    if (isUnreachable(error)) return `its database ${message}`;
    throw new CommandError(
      `the server of the cell ${name} responds, so its data may be there. It ${message}: ${advice}, ` +
        'or set its URL with belfry cell set. If the data is lost, drop the database, and try again',
    );
  } finally {
    await db.close();
  }
  throw new CommandError(
    `the cell ${name} is not lost: its database responds and has its tables. ` +
      'Without projects, it can be removed without --lost. If only the data is lost, drop the tables first',
  );
}

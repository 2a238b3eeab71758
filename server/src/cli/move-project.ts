import { CellDirectory } from '../domain/setup/cells/directory.ts';
import {
  cancelMove,
  type MoveProgress,
  MoveRefused,
  type MovingProject,
  moveProject,
  projectOfMove,
  type StartedMove,
  startedMove,
} from '../domain/setup/cells/move-project.ts';
import { DEFAULT_PROJECT, DEMO_PROJECT } from '../domain/setup/projects/create.ts';
import type { Opened } from '../open.ts';
import { checkNodes } from './cell.ts';
import { CommandError, UsageError } from './command.ts';
import { plain, print, printJson } from './output.ts';
import { progress } from './progress.ts';
import { projectNamed } from './project-named.ts';
import { type CommandCells, withCells } from './with-cells.ts';
import { linked } from './with-context.ts';

// The migration that creates the tables of moves.
const SCHEMA_OF_MOVES = 62;

/** `belfry project move`: to another cell, while it is in use. Continues a move that was interrupted. */
export async function moveProjectCommand(
  name: string,
  { to, cancel = false, json }: { to?: string; cancel?: boolean; json?: boolean },
): Promise<void> {
  if (cancel === (to !== undefined)) throw new UsageError('choose either --to <cell> or --cancel');
  const shown = progress();
  const result = await withCells(async (cells) => {
    const move = await placesOf(cells, name, to);
    const request = { main: cells.main, ...move };
    if (cancel) {
      await cancelMove(request);
      return { project_id: move.project.id, cell: move.from.cell, cancelled: true };
    }
    await checkNodes(cells.main, 'moves', SCHEMA_OF_MOVES);
    checkMayLeave(move.from);
    for (const context of new Set<Opened>([cells.main, move.from, move.to])) await checkLink(context);
    const { pausedMs } = await moveProject({
      ...request,
      nodeId: cells.main.nodeId,
      onProgress: (step) => shown.show(textOf(step)),
    });
    return { project_id: move.project.id, cell: move.to.cell, paused_ms: pausedMs && Math.round(pausedMs) };
  })
    .catch((error: unknown) => {
      throw error instanceof MoveRefused ? new CommandError(error.message) : error;
    })
    .finally(() => shown.end());
  if (json) return printJson(result);
  if ('cancelled' in result)
    return print(`The move was cancelled: ${plain(name)} stays in the cell ${result.cell}.`);
  const pause = result.paused_ms === undefined ? '' : ` Its writes waited for ${result.paused_ms} ms.`;
  print(`${plain(name)} lives in the cell ${result.cell} now.${pause}`);
}

interface Places {
  project: MovingProject;
  from: Opened;
  to: Opened;
}

/** The project and its cells: those of the move that was started, if it is of this project. */
async function placesOf(cells: CommandCells, name: string, to: string | undefined): Promise<Places> {
  const { main, named, all } = cells;
  const started = await startedMove(main.db);
  const resumed = started && (await placesOfStarted(cells, started, name));
  if (resumed !== undefined) {
    if (to !== undefined && to !== resumed.to.cell)
      throw new CommandError(`the project moves to the cell ${resumed.to.cell}: finish or cancel that first`);
    return resumed;
  }
  if (to === undefined) throw new CommandError('there is no move to cancel');
  if (started !== undefined)
    throw new CommandError(
      `the move of project ${started.projectId} has not ended: finish or cancel it first`,
    );
  const target = await named(to);
  const { contexts, failures } = await all();
  const { context: from, project } = await projectNamed(contexts, name).catch((error: unknown) => {
    throw failures[0] ?? error;
  });
  if (from === main && [DEFAULT_PROJECT, DEMO_PROJECT].includes(project.name))
    throw new CommandError(
      `the project ${project.name} stays in the cell ${main.cell}: every start creates it there`,
    );
  if (from.cell === to) throw new CommandError(`the project lives in the cell ${to} already`);
  const known = (await new CellDirectory(main).find({ projectId: project.id })) ?? main.cell;
  if (known !== from.cell)
    throw new CommandError('the directory does not know the cell of the project: run belfry cell index');
  return { project, from, to: target };
}

async function placesOfStarted(
  { named }: CommandCells,
  { projectId, ...move }: StartedMove,
  name: string,
): Promise<Places | undefined> {
  const from = await named(move.from);
  const to = await named(move.to);
  const project = (await projectOfMove(from.db, projectId)) ?? (await projectOfMove(to.db, projectId));
  if (project === undefined) {
    if (name !== projectId) return undefined;
    throw new CommandError(`the project ${name} is in neither of its cells`);
  }
  return name === projectId || name === project.name ? { project, from, to } : undefined;
}

/** A move captures changes by triggers, which Citus does not allow on its workers. */
function checkMayLeave({ cell, db }: Opened): void {
  if (!db.isDistributed) return;
  throw new CommandError(
    `the cell ${cell} is on a worker of Citus, which a project can enter but not leave: ` +
      'belfry cell rebalance moves whole cells',
  );
}

/** Without the messages of the move, requests that running servers get meanwhile would fail. */
async function checkLink(context: Opened): Promise<void> {
  if (await linked(context)) return;
  throw new CommandError(
    `the connection for messages to running servers of the cell ${context.cell} could not be opened`,
  );
}

function textOf(progress: MoveProgress): string {
  switch (progress.step) {
    case 'copy':
      return `copies ${progress.table}: ${progress.rows} rows so far`;
    case 'catch up':
      return `copies ${progress.changes} changes`;
    case 'wait for jobs':
      return `waits until ${progress.jobs} jobs of the project have ended`;
    case 'delete':
      return `deletes the rows in the former cell: ${progress.rows} so far`;
  }
}

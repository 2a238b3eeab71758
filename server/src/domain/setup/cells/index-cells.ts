import type { Queryable } from '../../../db/client.ts';
import { DEFAULT_CELL } from './cells.ts';
import { cellsOf, indexProjects } from './directory.ts';

/** A project as a cell has it. */
export interface IndexedProject {
  id: string;
  apiKey: string;
}

/** A project in a cell that is not its home. */
export interface Copy {
  projectId: string;
  cell: string;
  /** The cell that the directory leads to. */
  home: string;
}

/** What could not be entered into the directory. */
export interface Conflicts {
  /** Projects that their home has, too: older copies, such as those of an older backup of the cell. */
  copies: Copy[];
  /** Projects whose home could not be read, or not completely, so that they may be copies. */
  uncertain: Copy[];
}

/**
 * Enters the projects of cells into the directory, unless it leads to another cell that has or may have them.
 * `found` has the projects of each cell that could be read, also of the default one, whose database is `db`.
 * A cell that is not complete may lack some.
 */
export async function indexCells(
  db: Queryable,
  found: ReadonlyMap<string, readonly IndexedProject[]>,
  isComplete: (cell: string) => boolean = () => true,
): Promise<Conflicts> {
  const homes = await cellsOf(
    db,
    [...found.values()].flat().map(({ id }) => id),
  );
  for (const { id } of found.get(DEFAULT_CELL) ?? []) if (!homes.has(id)) homes.set(id, DEFAULT_CELL);
  const conflicts: Conflicts = { copies: [], uncertain: [] };
  for (const [cell, projects] of found) {
    if (cell === DEFAULT_CELL) continue;
    const own: IndexedProject[] = [];
    for (const project of projects) {
      const home = homes.get(project.id) ?? cell;
      const atHome = found.get(home);
      const copy = { projectId: project.id, cell, home };
      if (home !== cell && atHome?.some(({ id }) => id === project.id)) conflicts.copies.push(copy);
      else if (home !== cell && !(atHome && isComplete(home))) conflicts.uncertain.push(copy);
      else {
        own.push(project);
        homes.set(project.id, cell); // if several cells have it, the first one
      }
    }
    await indexProjects(db, cell, own);
  }
  return conflicts;
}

/** Describes the conflicts, a line for each project. */
export function describeConflicts({ copies, uncertain }: Conflicts): string[] {
  return [
    ...copies.map(
      ({ projectId, cell, home }) =>
        `the project ${projectId} is in the cell ${home} and in the cell ${cell}, too: ` +
        `requests go to ${home}, and the rows in ${cell} are a copy`,
    ),
    ...uncertain.map(
      ({ projectId, cell, home }) =>
        `the project ${projectId} is in the cell ${cell}, but the directory has it in the cell ${home}, ` +
        `which could not be read or was not restored: restore ${home}, too. If its data is lost, run ` +
        `belfry cell remove ${home} --lost, and then belfry cell index`,
    ),
  ];
}

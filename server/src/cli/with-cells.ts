import { type Cell, listCells } from '../domain/setup/cells/cells.ts';
import { CellDirectory } from '../domain/setup/cells/directory.ts';
import type { ProjectSummary } from '../domain/setup/projects/find.ts';
import { isId } from '../lib/ids.ts';
import { createLogger } from '../lib/log.ts';
import { type Opened, openCell } from '../open.ts';
import { CommandError } from './command.ts';
import { projectNamed } from './project-named.ts';
import { withContext } from './with-context.ts';

/** The cells of a command. Those besides the default one are opened when they are needed. */
export interface CommandCells {
  main: Opened;
  /** The others, as the directory has them. */
  cells: readonly Cell[];
  /** Their names. */
  names: readonly string[];
  /** Opens a cell. Throws a `CommandError` if there is none of that name. */
  named(name: string): Promise<Opened>;
  /** Opens all cells, the default one first. Returns those that could be, and why others could not. */
  all(): Promise<{ contexts: Opened[]; failures: Error[] }>;
}

/** Runs a command with the cells of the database, and closes them. */
export function withCells<Result>(work: (cells: CommandCells) => Promise<Result>): Promise<Result> {
  return withContext(async (main) => {
    const cells = await listCells(main.db);
    const opened = new Map<string, Opened>([[main.cell, main]]);
    const named = async (name: string) => {
      const known = opened.get(name);
      if (known !== undefined) return known;
      const cell = cells.find((one) => one.name === name);
      if (cell === undefined) throw new CommandError(`there is no cell ${name}: see belfry cell list`);
      const context = await openCell(main, cell, {
        role: 'client',
        log: createLogger({ level: 'silent' }),
      });
      opened.set(name, context);
      return context;
    };
    const names = cells.map(({ name }) => name);
    const all = async () => {
      const results = await Promise.allSettled([main.cell, ...names].map(named));
      return {
        contexts: results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])),
        failures: results.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : [])),
      };
    };
    try {
      return await work({ main, cells, names, named, all });
    } finally {
      opened.delete(main.cell);
      await Promise.all([...opened.values()].map((context) => context.close()));
    }
  });
}

/** Runs a command for a project, in its cell. */
export function withProject<Result>(
  name: string | undefined,
  work: (context: Opened, project: ProjectSummary) => Promise<Result>,
): Promise<Result> {
  return withCells(async (cells) => {
    const { contexts, failures } = await cellsWith(cells, name);
    const { context, project } = await projectNamed(contexts, name).catch((error: unknown) => {
      // It may live in the cell that cannot be reached.
      throw failures[0] ?? error;
    });
    return work(context, project);
  });
}

/** The cells that can have the project: one for an id, also if another cell cannot be reached. */
async function cellsWith(
  { main, names, named, all }: CommandCells,
  name: string | undefined,
): ReturnType<CommandCells['all']> {
  if (name === undefined || names.length === 0 || !isId(name)) return all();
  const cell = (await new CellDirectory(main).find({ projectId: name })) ?? main.cell;
  return { contexts: [await named(cell)], failures: [] };
}

/** Reports cells that could not be opened. The exit code of the command is 1. */
export function reportFailures(failures: readonly Error[]): void {
  for (const { message } of failures) console.error(`belfry: ${message}`);
  if (failures.length > 0) process.exitCode = 1;
}

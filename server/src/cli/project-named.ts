import { DEMO_PROJECT } from '../domain/setup/projects/create.ts';
import { findProject, listProjects, type ProjectSummary } from '../domain/setup/projects/find.ts';
import type { Opened } from '../open.ts';
import { CommandError, UsageError } from './command.ts';
import { plain } from './output.ts';

/** The options of commands for one project. */
export interface ForProject {
  project?: string;
  json?: boolean;
}

/** A project with its cell. */
export interface FoundProject {
  context: Opened;
  project: ProjectSummary;
}

/** The project with this name or id in the cells; without one the only project besides that of the demo. */
export async function projectNamed(
  cells: readonly Opened[],
  name: string | undefined,
): Promise<FoundProject> {
  const found: FoundProject[] = [];
  for (const context of cells) {
    const projects = name === undefined ? await listProjects(context) : [await findProject(context, name)];
    for (const project of projects) if (project !== undefined) found.push({ context, project });
  }
  return name === undefined ? onlyProject(found) : onlyNamed(found, name);
}

function onlyNamed(found: readonly FoundProject[], name: string): FoundProject {
  const [first] = found;
  if (first === undefined) throw new CommandError(`there is no project ${name}: see belfry project list`);
  if (found.length > 1) {
    const ids = found.map(({ context, project }) => `${project.id} in the cell ${context.cell}`);
    throw new UsageError(`several projects are named ${plain(name)}: choose ${ids.join(', or ')}`);
  }
  return first;
}

function onlyProject(found: readonly FoundProject[]): FoundProject {
  const projects = found.filter(({ project }) => project.name !== DEMO_PROJECT);
  const [only] = projects;
  if (only === undefined)
    throw new CommandError('there is no project yet: start the server, or use belfry project create <name>');
  if (projects.length > 1) {
    const names = projects.map(({ project }) => plain(project.name)).join(', ');
    throw new UsageError(`there are ${projects.length} projects: choose one of ${names}`);
  }
  return only;
}

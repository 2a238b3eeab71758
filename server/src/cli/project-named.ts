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

/** The project with this name or id; without one the only project besides that of the demo. */
export async function projectNamed(context: Opened, name: string | undefined): Promise<ProjectSummary> {
  if (name === undefined) return onlyProject(context);
  const project = await findProject(context, name);
  if (project === undefined) throw new CommandError(`there is no project ${name}: see belfry project list`);
  return project;
}

async function onlyProject(context: Opened): Promise<ProjectSummary> {
  const projects = (await listProjects(context)).filter(({ name }) => name !== DEMO_PROJECT);
  const [only] = projects;
  if (only === undefined)
    throw new CommandError('there is no project yet: start the server, or use belfry project create <name>');
  if (projects.length > 1) {
    const names = projects.map(({ name }) => plain(name)).join(', ');
    throw new UsageError(`there are ${projects.length} projects: choose one of ${names}`);
  }
  return only;
}

import { findProject, type ProjectSummary } from '../domain/projects/find.ts';
import type { Opened } from '../open.ts';
import { CommandError } from './command.ts';

/** The project that a command names by its name or id. */
export async function projectNamed(context: Opened, name: string): Promise<ProjectSummary> {
  const project = await findProject(context, name);
  if (project === undefined) throw new CommandError(`there is no project ${name}: see belfry project list`);
  return project;
}

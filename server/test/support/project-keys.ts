import type { Service } from '../../src/app.ts';
import { createProject } from '../../src/domain/setup/projects/create.ts';
import { issueToken } from '../../src/domain/setup/projects/tokens.ts';
import { newId } from '../../src/lib/ids.ts';

export interface ProjectKeys {
  id: string;
  apiKey: string;
  apiSecret: string;
  jwt: string;
}

/** Creates a project, whose name gets a suffix at a second attempt of a test, and issues a token for it. */
export async function createProjectKeys(context: Service['context'], name: string): Promise<ProjectKeys> {
  const project =
    (await createProject(context, name)) ?? (await createProject(context, `${name} ${newId()}`));
  const issued = project && (await issueToken(context, { projectId: project.id, name: 'test' }));
  if (project === undefined || issued === undefined) throw new Error(`cannot create project ${name}`);
  const { id, apiKey, apiSecret } = project;
  return { id, apiKey, apiSecret, jwt: issued.token };
}

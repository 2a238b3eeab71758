import type { Database } from '../../db/client.ts';
import { sql } from '../../db/client.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Sealer } from '../../lib/seal.ts';
import { createProject } from './create.ts';
import { findProject } from './find.ts';
import { issueToken } from './tokens.ts';
import { apiSecretOf } from './user-token.ts';

/** What a program needs to speak for a project. */
export interface Credentials {
  project_id: string;
  api_key: string;
  api_secret: string;
  project_jwt: string;
}

const NAME = 'default';

/**
 * The credentials of the project `default`, which is made where there is no project of that name. The token is issued anew each time:
 * ask only when there is no use of an earlier one. Answers `undefined` when there are projects but none of that name.
 */
export async function defaultCredentials(deps: {
  db: Database;
  sealer: Sealer;
  clock: Clock;
}): Promise<Credentials | undefined> {
  const { db } = deps;
  const [count] = await db.query<{ any: boolean }>(anyProject);
  if (!count?.any) await createProject(deps, NAME);
  const project = await findProject(deps, NAME);
  if (project === undefined) return undefined;
  const issued = await issueToken(deps, { projectId: project.id, name: 'credentials.json' });
  if (issued === undefined) return undefined;
  return {
    project_id: project.id,
    api_key: project.apiKey,
    api_secret: await apiSecretOf(deps, project.id),
    project_jwt: issued.token,
  };
}

const anyProject = sql('any_project', 'select exists (select from projects) as any');

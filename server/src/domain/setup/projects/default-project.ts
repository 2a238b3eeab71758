import { type Database, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { createProject, DEFAULT_PROJECT } from './create.ts';
import { findProject } from './find.ts';
import { replaceToken } from './tokens.ts';
import { apiSecretOf } from './user-token.ts';

/** What a client needs to use the API of a project. */
export interface Credentials {
  project_id: string;
  api_key: string;
  api_secret: string;
  project_jwt: string;
}

/**
 * Returns the credentials of the project `default`, which is created if there is no project at all. Each call
 * issues a token and revokes the previous one for the same `issuedFor`. Returns undefined if there are
 * projects, but none of that name.
 */
export async function defaultCredentials(
  deps: { db: Database; sealer: Sealer; clock: Clock; bus: Bus },
  { issuedFor }: { issuedFor: string },
): Promise<Credentials | undefined> {
  const { db } = deps;
  const [count] = await db.query<{ any: boolean }>(anyProject);
  if (!count?.any) await createProject(deps, DEFAULT_PROJECT);
  const project = await findProject(deps, DEFAULT_PROJECT);
  if (project === undefined) return undefined;
  const token = await replaceToken(deps, { projectId: project.id, name: 'credentials.json', issuedFor });
  if (token === undefined) return undefined;
  return {
    project_id: project.id,
    api_key: project.apiKey,
    api_secret: await apiSecretOf(deps, project.id),
    project_jwt: token,
  };
}

const anyProject = sql('any_project', 'select exists (select from projects) as any');

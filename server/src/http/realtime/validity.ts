import type { ProjectCache } from '../../domain/setup/projects/cache.ts';
import type { Clock } from '../../lib/clock.ts';
import { type Credential, isStillValid } from '../auth.ts';

export interface ValidityDeps {
  projects: Pick<ProjectCache, 'byId'>;
  clock: Clock;
}

/** Whether the credential of an open connection is valid now, in the project as it is now. */
export async function isValidNow(
  { projects, clock }: ValidityDeps,
  { credential, project }: { credential: Credential; project: { id: string } },
): Promise<boolean> {
  try {
    const now = await projects.byId(project.id);
    return now !== undefined && isStillValid(credential, now, clock.now());
  } catch {
    return true; // the database is unavailable; the next heartbeat checks again
  }
}

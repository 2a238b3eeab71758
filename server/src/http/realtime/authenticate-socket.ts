import type { Database } from '../../db/client.ts';
import type { Bus } from '../../domain/ground/bus/messages.ts';
import { findInboxToken } from '../../domain/people/tokens/find-by-value.ts';
import type { LastSeen } from '../../domain/people/users/last-seen.ts';
import { restoreUser } from '../../domain/people/users/restore.ts';
import type { ProjectCache } from '../../domain/setup/projects/cache.ts';
import type { Sealer } from '../../lib/seal.ts';

/** The user of a socket. */
export interface SocketCaller {
  projectId: string;
  userId: string;
  tokenId: string;
  connectionId: string | null;
}

/** Returns the user of a socket; undefined for a key or a token that is unknown or no longer valid. */
export type SocketAuthenticator = (given: {
  apiKey: string;
  token: string;
}) => Promise<SocketCaller | undefined>;

/**
 * An authenticator by API key and inbox token. It restores a deleted user, as every request of the user does.
 */
export function createSocketAuthenticator({
  db,
  bus,
  sealer,
  projects,
  lastSeen,
}: {
  db: Database;
  bus: Bus;
  sealer: Sealer;
  projects: Pick<ProjectCache, 'byApiKey'>;
  lastSeen: Pick<LastSeen, 'note'>;
}): SocketAuthenticator {
  return async ({ apiKey, token }) => {
    const project = await projects.byApiKey(apiKey);
    if (project === undefined) return undefined;
    const owner = await findInboxToken({ db, sealer }, project.id, token);
    if (owner === undefined) return undefined;
    const { userDeleted, ...who } = owner;
    if (userDeleted && !(await restoreUser({ db, bus }, who.userId))) return undefined;
    lastSeen.note(who.userId);
    return { projectId: project.id, ...who };
  };
}

import type { Queryable } from '../../db/client.ts';
import type { ProjectCache } from '../../domain/projects/cache.ts';
import { findInboxToken } from '../../domain/tokens/find-by-value.ts';
import type { LastSeen } from '../../domain/users/last-seen.ts';
import type { Sealer } from '../../lib/seal.ts';

/** Who opens a socket. */
export interface SocketCaller {
  projectId: string;
  userId: string;
  tokenId: string;
  connectionId: string | null;
}

/** Finds out whose socket it is; undefined for a key or a token that is unknown or no longer valid. */
export type SocketAuthenticator = (given: {
  apiKey: string;
  token: string;
}) => Promise<SocketCaller | undefined>;

/** An authenticator by API key and inbox token. To open a socket is a request of the user, as far as `last_seen_at` goes. */
export function createSocketAuthenticator({
  db,
  sealer,
  projects,
  lastSeen,
}: {
  db: Queryable;
  sealer: Sealer;
  projects: Pick<ProjectCache, 'byApiKey'>;
  lastSeen: Pick<LastSeen, 'note'>;
}): SocketAuthenticator {
  return async ({ apiKey, token }) => {
    const project = await projects.byApiKey(apiKey);
    if (project === undefined) return undefined;
    const owner = await findInboxToken({ db, sealer }, project.id, token);
    if (owner === undefined) return undefined;
    lastSeen.note(owner.userId);
    return { projectId: project.id, ...owner };
  };
}

import type { Database } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type Identities, identityKey, identityKeysOf } from '../../ground/identities/identities.ts';
import { findOwners, publishChanges, resolveUsers } from './resolve.ts';
import { restoreUser } from './restore.ts';

/** Returns the user that a User JWT names. Creates it at first use and restores it if it is deleted. */
export type UserIdentifier = (
  projectId: string,
  named: { externalId?: string | undefined; email?: string | undefined },
) => Promise<{ userId: string }>;

interface Named {
  projectId: string;
  externalId?: string;
  email?: string;
}

/**
 * Creates a `UserIdentifier`. It needs no statement for a cached user, and concurrent look-ups share one:
 * when ten thousand inboxes open, they would be a quarter of all statements.
 */
export function createUserIdentifier(deps: {
  db: Database;
  identities: Identities;
  bus: Bus;
}): UserIdentifier {
  const { db, identities, bus } = deps;
  const lookUps = new Batcher<Named, { userId: string; deleted: boolean } | undefined>({
    run: (people) => findUsers(deps, people),
    concurrency: 2,
    maxItems: 1_000,
  });
  return async (projectId, { externalId, email }) => {
    // The external id wins. A known user keeps the stored address: tokens live long, and addresses change.
    const named: Named =
      externalId !== undefined ? { projectId, externalId } : { projectId, email: email ?? '' };
    const cached = identities.get(keyOf(named));
    if (cached !== undefined) return { userId: cached };
    const known = await lookUps.add(named);
    if (known !== undefined && (!known.deleted || (await restoreUser(deps, known.userId))))
      return { userId: known.userId };
    const resolved = await db.transaction((tx) =>
      resolveUsers(tx, identities, [{ projectId, externalId, email }], 'restore'),
    );
    resolved.remember();
    publishChanges(bus, resolved);
    const userId = resolved.userIds[0];
    if (userId === undefined) throw new Error('a person was resolved without a user');
    return { userId };
  };
}

/** Looks up users, and caches those that are not deleted. */
async function findUsers(
  { db, identities }: { db: Database; identities: Identities },
  people: readonly Named[],
): Promise<({ userId: string; deleted: boolean } | undefined)[]> {
  const { removals } = identities;
  const names = people.map(identityKeysOf);
  const { owners, deleted, found } = await findOwners(db, identities, people, names, true);
  if (identities.removals === removals) for (const [key, userId] of found) identities.set(key, userId);
  return people.map((named) => {
    const userId = owners.get(keyOf(named));
    return userId === undefined ? undefined : { userId, deleted: deleted.has(userId) };
  });
}

function keyOf({ projectId, externalId, email = '' }: Named): string {
  return externalId !== undefined
    ? identityKey(projectId, 'external_id', externalId)
    : identityKey(projectId, 'email', email);
}

import { type Database, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import {
  type Identities,
  type IdentityKind,
  identityKey,
  identityValue,
} from '../../ground/identities/identities.ts';
import { publishChanges, resolveUsers } from './resolve.ts';
import { restoreUser } from './restore.ts';

interface Named {
  externalId?: string | undefined;
  email?: string | undefined;
}

/**
 * Returns the user that a User JWT names. Creates it at first use and restores it if it is deleted. Needs no
 * statement for a cached user.
 */
export async function identifyUser(
  deps: { db: Database; identities: Identities; bus: Bus },
  projectId: string,
  named: Named,
): Promise<{ userId: string }> {
  const { db, identities, bus } = deps;
  const known = await lookUp(deps, projectId, named);
  if (known !== undefined && (!known.isDeleted || (await restoreUser(deps, known.userId))))
    return { userId: known.userId };
  const { externalId, email } = named;
  const resolved = await db.transaction((tx) =>
    resolveUsers(tx, identities, [{ projectId, externalId, email }], 'restore'),
  );
  resolved.remember();
  publishChanges(bus, resolved);
  const userId = resolved.userIds[0];
  if (userId === undefined) throw new Error('a person was resolved without a user');
  return { userId };
}

/** The same, but returns undefined for a user that is deleted, and does not restore it. */
export async function identifyUnlessDeleted(
  deps: Parameters<typeof identifyUser>[0],
  projectId: string,
  named: Named,
): Promise<{ userId: string } | undefined> {
  const known = await lookUp(deps, projectId, named);
  if (known === undefined) return identifyUser(deps, projectId, named);
  return known.isDeleted ? undefined : known;
}

async function lookUp(
  { db, identities }: { db: Database; identities: Identities },
  projectId: string,
  { externalId, email }: Named,
): Promise<{ userId: string; isDeleted: boolean } | undefined> {
  // The external id wins. A known user keeps the stored address: tokens live long, and addresses change.
  const [kind, value]: [IdentityKind, string] =
    externalId !== undefined ? ['external_id', externalId] : ['email', email ?? ''];
  const key = identityKey(projectId, kind, value);
  const cached = identities.get(key);
  if (cached !== undefined) return { userId: cached, isDeleted: false };
  const { removals } = identities;
  const [known] = await db.query<{ user_id: string; deleted: boolean }>(selectOwner, [
    projectId,
    kind,
    identityValue(kind, value),
  ]);
  if (known === undefined) return undefined;
  const { user_id: userId, deleted: isDeleted } = known;
  if (!isDeleted && identities.removals === removals) identities.set(key, userId);
  return { userId, isDeleted };
}

// Primary key of user_keys.
const selectOwner = sql(
  'select_user_by_identity',
  'select user_id, deleted from user_keys where project_id = $1 and kind = $2 and value = $3',
);

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

/**
 * Returns the user that a User JWT names. Creates it at first use and restores it if it is deleted. Needs no
 * statement for a cached user.
 */
export async function identifyUser(
  deps: { db: Database; identities: Identities; bus: Bus },
  projectId: string,
  named: { externalId?: string | undefined; email?: string | undefined },
): Promise<{ userId: string }> {
  const { db, identities, bus } = deps;
  // The external id wins. A known user keeps the stored address: tokens live long, and addresses change.
  const { externalId, email } = named;
  const [kind, value]: [IdentityKind, string] =
    externalId !== undefined ? ['external_id', externalId] : ['email', email ?? ''];
  const key = identityKey(projectId, kind, value);
  const cached = identities.get(key);
  if (cached !== undefined) return { userId: cached };
  const { removals } = identities;
  const [known] = await db.query<{ user_id: string; deleted: boolean }>(selectOwner, [
    projectId,
    kind,
    identityValue(kind, value),
  ]);
  if (known !== undefined && (!known.deleted || (await restoreUser(deps, known.user_id)))) {
    if (!known.deleted && identities.removals === removals) identities.set(key, known.user_id);
    return { userId: known.user_id };
  }
  const resolved = await db.transaction((tx) =>
    resolveUsers(tx, identities, [{ projectId, externalId, email }], 'restore'),
  );
  resolved.remember();
  publishChanges(bus, resolved);
  const userId = resolved.userIds[0];
  if (userId === undefined) throw new Error('a person was resolved without a user');
  return { userId };
}

// Primary key of user_keys.
const selectOwner = sql(
  'select_user_by_identity',
  'select user_id, deleted from user_keys where project_id = $1 and kind = $2 and value = $3',
);

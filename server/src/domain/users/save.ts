import type { SaveUser } from '../../contract/user.ts';
import { type Database, type Queryable, sql } from '../../db/client.ts';
import { ClientError } from '../../errors.ts';
import { recordEvents } from '../events/record.ts';
import { getUser, type UserRow } from './get.ts';
import { type Identities, type IdentityKind, identityKey, identityValue } from './identities.ts';
import { resolveUsers } from './resolve.ts';

/**
 * Creates the user or writes what is said about them: a member that is given replaces the stored one, an absent one stays,
 * null clears. Throws 422 when the identities name two different users.
 */
export async function saveUser(
  { db, identities }: { db: Pick<Database, 'transaction'>; identities: Identities },
  projectId: string,
  given: SaveUser,
): Promise<UserRow> {
  const { user, cleared, remember } = await db.transaction(async (tx) => {
    const resolved = await resolveUsers(tx, identities, [
      {
        projectId,
        externalId: given.external_id ?? undefined,
        email: given.email ?? undefined,
        firstName: given.first_name,
        lastName: given.last_name,
        customAttributes:
          given.custom_attributes === undefined || given.custom_attributes === null
            ? given.custom_attributes
            : JSON.stringify(given.custom_attributes),
        phoneNumbers: given.phone_numbers,
      },
    ]);
    const userId = resolved.userIds[0];
    if (userId === undefined) throw new Error('a person without a user');
    if (resolved.conflicts.length > 0) {
      throw new ClientError('validation_failed', ["Param 'email' belongs to another user"]);
    }
    const cleared = resolved.created.has(userId) ? [] : await adjust(tx, projectId, userId, given);
    const user = await getUser(tx, projectId, userId);
    if (user === undefined) throw new Error(`user ${userId} is not there after it was saved`);
    return { user, cleared, remember: resolved.remember };
  });
  remember();
  for (const key of cleared) identities.forget(key);
  return user;
}

/**
 * What a recipient of a broadcast cannot say and an upsert can: that an identity is gone, how an address is spelled, and that
 * a deleted user is back. Answers the identities that are gone.
 */
async function adjust(tx: Queryable, projectId: string, userId: string, given: SaveUser): Promise<string[]> {
  const [before] = await tx.query<{ external_id: string | null; email: string | null; deleted: boolean }>(
    lockUser,
    [userId],
  );
  if (before === undefined) throw new Error(`user ${userId} is not there`);
  const gone: { kind: IdentityKind; value: string }[] = [];
  if (given.external_id === null && before.external_id !== null) {
    gone.push({ kind: 'external_id', value: before.external_id });
  }
  if (given.email === null && before.email !== null) gone.push({ kind: 'email', value: before.email });
  for (const { kind, value } of gone) {
    await tx.query(deleteKey, [projectId, kind, identityValue(kind, value), userId]);
  }
  const respelled = typeof given.email === 'string' && given.email !== before.email;
  if (gone.length > 0 || respelled) {
    await tx.query(updateIdentities, [
      userId,
      given.external_id === null ? null : before.external_id,
      given.email === undefined ? before.email : given.email,
    ]);
    await recordEvents(tx, [{ projectId, type: 'user.updated', userIds: [userId] }]);
  }
  if (before.deleted) {
    await tx.query(restoreUser, [userId]);
    await recordEvents(tx, [{ projectId, type: 'user.restored', userIds: [userId] }]);
  }
  return gone.map(({ kind, value }) => identityKey(projectId, kind, value));
}

// Primary keys.
const lockUser = sql(
  'lock_user',
  'select external_id, email, deleted_at is not null as deleted from users where id = $1 for update',
);
const deleteKey = sql(
  'delete_user_key',
  'delete from user_keys where project_id = $1 and kind = $2 and value = $3 and user_id = $4',
);
const updateIdentities = sql(
  'update_user_identities',
  'update users set external_id = $2, email = $3, updated_at = now() where id = $1',
);
const restoreUser = sql('restore_user', 'update users set deleted_at = null where id = $1');

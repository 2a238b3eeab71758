import type { SaveUser } from '../../../contract/user.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import {
  type Identities,
  type IdentityKind,
  identityKey,
  identityValue,
} from '../../ground/identities/identities.ts';
import { KEEP_FORMER } from '../../ground/identities/keys.ts';
import { getUser, type UserRow } from './get.ts';
import type { Person } from './plan.ts';
import { publishChanges, type Resolved, resolveUsers } from './resolve.ts';
import { Changed, undisturbed } from './undisturbed.ts';

/**
 * Creates the user or writes what is said about them: a member that is given replaces the stored one, an
 * absent one stays, null clears. Throws 422 when the identities name two different users.
 */
export async function saveUser(
  { db, identities, bus }: { db: Pick<Database, 'transaction'>; identities: Identities; bus: Bus },
  projectId: string,
  given: SaveUser,
): Promise<UserRow> {
  const { user, cleared, resolved } = await undisturbed(() =>
    db.transaction((tx) => save(tx, identities, projectId, given)),
  );
  resolved.remember();
  publishChanges(bus, { restored: resolved.restored, moved: [...resolved.moved, ...cleared] });
  return user;
}

async function save(
  tx: Queryable,
  identities: Identities,
  projectId: string,
  given: SaveUser,
): Promise<{ user: UserRow; cleared: string[]; resolved: Resolved }> {
  const resolved = await resolveUsers(tx, identities, [personOf(projectId, given)], 'is restored');
  const userId = resolved.userIds[0];
  if (userId === undefined) throw new Error('a person without a user');
  if (resolved.conflicts.length > 0) {
    throw new ClientError('validation_failed', ["Param 'email' belongs to another user"]);
  }
  const cleared = resolved.created.has(userId)
    ? []
    : await adjust(tx, projectId, userId, given, resolved.updated.has(userId));
  const user = await getUser(tx, projectId, userId);
  if (user === undefined) throw new Error(`user ${userId} is not there after it was saved`);
  return { user, cleared, resolved };
}

function personOf(projectId: string, given: SaveUser): Person {
  const { custom_attributes: attributes } = given;
  return {
    projectId,
    externalId: given.external_id ?? undefined,
    email: given.email ?? undefined,
    firstName: given.first_name,
    lastName: given.last_name,
    customAttributes: attributes ? JSON.stringify(attributes) : attributes,
    phoneNumbers: given.phone_numbers,
  };
}

/**
 * What a recipient of a broadcast cannot say and an upsert can: that an identity is gone, and how an address
 * is spelled. Answers the identities that are gone. One request is one event, so nothing is told where the
 * change of other members was.
 */
async function adjust(
  tx: Queryable,
  projectId: string,
  userId: string,
  given: SaveUser,
  isTold: boolean,
): Promise<string[]> {
  const [before] = await tx.query<{ external_id: string | null; email: string | null }>(lockUser, [userId]);
  // Deleted, or given another name, at this moment.
  if (before === undefined || !goesBy(before, given)) throw new Changed();
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
    if (!isTold) await recordEvents(tx, [{ projectId, type: 'user.updated', userIds: [userId] }]);
  }
  return gone.map(({ kind, value }) => identityKey(projectId, kind, value));
}

/** Whether a user has the names by which it was found. */
function goesBy(
  user: { external_id: string | null; email: string | null },
  { external_id, email }: SaveUser,
): boolean {
  const spelt = (address: string | null) => address && identityValue('email', address);
  return (
    (typeof external_id !== 'string' || external_id === user.external_id) &&
    (typeof email !== 'string' || spelt(email) === spelt(user.email))
  );
}

// Primary keys.
const lockUser = sql(
  'lock_user',
  'select external_id, email from users where id = $1 and deleted_at is null for update',
);
const deleteKey = sql(
  'delete_user_key',
  `with gone as (
    delete from user_keys
    where project_id = $1 and kind = $2 and value = $3 and user_id = $4
    returning user_id, kind, value
  )
  ${KEEP_FORMER}`,
);
const updateIdentities = sql(
  'update_user_identities',
  'update users set external_id = $2, email = $3, updated_at = now() where id = $1',
);

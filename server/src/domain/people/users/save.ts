import type { SaveUser } from '../../../contract/user.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { writeJson } from '../../../lib/exact-numbers.ts';
import { canonicalLocale } from '../../../lib/locale.ts';
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
import { ConflictingChange, retryOnConflict } from './retry-on-conflict.ts';

/**
 * Creates or updates a user: a given member replaces the stored one, an absent one stays, null clears. Throws
 * `validation_failed` if the identities belong to two users.
 */
export async function saveUser(
  { db, identities, bus }: { db: Pick<Database, 'transaction'>; identities: Identities; bus: Bus },
  projectId: string,
  given: SaveUser,
): Promise<UserRow> {
  const { user, cleared, resolved } = await retryOnConflict(() =>
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
  const resolved = await resolveUsers(tx, identities, [personOf(projectId, given)], 'restore');
  const userId = resolved.userIds[0];
  if (userId === undefined) throw new Error('a person was resolved without a user');
  if (resolved.conflicts.length > 0) {
    throw new ClientError('validation_failed', ["Param 'email' belongs to another user"]);
  }
  const cleared = resolved.created.has(userId)
    ? []
    : await changeIdentities(tx, projectId, userId, given, resolved.updated.has(userId));
  const user = await getUser(tx, projectId, userId);
  if (user === undefined) throw new Error(`user ${userId} does not exist after it was saved`);
  return { user, cleared, resolved };
}

/** Returns a body of the API as a person. */
export function personOf(projectId: string, given: SaveUser): Person {
  const { custom_attributes: attributes } = given;
  return {
    projectId,
    externalId: given.external_id ?? undefined,
    email: given.email ?? undefined,
    firstName: given.first_name,
    lastName: given.last_name,
    locale: given.locale && canonicalLocale(given.locale),
    customAttributes: attributes ? writeJson(attributes) : attributes,
    phoneNumbers: given.phone_numbers,
  };
}

/**
 * Clears identities and changes the spelling of the address: recipients of broadcasts cannot do either.
 * Returns the cleared identities. Records no event if the request has already recorded one.
 */
async function changeIdentities(
  tx: Queryable,
  projectId: string,
  userId: string,
  given: SaveUser,
  isRecorded: boolean,
): Promise<string[]> {
  const [before] = await tx.query<{ external_id: string | null; email: string | null }>(lockUser, [userId]);
  // Deleted or renamed concurrently.
  if (before === undefined || !hasIdentities(before, given)) throw new ConflictingChange();
  const cleared: { kind: IdentityKind; value: string }[] = [];
  if (given.external_id === null && before.external_id !== null) {
    cleared.push({ kind: 'external_id', value: before.external_id });
  }
  if (given.email === null && before.email !== null) cleared.push({ kind: 'email', value: before.email });
  for (const { kind, value } of cleared) {
    await tx.query(deleteKey, [projectId, kind, identityValue(kind, value), userId]);
  }
  const respelled = typeof given.email === 'string' && given.email !== before.email;
  if (cleared.length > 0 || respelled) {
    await tx.query(updateIdentities, [
      userId,
      given.external_id === null ? null : before.external_id,
      given.email === undefined ? before.email : given.email,
    ]);
    if (!isRecorded) await recordEvents(tx, [{ projectId, type: 'user.updated', userIds: [userId] }]);
  }
  return cleared.map(({ kind, value }) => identityKey(projectId, kind, value));
}

/** Returns whether a user still has the identities by which it was found. */
function hasIdentities(
  user: { external_id: string | null; email: string | null },
  { external_id, email }: SaveUser,
): boolean {
  const normalized = (address: string | null) => address && identityValue('email', address);
  return (
    (typeof external_id !== 'string' || external_id === user.external_id) &&
    (typeof email !== 'string' || normalized(email) === normalized(user.email))
  );
}

// Primary keys.
const lockUser = sql(
  'lock_user',
  'select external_id, email from users where id = $1 and deleted_at is null for update',
);
const deleteKey = sql(
  'delete_user_key',
  `with removed_keys as (
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

import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import {
  cachedKeysOf,
  type IdentifiedUser,
  markKeys,
  type ReadUser,
  VERSION,
} from '../../ground/identities/keys.ts';
import { ConflictingChange, retryOnConflict } from '../../people/users/retry-on-conflict.ts';

/**
 * Deletes a user of the project: hides the user immediately, stops all deliveries and closes open
 * connections. The user is purged seven days later (purge-users.ts) unless restored. Returns false if there
 * is no such user.
 */
export async function deleteUser(
  { db, bus, clock }: { db: Pick<Database, 'transaction'>; bus: Bus; clock: Clock },
  projectId: string,
  id: string,
): Promise<boolean> {
  const deleted = await retryOnConflict(() =>
    db.transaction((tx) => attempt(tx, projectId, id, new Date(clock.now()))),
  );
  if (deleted === undefined) return false;
  bus.publish({ type: 'identities_changed', keys: cachedKeysOf(deleted) });
  bus.publish({ type: 'user_deleted', userId: id });
  return true;
}

/** Returns the user as it was, or undefined if there is none. */
async function attempt(
  tx: Queryable,
  projectId: string,
  id: string,
  at: Date,
): Promise<IdentifiedUser | undefined> {
  const [user] = await tx.query<ReadUser>(selectUser, [id, projectId]);
  if (user === undefined) return undefined;
  // Identities are always locked first.
  await markKeys(tx, [user], true);
  const hidden = await tx.query(hide, [id, at, user.version]);
  if (hidden.length === 0) throw new ConflictingChange(); // changed concurrently
  await recordEvents(tx, [{ projectId, type: 'user.deleted', userIds: [id] }]);
  return user;
}

// Primary key, both.
const selectUser = sql(
  'user_to_delete',
  `select id, project_id, external_id, email, ${VERSION}
  from users
  where id = $1 and project_id = $2 and deleted_at is null`,
);
const hide = sql(
  'delete_user',
  `update users
  set deleted_at = $2
  where id = $1 and xmin::text = $3
  returning id`,
);

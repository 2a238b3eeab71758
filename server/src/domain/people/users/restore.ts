import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import { markKeys, type ReadUser, VERSION } from '../../ground/identities/keys.ts';
import { ConflictingChange, retryOnConflict } from './retry-on-conflict.ts';

/**
 * Restores deleted users in the caller's transaction. Of concurrent calls, one records the event. Returns
 * `purged` if the purge of a user has begun. Returns `changed` if a user was changed concurrently: then the
 * caller has to roll back.
 */
export async function restoreUsers(
  tx: Queryable,
  userIds: readonly string[],
): Promise<'restored' | 'purged' | 'changed'> {
  if (userIds.length === 0) return 'restored';
  const users = await tx.query<ReadUser>(selectUsers, [uuidArray(userIds)]);
  if (users.length < userIds.length) return 'purged';
  // Identities are locked before users, as in all transactions.
  await markKeys(tx, users, false);
  const locked = await tx.query<{ id: string; project_id: string; was_deleted: boolean }>(restore, [
    uuidArray(users.map((user) => user.id)),
    textArray(users.map((user) => user.version)),
  ]);
  const restored = locked.filter((user) => user.was_deleted);
  await recordEvents(
    tx,
    restored.map(
      ({ id, project_id }): NewEvent => ({ projectId: project_id, type: 'user.restored', userIds: [id] }),
    ),
  );
  return locked.length === userIds.length ? 'restored' : 'changed';
}

/** Restores a deleted user. Returns false if its purge has begun. */
export async function restoreUser(
  { db, bus }: { db: Pick<Database, 'transaction'>; bus: Bus },
  userId: string,
): Promise<boolean> {
  const outcome = await retryOnConflict(() =>
    db.transaction(async (tx) => {
      const outcome = await restoreUsers(tx, [userId]);
      if (outcome === 'changed') throw new ConflictingChange();
      return outcome;
    }),
  );
  if (outcome === 'purged') return false;
  bus.publish({ type: 'user_restored', userId });
  return true;
}

// Primary key. '-infinity': see purge-users.ts.
const selectUsers = sql(
  'users_to_restore',
  `select id, project_id, external_id, email, ${VERSION}
  from users
  where id = any ($1::uuid[]) and deleted_at is distinct from '-infinity'`,
);
// Primary key. Also returns users that were not deleted.
const restore = sql(
  'restore_users',
  `with named as (
    select u.id, u.deleted_at is not null as was_deleted
    from unnest($1::uuid[], $2::text[]) as n (id, version)
    join users u on u.id = n.id
    where u.xmin::text = n.version
    order by u.id
    for update of u
  )
  update users u
  set deleted_at = null
  from named
  where u.id = named.id
  returning u.id, u.project_id, named.was_deleted`,
);

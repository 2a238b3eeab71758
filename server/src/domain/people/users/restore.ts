import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import { type IdentifiedUser, markKeys } from '../../ground/identities/keys.ts';
import { Changed, undisturbed } from './undisturbed.ts';

/**
 * Brings deleted users back, in the caller's transaction: of many who do it at once, one records it. `gone`
 * are users whose purge has begun: nothing is left to bring back. After `changed`, which is that one of them
 * was renamed at this moment, the caller has to undo what was written.
 */
export async function restoreUsers(
  tx: Queryable,
  userIds: readonly string[],
): Promise<'restored' | 'gone' | 'changed'> {
  if (userIds.length === 0) return 'restored';
  const users = await tx.query<IdentifiedUser>(selectUsers, [uuidArray(userIds)]);
  if (users.length < userIds.length) return 'gone';
  // The identities first, as everywhere.
  await markKeys(tx, users, false);
  const there = await tx.query<{ id: string; project_id: string; was_deleted: boolean }>(restore, [
    uuidArray(users.map((user) => user.id)),
    textArray(users.map((user) => user.external_id)),
    textArray(users.map((user) => user.email)),
  ]);
  const back = there.filter((user) => user.was_deleted);
  await recordEvents(
    tx,
    back.map(
      ({ id, project_id }): NewEvent => ({ projectId: project_id, type: 'user.restored', userIds: [id] }),
    ),
  );
  return there.length === userIds.length ? 'restored' : 'changed';
}

/** Brings a deleted user back and tells all nodes; answers whether the user is there. */
export async function restoreUser(
  { db, bus }: { db: Pick<Database, 'transaction'>; bus: Bus },
  userId: string,
): Promise<boolean> {
  const outcome = await undisturbed(() =>
    db.transaction(async (tx) => {
      const outcome = await restoreUsers(tx, [userId]);
      if (outcome === 'changed') throw new Changed();
      return outcome;
    }),
  );
  if (outcome === 'gone') return false;
  bus.publish({ type: 'user_restored', userId });
  return true;
}

// Primary keys. '-infinity': see purge.ts.
const selectUsers = sql(
  'users_to_restore',
  `select id, project_id, external_id, email
  from users
  where id = any ($1::uuid[]) and deleted_at is distinct from '-infinity'`,
);
// Who is there already, because somebody else brought them back, is locked and answered as well.
const restore = sql(
  'restore_users',
  `with named as (
    select u.id, u.deleted_at is not null as was_deleted
    from unnest($1::uuid[], $2::text[], $3::text[]) as n (id, external_id, email)
    join users u on u.id = n.id
    where u.deleted_at is distinct from '-infinity'
      and u.external_id is not distinct from n.external_id
      and u.email is not distinct from n.email
    order by u.id
    for update of u
  )
  update users u
  set deleted_at = null
  from named
  where u.id = named.id
  returning u.id, u.project_id, named.was_deleted`,
);

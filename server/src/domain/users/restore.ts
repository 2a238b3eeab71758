import { uuidArray } from '../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../db/client.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';
import type { Bus } from '../realtime/messages.ts';
import { markKeys } from './keys.ts';

/**
 * Brings deleted users back, in the caller's transaction: of many who do it at once, one records it. Answers whether all of them are there
 * now; of one whose purge has begun nothing is left to bring back.
 */
export async function restoreUsers(tx: Queryable, userIds: readonly string[]): Promise<boolean> {
  if (userIds.length === 0) return true;
  const ids = uuidArray(userIds);
  const users = await tx.query<{
    id: string;
    project_id: string;
    external_id: string | null;
    email: string | null;
  }>(selectUsers, [ids]);
  if (users.length < userIds.length) return false;
  // The identities first, as everywhere.
  await markKeys(tx, users, false);
  const restored = await tx.query<{ id: string; project_id: string }>(restore, [ids]);
  await recordEvents(
    tx,
    restored.map(
      ({ id, project_id }): NewEvent => ({ projectId: project_id, type: 'user.restored', userIds: [id] }),
    ),
  );
  const [there] = await tx.query<{ count: number }>(countLiving, [ids]);
  return there?.count === userIds.length;
}

/** Brings a deleted user back and tells all nodes; answers whether the user is there. */
export async function restoreUser(
  { db, bus }: { db: Pick<Database, 'transaction'>; bus: Bus },
  userId: string,
): Promise<boolean> {
  const there = await db.transaction((tx) => restoreUsers(tx, [userId]));
  if (there) bus.publish({ type: 'user_restored', userId });
  return there;
}

// Primary keys. '-infinity': see purge.ts.
const selectUsers = sql(
  'users_to_restore',
  `select id, project_id, external_id, email
  from users
  where id = any ($1::uuid[]) and deleted_at is distinct from '-infinity'`,
);
const restore = sql(
  'restore_users',
  `with back as (
    select id
    from users
    where id = any ($1::uuid[]) and deleted_at > '-infinity'
    order by id
    for update
  )
  update users u
  set deleted_at = null
  from back
  where u.id = back.id
  returning u.id, u.project_id`,
);
const countLiving = sql(
  'count_living_users',
  'select count(*)::int as count from users where id = any ($1::uuid[]) and deleted_at is null',
);

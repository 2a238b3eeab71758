import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import { KEEP_FORMER, keyColumns } from '../../ground/identities/keys.ts';
import type { AddedKey, KnownUser, Plan } from './plan.ts';
import { restoreUsers } from './restore.ts';

/**
 * Writes the identities, locks the users whose own change by it, and brings back who is to be restored.
 * Answers false, with nothing written, when somebody else took one of them, or changed such a user, since we
 * looked.
 */
export async function writeIdentities(
  tx: Queryable,
  plan: Plan,
  details: ReadonlyMap<string, KnownUser>,
  restoring: boolean,
): Promise<boolean> {
  const back = restoring ? [...new Set(plan.deleted.values())] : [];
  if (plan.addedKeys.size === 0 && back.length === 0) return true;
  await tx.query(savepoint);
  if (
    (await writeKeys(tx, plan)) &&
    (await restoreUsers(tx, back)) === 'restored' &&
    (await stillAs(tx, details, [...plan.changed.keys()]))
  ) {
    await tx.query(releaseSavepoint);
    return true;
  }
  await tx.query(rollbackToSavepoint);
  return false;
}

async function writeKeys(tx: Queryable, plan: Plan): Promise<boolean> {
  const removed = [...plan.removedKeys.values()];
  const released = removed.filter(({ userId }) => plan.released.has(userId));
  const given = removed.filter(({ userId }) => !plan.released.has(userId));
  const added = sorted(plan.addedKeys.values());
  if (given.length > 0) await tx.query(deleteKeys, keyColumns(sorted(given)));
  if (released.length > 0) {
    // Who came back in the meantime keeps the address.
    const gone = await tx.query(releaseKeys, keyColumns(sorted(released)));
    if (gone.length < released.length) return false;
    await tx.query(clearReleased, [uuidArray([...plan.released].sort())]);
  }
  if (added.length === 0) return true;
  const [row] = await tx.query<{ count: number }>(insertKeys, keyColumns(added));
  return row?.count === added.length;
}

/**
 * Locks users; answers whether they still go by the names that the plan was made of: another would leave them
 * two of a kind.
 */
async function stillAs(
  tx: Queryable,
  details: ReadonlyMap<string, KnownUser>,
  userIds: readonly string[],
): Promise<boolean> {
  if (userIds.length === 0) return true;
  const rows = await tx.query<{
    id: string;
    external_id: string | null;
    email: string | null;
    deleted: boolean;
  }>(lockDetails, [userIds]);
  if (rows.length < userIds.length) return false; // purged
  return rows.every(({ id, external_id, email, deleted }) => {
    const seen = details.get(id);
    return !deleted && seen !== undefined && seen.externalId === external_id && seen.email === email;
  });
}

// In one order everywhere: two transactions that want the same identities then wait for each other, and never
// in a circle.
function sorted(keys: Iterable<AddedKey>): AddedKey[] {
  const position = (key: AddedKey) => `${key.projectId}${key.kind}${identityValue(key.kind, key.value)}`;
  return [...keys]
    .map((key) => ({ key, position: position(key) }))
    .sort((a, b) => (a.position < b.position ? -1 : 1))
    .map(({ key }) => key);
}

const savepoint = sql('users_savepoint', 'savepoint identities');
const releaseSavepoint = sql('users_release', 'release savepoint identities');
const rollbackToSavepoint = sql('users_rollback', 'rollback to savepoint identities');

// Primary key of users. In the order of ids, and after the identities, as in every other transaction. What it
// answers is what others committed while it waited.
const lockDetails = sql(
  'lock_identities',
  `select id, external_id, email, deleted_at is not null as deleted
  from users
  where id = any ($1::uuid[])
  order by id
  for no key update`,
);
// Primary keys. What a user went by stays known until their end: it is named in what was sent to them.
const deleteKeys = sql(
  'delete_keys',
  `with gone as (
    delete from user_keys k
    using unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as gone (project_id, kind, value, user_id)
    where k.project_id = gone.project_id and k.kind = gone.kind and k.value = gone.value and k.user_id = gone.user_id
    returning k.user_id, k.kind, k.value
  )
  ${KEEP_FORMER}`,
);
const releaseKeys = sql(
  'release_keys',
  `with gone as (
    delete from user_keys k
    using unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as gone (project_id, kind, value, user_id)
    where k.project_id = gone.project_id and k.kind = gone.kind and k.value = gone.value and k.user_id = gone.user_id
      and k.deleted
    returning k.user_id, k.kind, k.value
  ),
  kept as (
    ${KEEP_FORMER}
  )
  select user_id from gone`,
);
const clearReleased = sql(
  'clear_released_addresses',
  `with released as (
    select id from users where id = any ($1::uuid[]) order by id for no key update
  )
  update users u
  set email = null
  from released
  where u.id = released.id`,
);
// The primary key decides who creates a user: the loser waits here for the winner's commit, and then gets no
// row.
const insertKeys = sql(
  'insert_keys',
  `with written as (
    insert into user_keys (project_id, kind, value, user_id)
    select project_id, kind, value, user_id
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as k (project_id, kind, value, user_id)
    on conflict do nothing
    returning 1
  )
  select count(*)::int as count from written`,
);

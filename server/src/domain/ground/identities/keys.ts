import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type IdentityKind, identityKey, identityValue } from './identities.ts';

/** A user with their identities. */
export interface IdentifiedUser {
  id: string;
  project_id: string;
  external_id: string | null;
  email: string | null;
}

/** A user with the version of its row, to be changed only if no other transaction has changed it since. */
export interface ReadUser extends IdentifiedUser {
  version: string;
}

/**
 * SQL: the version of a row of users. The identities alone do not suffice: a user may have been restored and
 * deleted again, or renamed and named as before, and then has other rows of user_keys than those locked.
 */
export const VERSION = 'xmin::text as version';

interface UserKey {
  projectId: string;
  kind: IdentityKind;
  value: string;
  userId: string;
}

/** Returns the rows of user_keys of a user. */
export function keysOf({ id: userId, project_id: projectId, external_id, email }: IdentifiedUser): UserKey[] {
  const keys: UserKey[] = [];
  if (email !== null) keys.push({ projectId, kind: 'email', value: identityValue('email', email), userId });
  if (external_id !== null) keys.push({ projectId, kind: 'external_id', value: external_id, userId });
  return keys;
}

/** Returns the cache keys of a user. */
export function cachedKeysOf(user: IdentifiedUser): string[] {
  return keysOf(user).map(({ projectId, kind, value }) => identityKey(projectId, kind, value));
}

/** Returns these keys as the columns of a statement's parameters. */
export function keyColumns(keys: readonly UserKey[]): string[] {
  return [
    uuidArray(keys.map((key) => key.projectId)),
    textArray(keys.map((key) => key.kind)),
    textArray(keys.map((key) => identityValue(key.kind, key.value))),
    uuidArray(keys.map((key) => key.userId)),
  ];
}

/** Marks the users' identities as deleted or not. Locks them in primary key order, as all statements do. */
export async function markKeys(
  tx: Queryable,
  users: readonly IdentifiedUser[],
  deleted: boolean,
): Promise<void> {
  await tx.query(mark, [...keyColumns(users.flatMap(keysOf)), deleted]);
}

/**
 * SQL: keeps the identities of `removed_keys`, which users no longer have, until the user is erased. Stored
 * broadcasts contain them.
 */
export const KEEP_FORMER = `insert into former_user_keys (user_id, kind, value)
  select user_id, kind, value
  from removed_keys
  on conflict do nothing`;

// Primary key.
const mark = sql(
  'mark_user_keys',
  `with locked as (
    select k.project_id, k.kind, k.value
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as named (project_id, kind, value, user_id)
    join user_keys k using (project_id, kind, value, user_id)
    order by k.project_id, k.kind, k.value
    for update of k
  )
  update user_keys k
  set deleted = $5
  from locked
  where k.project_id = locked.project_id and k.kind = locked.kind and k.value = locked.value`,
);

import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type IdentityKind, identityKey, identityValue } from './identities.ts';

/** A user with the names that lead to them. */
export interface NamedUser {
  id: string;
  project_id: string;
  external_id: string | null;
  email: string | null;
}

interface UserKey {
  projectId: string;
  kind: IdentityKind;
  value: string;
  userId: string;
}

/** What stands in user_keys of a user. */
export function keysOf({ id: userId, project_id: projectId, external_id, email }: NamedUser): UserKey[] {
  const keys: UserKey[] = [];
  if (email !== null) keys.push({ projectId, kind: 'email', value: identityValue('email', email), userId });
  if (external_id !== null) keys.push({ projectId, kind: 'external_id', value: external_id, userId });
  return keys;
}

/** The same as caches spell it. */
export function cachedKeysOf(user: NamedUser): string[] {
  return keysOf(user).map(({ projectId, kind, value }) => identityKey(projectId, kind, value));
}

/** The parameters of a statement about these keys. */
export function keyColumns(keys: readonly UserKey[]): string[] {
  return [
    uuidArray(keys.map((key) => key.projectId)),
    textArray(keys.map((key) => key.kind)),
    textArray(keys.map((key) => identityValue(key.kind, key.value))),
    uuidArray(keys.map((key) => key.userId)),
  ];
}

/**
 * Says of the users' identities whether they are those of somebody who is deleted. Locks them, in the order
 * in which all do.
 */
export async function markKeys(tx: Queryable, users: readonly NamedUser[], deleted: boolean): Promise<void> {
  await tx.query(mark, [...keyColumns(users.flatMap(keysOf)), deleted]);
}

/**
 * `gone` are identities that a user had: they stay known until the user's end, because they are named in what
 * was sent to them.
 */
export const KEEP_FORMER = `insert into former_user_keys (user_id, kind, value)
  select user_id, kind, value
  from gone
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

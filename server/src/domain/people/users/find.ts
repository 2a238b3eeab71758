import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { parseUserReference } from '../../../lib/user-reference.ts';
import { identityValue } from '../../ground/identities/identities.ts';

/** Names a user: `id` wins over `external_id`, and that over `email`. */
export interface NamedUser {
  projectId: string;
  id?: string;
  external_id?: string;
  email?: string;
}

/**
 * Returns the id of the project's user with this UUID, `external_id:…` or `email:…`, in any case. Returns
 * undefined if there is none or it is deleted. Never creates or restores a user.
 */
export async function findUser(
  db: Queryable,
  projectId: string,
  reference: string,
): Promise<string | undefined> {
  const named = parseUserReference(reference);
  if (named === undefined) return undefined;
  const [userId] = await findUsers(db, [{ projectId, [named.kind]: named.value }]);
  return userId;
}

/** Returns the id of each user; undefined if its project has no such user, or it is deleted. */
export async function findUsers(db: Queryable, users: readonly NamedUser[]): Promise<(string | undefined)[]> {
  const rows = await db.query<{ place: number; user_id: string }>(selectUsers, [
    uuidArray(users.map(({ projectId }) => projectId)),
    textArray(users.map(({ id }) => id)),
    textArray(
      users.map(({ external_id: externalId }) => (externalId === undefined ? 'email' : 'external_id')),
    ),
    textArray(
      users.map(({ external_id: externalId, email = '' }) => externalId ?? identityValue('email', email)),
    ),
  ]);
  const found = users.map((): string | undefined => undefined);
  for (const { place, user_id: userId } of rows) found[place - 1] = userId;
  return found;
}

// Primary keys of users and of user_keys.
const selectUsers = sql(
  'find_users',
  `select place::int as place, user_id
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) with ordinality
    as given (project_id, id, kind, value, place)
  cross join lateral (
    select u.id as user_id
    from users u
    where u.id = given.id and u.project_id = given.project_id and u.deleted_at is null
    union all
    select k.user_id
    from user_keys k
    where given.id is null and k.project_id = given.project_id and k.kind = given.kind
      and k.value = given.value and not k.deleted
  ) found`,
);

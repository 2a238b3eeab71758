import { textArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { identityValue } from '../../ground/identities/identities.ts';

/** Names a user: `id` wins over `external_id`, and that over `email`. */
interface NamedUser {
  id?: string;
  external_id?: string;
  email?: string;
}

/** Returns the id of each user; undefined if the project has no such user, or it is deleted. */
export async function findUsers(
  db: Queryable,
  projectId: string,
  users: readonly NamedUser[],
): Promise<(string | undefined)[]> {
  const rows = await db.query<{ place: number; user_id: string }>(selectUsers, [
    projectId,
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
  from unnest($2::uuid[], $3::text[], $4::text[]) with ordinality as given (id, kind, value, place)
  cross join lateral (
    select u.id as user_id
    from users u
    where u.id = given.id and u.project_id = $1 and u.deleted_at is null
    union all
    select k.user_id
    from user_keys k
    where given.id is null and k.project_id = $1 and k.kind = given.kind and k.value = given.value
      and not k.deleted
  ) found`,
);

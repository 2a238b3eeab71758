import { type Queryable, sql } from '../../../db/client.ts';
import { parseUserReference } from '../../../lib/user-reference.ts';
import { identityValue } from '../../ground/identities/identities.ts';

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
  const { kind, value } = named;
  const [user] = await (kind === 'id'
    ? db.query<{ id: string }>(selectById, [value, projectId])
    : db.query<{ id: string }>(selectByIdentity, [projectId, kind, identityValue(kind, value)]));
  return user?.id;
}

// Primary key of users.
const selectById = sql(
  'find_user',
  'select id from users where id = $1 and project_id = $2 and deleted_at is null',
);
// Primary key of user_keys.
const selectByIdentity = sql(
  'find_user_by_identity',
  'select user_id as id from user_keys where project_id = $1 and kind = $2 and value = $3 and not deleted',
);

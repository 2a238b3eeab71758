import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import { USER_COLUMNS, type UserRow } from './get.ts';

// The external ids, and the addresses, that are read for a query. A short prefix may match a million users: a
// page in id order would have to sort all of them, or scan the project.
const MAX_MATCHES = 500;

/**
 * Returns up to `limit` of the project's users beyond the cursor, nearest first: all users, or those whose
 * external id or e-mail address begins with `query`. Of these, only the first MAX_MATCHES of each kind are
 * listed.
 */
export async function listUsers(
  db: Queryable,
  projectId: string,
  query: string | undefined,
  { direction, id, limit }: Cursor,
): Promise<UserRow[]> {
  if (!query) return db.query<UserRow>(STATEMENTS.all[direction], [projectId, id, limit]);
  const email = identityValue('email', query);
  return db.query<UserRow>(STATEMENTS.matching[direction], [
    projectId,
    id,
    limit,
    query,
    beyondPrefix(query),
    email,
    beyondPrefix(email),
  ]);
}

/** Returns a text that sorts, in byte order, after all texts with this prefix. */
function beyondPrefix(prefix: string): string {
  return `${prefix}\u{10ffff}`;
}

const LISTED = { select: USER_COLUMNS, from: 'users u', owner: 'u.project_id', id: 'u.id' };
const STATEMENTS = {
  // Index users_of_project (project_id, id).
  all: listStatements('users', { ...LISTED, pairs: true, where: 'u.deleted_at is null' }),
  // Primary keys of user_keys, in byte order, and of users. The ids are sorted before users are read.
  matching: listStatements('users_matching', {
    ...LISTED,
    where: `u.deleted_at is null
    and u.id = any (array(
      (
        select user_id
        from user_keys
        where project_id = $1 and kind = 'external_id' and value >= $4 and value < $5 and not deleted
        order by value
        limit ${MAX_MATCHES}
      )
      union
      (
        select user_id
        from user_keys
        where project_id = $1 and kind = 'email' and value >= $6 and value < $7 and not deleted
        order by value
        limit ${MAX_MATCHES}
      )
    ))`,
  }),
};

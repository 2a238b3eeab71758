import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import { USER_COLUMNS, type UserRow } from './get.ts';

// So many external ids, and so many addresses, are looked at for a query. What begins with a letter or two
// may be a million users; a page in the order of ids would have to sort them all, or walk the project for the
// few that are beyond the cursor.
const MAX_MATCHES = 500;

/**
 * Up to `limit` of the project's users beyond the cursor, nearest first: all, or those whose external id or
 * e-mail address begins with `query`; of too many, those whose identity comes first.
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

/**
 * The end of the range of texts that begin with this one, in the order of bytes: nothing sorts after the last
 * code point.
 */
function beyondPrefix(prefix: string): string {
  return `${prefix}\u{10ffff}`;
}

const LISTED = { select: USER_COLUMNS, from: 'users u', owner: 'u.project_id', id: 'u.id' };
const STATEMENTS = {
  // Index users_of_project (project_id, id).
  all: listStatements('users', { ...LISTED, pairs: true, where: 'u.deleted_at is null' }),
  // Primary keys: of user_keys, whose values are in the order of bytes, and of users, by ids that are sorted
  // first, up to the limit.
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

import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../db/client.ts';
import type { Cursor } from '../../lib/cursor.ts';
import { USER_COLUMNS, type UserRow } from './get.ts';
import { identityValue } from './identities.ts';

// So many external ids, and so many addresses, are looked at for a query. What begins with a letter or two may be a million users; a page
// in the order of ids would have to sort them all, or walk the project for the few that are beyond the cursor.
const MAX_MATCHES = 1_000;

/**
 * Up to `limit` of the project's users beyond the cursor, nearest first: all, or those whose external id or e-mail address
 * begins with `query`; of too many, those whose identity comes first.
 */
export async function listUsers(
  db: Queryable,
  projectId: string,
  query: string | undefined,
  { direction, id, limit }: Cursor,
): Promise<UserRow[]> {
  if (!query) return db.query<UserRow>(STATEMENTS.all[direction], [projectId, id, limit]);
  const email = identityValue('email', query);
  const matches = await db.query<{ user_id: string }>(selectMatches, [
    projectId,
    query,
    beyondPrefix(query),
    email,
    beyondPrefix(email),
    MAX_MATCHES,
  ]);
  const ids = uuidArray(matches.map((match) => match.user_id));
  return db.query<UserRow>(STATEMENTS.among[direction], [projectId, id, limit, ids]);
}

/** The end of the range of texts that begin with this one, in the order of bytes: nothing sorts after the last code point. */
function beyondPrefix(prefix: string): string {
  return `${prefix}\u{10ffff}`;
}

// Primary key of user_keys, whose values are in the order of bytes.
const selectMatches = sql(
  'find_users_by_prefix',
  `(
    select user_id
    from user_keys
    where project_id = $1 and kind = 'external_id' and value >= $2 and value < $3 and not deleted
    order by value
    limit $6
  )
  union
  (
    select user_id
    from user_keys
    where project_id = $1 and kind = 'email' and value >= $4 and value < $5 and not deleted
    order by value
    limit $6
  )`,
);

// Index users_of_project (project_id, id); among: primary key.
const listText = (direction: Cursor['direction'], condition: string) =>
  `select ${USER_COLUMNS}
  from users u
  where u.project_id = $1
    and u.id ${direction === 'older' ? '<' : '>'} $2
    and u.deleted_at is null
    and ${condition}
  order by u.id ${direction === 'older' ? 'desc' : 'asc'}
  limit $3`;

const both = (name: string, condition: string): Record<Cursor['direction'], Statement> => ({
  older: sql(`list_users_${name}_older`, listText('older', condition)),
  newer: sql(`list_users_${name}_newer`, listText('newer', condition)),
});

const STATEMENTS = {
  all: both('all', 'true'),
  among: both('among', 'u.id = any ($4::uuid[])'),
};

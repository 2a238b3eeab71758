import { type Queryable, sql } from '../../../db/client.ts';
import { bothDirections, listText } from '../../../db/list-statements.ts';
import type { Cursor, SearchedRows } from '../../../lib/cursor.ts';
import { identityValue } from '../../ground/identities/identities.ts';
import type { UserRow } from './get.ts';
import { endEarly, LISTED_COLUMNS, type ListedUser, listed } from './page-bytes.ts';

// The entries that are read of each index for a query. A short prefix may match a million users: a page in id
// order would have to sort all of them, or scan the project.
const MAX_MATCHES = 500;

/**
 * Returns up to `limit` of the project's users beyond the cursor, nearest first: all users, or those whose
 * external id, e-mail address or a word of whose name begins with `query`. Of these, only the first
 * MAX_MATCHES of each kind are listed. Returns fewer users if their attributes are long.
 */
export async function listUsers(
  db: Queryable,
  projectId: string,
  query: string | undefined,
  { direction, id, limit }: Cursor,
): Promise<SearchedRows<UserRow>> {
  const values = [projectId, id, limit];
  const users = await (query?.trim()
    ? db.query<ListedUser>(STATEMENTS.matching[direction], [...values, ...rangesOf(query)])
    : db.query<ListedUser>(STATEMENTS.all[direction], values));
  return listed(users);
}

/** Counts exactly what `listUsers` lists: 0.1 s for a million users, or less with a query. */
export async function countUsers(
  db: Queryable,
  projectId: string,
  query: string | undefined,
): Promise<number> {
  const [row] = query?.trim()
    ? await db.query<{ count: number }>(countMatching, [projectId, ...rangesOf(query)])
    : await db.query<{ count: number }>(countAll, [projectId]);
  return row?.count ?? 0;
}

/** Returns the bounds of external ids and addresses that begin with a query, and the beginning of names. */
function rangesOf(query: string): string[] {
  const email = identityValue('email', query);
  return [query, beyondPrefix(query), email, beyondPrefix(email), query.trim()];
}

/** Returns a text that sorts, in byte order, after all texts with this prefix. */
function beyondPrefix(prefix: string): string {
  return `${prefix}\u{10ffff}`;
}

// The indexed parts of names; PostgreSQL converts them and the query to lower case. The conditions are those
// of the partial indexes.
const NAMES = [
  // users_by_name
  ["first_name || ' ' || coalesce(last_name, '')", 'first_name is not null'],
  // users_by_last_name
  ['last_name', 'last_name is not null'],
  // users_by_second_first_name, users_by_third_first_name
  ["split_part(first_name, ' ', 2)", "first_name like '% %'"],
  ["split_part(first_name, ' ', 3)", "first_name like '% % %'"],
  // users_by_second_last_name, users_by_third_last_name
  ["split_part(last_name, ' ', 2)", "last_name like '% %'"],
  ["split_part(last_name, ' ', 3)", "last_name like '% % %'"],
];

/** SQL: the ids of the users that match a query, whose values (`rangesOf`) begin with number `first`. */
function matchingIds(first: number): string {
  const [externalId, beyondId, email, beyondEmail, name] = [0, 1, 2, 3, 4].map((at) => `$${first + at}`);
  const named = NAMES.map(
    ([part, condition]) => `
      union
      (
        select id
        from users
        where project_id = $1 and deleted_at is null and ${condition}
          and lower(${part}) collate "C" >= lower(${name})
          and lower(${part}) collate "C" < lower(${name}) || '\u{10ffff}'
        order by lower(${part}) collate "C"
        limit ${MAX_MATCHES}
      )`,
  );
  return `
      (
        select user_id
        from user_keys
        where project_id = $1 and kind = 'external_id' and value >= ${externalId} and value < ${beyondId}
          and not deleted
        order by value
        limit ${MAX_MATCHES}
      )
      union
      (
        select user_id
        from user_keys
        where project_id = $1 and kind = 'email' and value >= ${email} and value < ${beyondEmail}
          and not deleted
        order by value
        limit ${MAX_MATCHES}
      )${named.join('')}`;
}

const LISTED = { select: LISTED_COLUMNS, from: 'users u', owner: 'u.project_id', id: 'u.id' };
const statements = (name: string, list: Parameters<typeof listText>[0]) =>
  bothDirections(name, (beyond, order) => endEarly(listText(list)(beyond, order)));
const STATEMENTS = {
  // Index users_of_project (project_id, id).
  all: statements('users', { ...LISTED, pairs: true, where: 'u.deleted_at is null' }),
  // Primary keys of user_keys, in byte order, and of users, and the indexes of NAMES. The ids are sorted
  // before users are read.
  matching: statements('users_matching', {
    ...LISTED,
    where: `u.deleted_at is null
    and u.id = any (array(${matchingIds(4)}))`,
  }),
};

// Index users_of_project (project_id, id).
const countAll = sql(
  'count_users',
  'select count(*)::int as count from users where project_id = $1 and deleted_at is null',
);
// Primary key of user_keys, in byte order, and the indexes of NAMES.
const countMatching = sql(
  'count_users_matching',
  `select count(*)::int as count from (${matchingIds(2)}) matching`,
);

import type { UserName } from '../../../contract/common.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/**
 * Returns how these users are shown beside their ids. Looked up when it is shown and never stored with events
 * or deliveries, so that nothing is left to erase. Leaves out deleted users.
 */
export async function userNames(
  db: Queryable,
  userIds: Iterable<string>,
): Promise<ReadonlyMap<string, UserName>> {
  const ids = [...new Set(userIds)];
  if (ids.length === 0) return new Map();
  const rows = await db.query<UserName & { id: string }>(selectNames, [uuidArray(ids)]);
  return new Map(rows.map(({ id, external_id, email }) => [id, { external_id, email }]));
}

/** SQL: an e-mail address as `a***@example.com`; null if it has no domain. */
export const maskedEmail = (email: string) =>
  `left(${email}, 1) || '***@' || nullif(split_part(${email}, '@', -1), ${email})`;

/**
 * SQL: joins the columns of `NamedRow` as `named`, by primary key. A subquery, because a plan that is made
 * while there are no users would join them without an index.
 */
export const joinName = (userId: string) => `left join lateral (
    select true as is_known, u.external_id, ${maskedEmail('u.email')} as email
    from users u
    where u.id = ${userId} and u.deleted_at is null
    offset 0
  ) named on true`;

export interface NamedRow extends UserName {
  /** Null if the user is deleted. */
  is_known: true | null;
}

/** Returns the name in a row; null if its user is deleted. */
export function nameIn({ is_known: isKnown, external_id, email }: NamedRow): UserName | null {
  return isKnown ? { external_id, email } : null;
}

// Primary key.
const selectNames = sql(
  'user_names',
  `select u.id, u.external_id, ${maskedEmail('u.email')} as email
  from users u
  where u.id = any ($1::uuid[]) and u.deleted_at is null`,
);

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

// Primary key.
const selectNames = sql(
  'user_names',
  `select u.id, u.external_id, ${maskedEmail('u.email')} as email
  from users u
  where u.id = any ($1::uuid[]) and u.deleted_at is null`,
);

import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import type { UserRow } from './get.ts';
import { endEarly, LISTED_COLUMNS } from './page-bytes.ts';

export type UserOrder = 'created_at' | 'last_seen_at' | 'last_notified_at';

/** A page of the project's users, by its number. */
export interface NumberedUsers {
  page: number;
  perPage: number;
  order: UserOrder;
  direction: 'asc' | 'desc';
  seenBefore?: string | undefined;
  seenAfter?: string | undefined;
  notifiedBefore?: string | undefined;
  notifiedAfter?: string | undefined;
}

/**
 * Returns a page of the project's users, by its number. In the order of creation it reads the users up to the
 * page. All other orders, and rare matches, read every user of the project. A page with long attributes ends
 * early.
 */
export async function listNumberedUsers(
  db: Queryable,
  projectId: string,
  { page, perPage, order, direction, ...bounds }: NumberedUsers,
): Promise<UserRow[]> {
  return db.query<UserRow>(STATEMENTS[order][direction], [
    projectId,
    bounds.seenBefore ?? null,
    bounds.seenAfter ?? null,
    bounds.notifiedBefore ?? null,
    bounds.notifiedAfter ?? null,
    perPage,
    (page - 1) * perPage,
  ]);
}

// Primary key of notifications, for the newest one.
const NOTIFIED = `(
          select n.sent_at from notifications n where n.user_id = u.id order by n.id desc limit 1
        )`;
const ORDERS: Record<UserOrder, (direction: 'asc' | 'desc') => string> = {
  created_at: (direction) => `u.project_id ${direction}`,
  last_seen_at: (direction) => `u.last_seen_at ${direction} nulls last`,
  last_notified_at: (direction) => `${NOTIFIED} ${direction} nulls last`,
};

// Index users_of_project (project_id, id), and primary key of users. It compares pairs: with the project
// alone, the planner may take the primary key for the order, and read through the users of other projects.
function statement(order: UserOrder, direction: 'asc' | 'desc'): Statement {
  const sorted = `order by ${ORDERS[order](direction)}, u.id ${direction}`;
  const list = `select ${LISTED_COLUMNS}
    from users u
    where u.id = any (array(
      select u.id
      from users u
      where (u.project_id, u.id) >= ($1, '${OLDEST}') and (u.project_id, u.id) <= ($1, '${NEWEST}')
        and u.deleted_at is null
        and ($2::timestamptz is null or u.last_seen_at < $2)
        and ($3::timestamptz is null or u.last_seen_at > $3)
        and ($4::timestamptz is null or ${NOTIFIED} < $4)
        and ($5::timestamptz is null or ${NOTIFIED} > $5)
      ${sorted}
      limit $6 offset $7
    ))
    ${sorted}`;
  return sql(`list_users_by_${order}_${direction}`, endEarly(list));
}

const both = (order: UserOrder) => ({ asc: statement(order, 'asc'), desc: statement(order, 'desc') });
const STATEMENTS = {
  created_at: both('created_at'),
  last_seen_at: both('last_seen_at'),
  last_notified_at: both('last_notified_at'),
};

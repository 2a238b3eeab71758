import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { endEarly, LISTED_COLUMNS, type ListedUser } from './page-bytes.ts';

export type UserOrder = 'created_at' | 'last_seen_at' | 'last_notified_at';

/** A page of the project's users, by its number. */
export interface NumberedUsers {
  page: number;
  perPage: number;
  order: UserOrder;
  direction: 'asc' | 'desc';
  seenBefore?: Date | undefined;
  seenAfter?: Date | undefined;
  notifiedBefore?: Date | undefined;
  notifiedAfter?: Date | undefined;
}

/**
 * Returns a page of the project's users, by its number. In the order of creation or of the last visit it
 * reads the users up to the page. With a filter by the last visit, it reads those that match, or if they are
 * 10,000 or more, the users up to the page. The order of the last notification, and filters by it that few
 * users match, read every user of the project. A page with long attributes ends early: `found` is the length
 * that it should have.
 */
export async function listNumberedUsers(
  db: Queryable,
  projectId: string,
  { page, perPage, order, direction, ...bounds }: NumberedUsers,
): Promise<ListedUser[]> {
  return db.query<ListedUser>(STATEMENTS[order][direction], [
    projectId,
    bounds.seenBefore ?? null,
    bounds.seenAfter ?? null,
    bounds.notifiedBefore ?? null,
    bounds.notifiedAfter ?? null,
    perPage,
    (page - 1) * perPage,
  ]);
}

// If as many users match a filter by the last visit, they are not collected and sorted.
const RARE = 10_000;

// Primary key of notifications, for the newest one.
const NOTIFIED = `(
          select n.sent_at from notifications n where n.user_id = u.id order by n.id desc limit 1
        )`;
const NOTIFIED_WITHIN = `($4::timestamptz is null or ${NOTIFIED} < $4)
          and ($5::timestamptz is null or ${NOTIFIED} > $5)`;
// Index users_by_visit (project_id, last_seen_at, id).
const SEEN = `u.project_id = $1 and u.deleted_at is null and u.last_seen_at is not null
          and u.last_seen_at < coalesce($2::timestamptz, 'infinity')
          and u.last_seen_at > coalesce($3::timestamptz, '-infinity')`;
// Without that index: the planner does not see that the time is not null.
const SEEN_WITHIN = `coalesce(u.last_seen_at < $2, $2::timestamptz is null)
          and coalesce(u.last_seen_at > $3, $3::timestamptz is null)`;
const HAS_SEEN_FILTER = '($2::timestamptz is not null or $3::timestamptz is not null)';
// Index users_of_project (project_id, id). It compares pairs: with the project alone, the planner may take
// the primary key for the order, and read through the users of other projects.
const OF_PROJECT = `(u.project_id, u.id) >= ($1, '${OLDEST}') and (u.project_id, u.id) <= ($1, '${NEWEST}')
          and u.deleted_at is null`;

type Direction = 'asc' | 'desc';

/** SQL of the ids on a page, for each order. */
const PAGES: Record<UserOrder, (direction: Direction) => string> = {
  created_at: (direction) => `
      with seen as materialized (
        select u.id
        from users u
        where ${HAS_SEEN_FILTER} and ${SEEN}
        order by u.last_seen_at
        limit ${RARE}
      ),
      filter as materialized (
        select ${HAS_SEEN_FILTER} and (select count(*) from seen) < ${RARE} as is_rare
      )
      (
        select u.id
        from seen u
        where (select is_rare from filter) and ${NOTIFIED_WITHIN}
        order by u.id ${direction}
        limit $6 offset $7
      )
      union all
      (
        select u.id
        from users u
        where not (select is_rare from filter) and ${OF_PROJECT}
          and ${SEEN_WITHIN}
          and ${NOTIFIED_WITHIN}
        order by u.project_id ${direction}, u.id ${direction}
        limit $6 offset $7
      )`,
  // Users that were never seen follow, if the page has a place for them.
  last_seen_at: (direction) => `
      with seen as materialized (
        select u.id, u.last_seen_at
        from users u
        where ${SEEN} and ${NOTIFIED_WITHIN}
        order by u.last_seen_at ${direction}, u.id ${direction}
        limit $6::bigint + $7::bigint
      ),
      unseen as (
        select u.id, u.last_seen_at
        from users u
        where not ${HAS_SEEN_FILTER} and (select count(*) from seen) < $6::bigint + $7::bigint
          and ${OF_PROJECT} and u.last_seen_at is null and ${NOTIFIED_WITHIN}
        order by u.project_id ${direction}, u.id ${direction}
        limit $6::bigint + $7::bigint
      )
      select id
      from (select * from seen union all select * from unseen) u
      order by ${ORDERS.last_seen_at(direction)}, u.id ${direction}
      limit $6 offset $7`,
  last_notified_at: (direction) => `
      select u.id
      from users u
      where ${OF_PROJECT}
          and ${SEEN_WITHIN}
          and ${NOTIFIED_WITHIN}
      order by ${ORDERS.last_notified_at(direction)}, u.id ${direction}
      limit $6 offset $7`,
};
const ORDERS: Record<UserOrder, (direction: Direction) => string> = {
  created_at: (direction) => `u.project_id ${direction}`,
  last_seen_at: (direction) => `u.last_seen_at ${direction} nulls last`,
  last_notified_at: (direction) => `${NOTIFIED} ${direction} nulls last`,
};

// The users of a page by their primary key.
function statement(order: UserOrder, direction: Direction): Statement {
  const list = `select ${LISTED_COLUMNS}
    from users u
    where u.id = any (array(${PAGES[order](direction)}
    ))
    order by ${ORDERS[order](direction)}, u.id ${direction}`;
  return sql(`list_users_by_${order}_${direction}`, endEarly(list));
}

const both = (order: UserOrder) => ({ asc: statement(order, 'asc'), desc: statement(order, 'desc') });
const STATEMENTS = {
  created_at: both('created_at'),
  last_seen_at: both('last_seen_at'),
  last_notified_at: both('last_notified_at'),
};

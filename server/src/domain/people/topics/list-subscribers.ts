import type { Queryable } from '../../../db/client.ts';
import { bothDirections } from '../../../db/list-statements.ts';
import type { Cursor, SearchedRows } from '../../../lib/cursor.ts';
import type { UserRow } from '../users/get.ts';
import { endEarly, LISTED_COLUMNS, type ListedUser, listed } from '../users/page-bytes.ts';
import { IS_SUBSCRIBED } from './subscribers.ts';

/**
 * Returns up to `limit` of the users that are subscribed to a topic beyond the cursor, nearest first.
 * Returns fewer users if their attributes are long.
 */
export async function listSubscribers(
  db: Queryable,
  { projectId, topic }: { projectId: string; topic: string },
  { direction, id, limit }: Cursor,
): Promise<SearchedRows<UserRow>> {
  return listed(await db.query<ListedUser>(LIST[direction], [projectId, topic, id, limit]));
}

// Index subscribers_of_topic, then the primary key of users. Users are read by a lateral subquery and not by
// a join, for which the planner might read all of them.
const LIST = bothDirections('subscribers', (beyond, order) =>
  endEarly(
    `select listed.*
  from subscriptions s
  cross join lateral (
    select ${LISTED_COLUMNS}
    from users u
    where u.id = s.user_id and u.deleted_at is null
    offset 0
  ) listed
  where s.project_id = $1 and s.topic = $2 and s.user_id ${beyond} $3 and s.${IS_SUBSCRIBED}
  order by s.project_id ${order}, s.topic ${order}, s.user_id ${order}
  limit $4`,
  ),
);

import { type Queryable, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { type ChannelPlan, readPlan } from './page-plan.ts';

/** The place of a user in the list of a broadcast's users. */
export interface Located {
  userId: string;
  notificationId: string;
  page: number;
  /** In the page, from 0 on. */
  place: number;
  plan: readonly ChannelPlan[];
}

/**
 * Finds the users of a broadcast that these notifications are for; leaves out notifications of others. The id
 * of a notification has the random half of its user's id, not the half that users are ordered by. So it reads
 * all pages until it has found them (0.1 s for a million users).
 */
export async function locate(
  db: Queryable,
  broadcastId: string,
  notificationIds: readonly string[],
): Promise<Located[]> {
  const own = notificationIds.filter((id) => id.startsWith(broadcastId.slice(0, TIME_CHARACTERS)));
  if (own.length === 0) return [];
  const rows = await db.query<{ user_id: string; page: number; place: number; plan: string | null }>(
    selectPlaces,
    [broadcastId, own.map((id) => Buffer.from(userHalf(broadcastId, id), 'hex'))],
  );
  return rows.map(({ user_id: userId, plan, ...where }) => ({
    userId,
    notificationId: notificationId(broadcastId, userId),
    ...where,
    plan: readPlan(plan),
  }));
}

// The half of a notification's id that is its broadcast's (lib/ids.ts).
export const TIME_CHARACTERS = 19;

/** The random half of the id of a notification's user: combining it twice gives the original. */
function userHalf(broadcastId: string, id: string): string {
  return notificationId(broadcastId, id).slice(TIME_CHARACTERS).replaceAll('-', '');
}

// Primary key (broadcast_id, page). PostgreSQL hashes the result of a subquery, but searches an array that is
// a parameter from its beginning for each user.
const selectPlaces = sql(
  'locate_notifications',
  `select u.user_id, b.page, u.place::int - 1 as place, b.plan
  from broadcast_users b
  cross join lateral unnest(b.user_ids) with ordinality as u (user_id, place)
  where b.broadcast_id = $1 and substr(uuid_send(u.user_id), 9) in (select unnest($2::bytea[]))
  limit cardinality($2)`,
);

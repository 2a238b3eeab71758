import { type Queryable, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { type ChannelPlan, readPlan } from './page-plan.ts';

/** Where a user stands among those that a broadcast reached. */
export interface Located {
  userId: string;
  notificationId: string;
  page: number;
  /** In the page, from 0 on. */
  place: number;
  plan: readonly ChannelPlan[];
}

/**
 * Finds who of a broadcast these notifications are for; those that are not of the broadcast are left out. The
 * id of a notification tells the random half of its user's id, not the other, by which users are in order: so
 * all pages are looked through until they are found (0.1 s for a million users).
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

// The half of a notification's id that it has of its broadcast (lib/ids.ts).
const TIME_CHARACTERS = 19;

/**
 * The random half of the id of a notification's user: the halves are combined in such a way that doing it
 * again undoes it.
 */
function userHalf(broadcastId: string, id: string): string {
  return notificationId(broadcastId, id).slice(TIME_CHARACTERS).replaceAll('-', '');
}

// Primary key (broadcast_id, page).
const selectPlaces = sql(
  'locate_notifications',
  `select u.user_id, b.page, u.place::int - 1 as place, b.plan
  from broadcast_users b
  cross join lateral unnest(b.user_ids) with ordinality as u (user_id, place)
  where b.broadcast_id = $1 and substr(uuid_send(u.user_id), 9) = any ($2::bytea[])
  limit cardinality($2)`,
);

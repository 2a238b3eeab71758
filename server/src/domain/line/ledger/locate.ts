import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
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
 * Finds the user of a broadcast that a notification is for; undefined if it is not of the broadcast. The id
 * of a notification has the random half of its user's id, not the half that users are ordered by. So it reads
 * all pages until it has found the user (35 ms for a million).
 */
export async function locateNotification(
  db: Queryable,
  broadcastId: string,
  id: string,
): Promise<Located | undefined> {
  if (!id.startsWith(broadcastId.slice(0, TIME_CHARACTERS))) return undefined;
  const half = Buffer.from(userHalf(broadcastId, id), 'hex');
  return (await placesIn(db, broadcastId, selectPlaceOfHalf, half))[0];
}

/** Finds users of a broadcast; leaves out others. Reads all pages until it has found them. */
export function locateUsers(
  db: Queryable,
  broadcastId: string,
  userIds: readonly string[],
): Promise<Located[]> {
  return placesIn(db, broadcastId, selectPlaces, uuidArray(userIds));
}

async function placesIn(
  db: Queryable,
  broadcastId: string,
  statement: Statement,
  wanted: Buffer | string,
): Promise<Located[]> {
  const rows = await db.query<{ user_id: string; page: number; place: number; plan: string | null }>(
    statement,
    [broadcastId, wanted],
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

// Primary key (broadcast_id, page). Searching the bytes of a page takes a quarter of the time of comparing
// its users. They begin with 20 bytes; each user has a length of 4 bytes and its id, of which the half is the
// end.
const selectPlaceOfHalf = sql(
  'locate_notification',
  `select user_ids[place + 1] as user_id, page, place, plan
  from (
    select page, plan, user_ids, (position($2::bytea in array_send(user_ids)) - 33) / 20 as place
    from broadcast_users
    where broadcast_id = $1
    offset 0
  ) searched
  where place >= 0 and substr(uuid_send(user_ids[place + 1]), 9) = $2::bytea
  limit 1`,
);
// Primary key (broadcast_id, page). PostgreSQL hashes the result of a subquery, but searches an array that is
// a parameter from its beginning for each user.
const selectPlaces = sql(
  'locate_users',
  `select u.user_id, b.page, u.place::int - 1 as place, b.plan
  from broadcast_users b
  cross join lateral unnest(b.user_ids) with ordinality as u (user_id, place)
  where b.broadcast_id = $1 and u.user_id in (select unnest($2::uuid[]))
  limit cardinality($2::uuid[])`,
);

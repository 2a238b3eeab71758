import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { COLUMNS, type NotificationRow } from '../notifications/row.ts';
import { readPlan } from './page-plan.ts';
import { type LedgerContext, readPlanned } from './read-planned.ts';

/** A notification of a broadcast with its deliveries, in the order of the channels. */
export interface DeliveredNotification {
  row: NotificationRow;
  deliveries: readonly DeliveryRecord[];
}

/**
 * Returns a page of a broadcast's notifications by its number, in the order of its pages of users, and the
 * number of its users. Leaves out the notifications of erased users. Reads the size of each page of users:
 * about 10 ms for a million users.
 */
export async function notificationsOfBroadcast(
  context: LedgerContext,
  broadcastId: string,
  { page, perPage }: { page: number; perPage: number },
): Promise<{ total: number; notifications: DeliveredNotification[] }> {
  const { db } = context;
  const [counted] = await db.query<{ total: number }>(countUsers, [broadcastId]);
  const total = counted?.total ?? 0;
  const members = await db.query<Member>(selectMembers, [broadcastId, (page - 1) * perPage, perPage]);
  if (members.length === 0) return { total, notifications: [] };
  const ids = members.map(({ user_id: userId }) => notificationId(broadcastId, userId));
  const userIds = members.map(({ user_id: userId }) => userId);
  const rows = await db.query<NotificationRow>(selectRows, [uuidArray(userIds), uuidArray(ids)]);
  const planned = members.flatMap(({ user_id: userId, plan, place }, index) =>
    readPlan(plan).map((one) => ({
      broadcastId,
      userId,
      notificationId: ids[index] as string,
      plan: one,
      place: place - 1,
    })),
  );
  const read = await readPlanned(context, planned);
  const deliveries = Map.groupBy(read, (delivery) => delivery.notification_id);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const notifications = ids.flatMap((id) => {
    const row = byId.get(id);
    return row === undefined ? [] : [{ row, deliveries: deliveries.get(id) ?? [] }];
  });
  return { total, notifications };
}

interface Member {
  user_id: string;
  /** In the page of users, from 1. */
  place: number;
  plan: string | null;
}

// Primary key (broadcast_id, page), both.
const countUsers = sql(
  'count_broadcast_users',
  `select coalesce(sum(cardinality(user_ids)), 0)::int as total
  from broadcast_users
  where broadcast_id = $1`,
);
const selectMembers = sql(
  'list_numbered_broadcast_users',
  `select member.user_id, member.place::int as place, counted.plan
  from (
    select page, plan, user_ids, sum(cardinality(user_ids)) over (order by page) as through
    from broadcast_users
    where broadcast_id = $1
  ) counted
  cross join lateral unnest(counted.user_ids) with ordinality as member (user_id, place)
  where counted.through > $2::bigint
    and counted.through - cardinality(counted.user_ids) < $2::bigint + $3
    and counted.through - cardinality(counted.user_ids) + member.place > $2::bigint
    and counted.through - cardinality(counted.user_ids) + member.place <= $2::bigint + $3
  order by counted.page, member.place`,
);
// Primary key.
const selectRows = sql(
  'notifications_of_broadcast',
  `select ${COLUMNS}
  from unnest($1::uuid[], $2::uuid[]) as wanted (user_id, id)
  join notifications using (user_id, id)`,
);

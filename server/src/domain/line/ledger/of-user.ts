import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { sql } from '../../../db/client.ts';
import { readPlan } from './page-plan.ts';
import { type LedgerContext, readPlanned } from './read-planned.ts';

/** Returns the deliveries of some notifications of a user, by their ids, in the order of the channels. */
export async function deliveriesOfUser(
  context: LedgerContext,
  userId: string,
  notifications: readonly { id: string; broadcast_id: string }[],
): Promise<ReadonlyMap<string, DeliveryRecord[]>> {
  if (notifications.length === 0) return new Map();
  const idOf = new Map(notifications.map((one) => [one.broadcast_id, one.id]));
  const rows = await context.db.query<Row>(selectPlaces, [uuidArray([...idOf.keys()]), userId]);
  const planned = rows.flatMap(({ broadcast_id: broadcastId, plan, place }) =>
    readPlan(plan).map((one) => ({
      broadcastId,
      userId,
      notificationId: idOf.get(broadcastId) ?? '',
      plan: one,
      place,
    })),
  );
  return Map.groupBy(await readPlanned(context, planned), (delivery) => delivery.notification_id);
}

interface Row {
  broadcast_id: string;
  place: number;
  plan: string | null;
}

// Primary key (broadcast_id, page). Each page of the broadcasts is searched, because users have no index.
const selectPlaces = sql(
  'places_of_user',
  `select broadcast_id, array_position(user_ids, $2::uuid) - 1 as place, plan
  from broadcast_users
  where broadcast_id = any ($1::uuid[]) and array_position(user_ids, $2::uuid) is not null`,
);

import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { locateNotification, TIME_CHARACTERS } from './locate.ts';
import { readPlanned } from './read-planned.ts';

/**
 * Returns the delivery of a notification on each planned channel, in their order; undefined if the project
 * has no such notification.
 */
export async function deliveriesOfNotification(
  deps: { db: Queryable; brand: string },
  projectId: string,
  id: string,
): Promise<DeliveryRecord[] | undefined> {
  const half = id.slice(0, TIME_CHARACTERS);
  // The half that is its broadcast's. Two nodes may make a broadcast in the same millisecond.
  const broadcasts = await deps.db.query<{ id: string }>(selectBroadcasts, [
    projectId,
    `${half}0000-000000000000`,
    `${half}ffff-ffffffffffff`,
  ]);
  for (const { id: broadcastId } of broadcasts) {
    const found = await locateNotification(deps.db, broadcastId, id);
    if (found === undefined) continue;
    return readPlanned(
      deps,
      found.plan.map((plan) => ({ ...found, broadcastId, plan })),
    );
  }
  return undefined;
}

// Index broadcasts_of_project (project_id, id).
const selectBroadcasts = sql(
  'broadcasts_of_notification',
  `select id
  from broadcasts
  where (project_id, id) >= ($1, $2) and (project_id, id) <= ($1, $3)
  order by project_id, id`,
);

import type { DeliveryRecord } from '../../../contract/delivery.ts';
import { sql } from '../../../db/client.ts';
import { locateNotification, TIME_CHARACTERS } from './locate.ts';
import { type LedgerContext, readPlanned } from './read-planned.ts';

/**
 * Returns the delivery of a notification on each planned channel, in their order; undefined if the project
 * has no such notification.
 */
export async function deliveriesOfNotification(
  context: LedgerContext,
  id: string,
): Promise<DeliveryRecord[] | undefined> {
  const half = id.slice(0, TIME_CHARACTERS);
  // The half that is its broadcast's. Two nodes may make a broadcast in the same millisecond.
  const broadcasts = await context.db.query<{ id: string }>(selectBroadcasts, [
    context.projectId,
    `${half}0000-000000000000`,
    `${half}ffff-ffffffffffff`,
  ]);
  for (const { id: broadcastId } of broadcasts) {
    const found = await locateNotification(context.db, broadcastId, id);
    if (found === undefined) continue;
    return readPlanned(
      context,
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

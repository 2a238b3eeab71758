import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';

/**
 * Counts the deliveries of each broadcast, as `listDeliveries` lists them: all, or only those that failed.
 * Reads the size of each page of users: about 10 ms for a million users.
 */
export async function countDeliveries(
  db: Queryable,
  broadcastIds: readonly string[],
  { channel, failed }: { channel: string | undefined; failed: boolean },
): Promise<Map<string, number>> {
  const rows = await db.query<{ broadcast_id: string; count: number }>(failed ? countFailed : countAll, [
    uuidArray(broadcastIds),
    channel ?? null,
  ]);
  return new Map(rows.map((row) => [row.broadcast_id, row.count]));
}

// Primary key (broadcast_id, page). A page without a plan is planned for the inbox alone (page-plan.ts).
const countAll = sql(
  'count_planned_deliveries',
  `select u.broadcast_id, sum(cardinality(u.user_ids) * planned.channels)::int as count
  from broadcast_users u
  cross join lateral (
    select count(*) as channels
    from json_array_elements(coalesce(u.plan, '[{"channel":"in_app"}]')) as one (plan)
    where $2::text is null or one.plan ->> 'channel' = $2
  ) planned
  where u.broadcast_id = any ($1::uuid[])
  group by u.broadcast_id`,
);
// Index deliveries_failed (broadcast_id, user_id, channel).
const countFailed = sql(
  'count_failures_by_broadcast',
  `select broadcast_id, count(*)::int as count
  from deliveries
  where broadcast_id = any ($1::uuid[]) and state = 'failed' and ($2::text is null or channel = $2)
  group by broadcast_id`,
);

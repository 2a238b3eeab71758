import type { ClickedChannel } from '../../../contract/tracking.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { newEventId } from '../../ground/events/record.ts';
import { REACHABLE } from '../../line/notifications/row.ts';
import { MAX_CLICK_EVENTS } from './record.ts';

/**
 * Records that a user clicked a notification, if the project tracks clicks. Returns false if the user has no
 * such notification on that channel.
 */
export async function recordClick(
  { db }: { db: Queryable },
  {
    projectId,
    userId,
    id,
    channel,
  }: { projectId: string; userId: string; id: string; channel: ClickedChannel },
): Promise<boolean> {
  const rows =
    channel === 'in_app'
      ? await db.query(clickInApp, [userId, id, projectId, newEventId(), MAX_CLICK_EVENTS])
      : await db.query(clickPush, [userId, id, projectId, newEventId(), MAX_CLICK_EVENTS, channel]);
  return rows.length > 0;
}

// Primary keys of notifications and tracking.
const clickInApp = sql(
  'click_in_app',
  `with time as materialized (select now() as now),
  found as (
    select broadcast_id
    from notifications
    where user_id = $1 and id = $2 and ${REACHABLE}
  ),
  changed as (
    update notifications n
    set clicks = coalesce(n.clicks, 0) + 1, clicked_at = coalesce(n.clicked_at, (select now from time))
    from tracking t
    where t.project_id = $3 and t.clicks and n.user_id = $1 and n.id = $2 and ${REACHABLE}
    returning n.broadcast_id, n.clicks
  ),
  event as (
    insert into events (project_id, id, type, broadcast_id, user_ids, details)
    select $3, $4, 'delivery.clicked', broadcast_id, array[$1::uuid],
      '{"level":"info","context":{"channel":"in_app"}}'
    from changed
    where clicks <= $5
  )
  select broadcast_id from found`,
);
// Primary keys of deliveries and tracking.
const clickPush = sql(
  'click_push',
  `with time as materialized (select now() as now),
  found as (
    select broadcast_id
    from deliveries
    where user_id = $1 and notification_id = $2 and channel = $6
  ),
  changed as (
    update deliveries d
    set clicks = d.clicks + 1, clicked_at = coalesce(d.clicked_at, (select now from time))
    from tracking t
    where t.project_id = $3 and t.clicks and d.user_id = $1 and d.notification_id = $2 and d.channel = $6
    returning d.broadcast_id, d.clicks, d.channel, d.provider
  ),
  event as (
    insert into events (project_id, id, type, broadcast_id, user_ids, details)
    select $3, $4, 'delivery.clicked', broadcast_id, array[$1::uuid],
      json_build_object(
        'level', 'info',
        'context', json_strip_nulls(json_build_object('channel', channel, 'provider', provider))
      )
    from changed
    where clicks <= $5
  )
  select broadcast_id from found`,
);

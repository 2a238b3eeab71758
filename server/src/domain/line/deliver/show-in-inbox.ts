import { uuidArray } from '../../../db/arrays.ts';
import { sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { newToThese } from '../../ground/bus/messages.ts';
import type { LineContext } from '../context/context.ts';
import { HIDDEN, SHOW } from '../notifications/row.ts';

/**
 * Shows hidden notifications in the inboxes of these users, as new ones of this moment, by one
 * statement, and notifies connected users. A repeat changes nothing but notifies them again: the process may
 * have stopped before it did.
 */
export async function showInInbox(
  { db, bus }: Pick<LineContext, 'db' | 'bus'>,
  { projectId, broadcastId, userIds }: { projectId: string; broadcastId: string; userIds: readonly string[] },
): Promise<void> {
  const sorted = [...userIds].sort();
  const rows = await db.query<{ user_id: string; sent_at: Date }>(release, [
    uuidArray(sorted),
    uuidArray(sorted.map((userId) => notificationId(broadcastId, userId))),
  ]);
  for (const [sentAtMs, group] of Map.groupBy(rows, (row) => row.sent_at.getTime())) {
    const shown = group.map((row) => row.user_id);
    for (const message of newToThese({ projectId, broadcastId, sentAtMs }, shown)) bus.publish(message);
  }
}

// Primary key. Clients that reconnect find it by updated_at, however old its id is.
const release = sql(
  'show_in_inbox',
  `with wanted as (
    select user_id, id
    from unnest($1::uuid[], $2::uuid[]) as w (user_id, id)
  ),
  hidden as materialized (
    select n.user_id, n.id
    from (select * from wanted order by user_id, id) w
    cross join lateral (
      select user_id, id
      from notifications n
      where n.user_id = w.user_id and n.id = w.id
        and n.discarded_at = ${HIDDEN} and n.snoozed_until is null
      for update
    ) n
  ),
  shown as (
    update notifications n
    set ${SHOW}
    from hidden
    where n.user_id = hidden.user_id and n.id = hidden.id
    returning n.user_id, n.sent_at
  )
  select user_id, sent_at
  from shown
  union all
  select n.user_id, n.sent_at
  from wanted
  join notifications n using (user_id, id)
  where n.discarded_at is null`,
);

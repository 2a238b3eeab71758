import { uuidArray } from '../../../db/arrays.ts';
import { type Database, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';

const BROADCASTS = 500;
// A page has up to 1000 users.
const PAGES = 5;

/**
 * Deletes a batch of the broadcasts whose ids are lower, with the notifications and deliveries that they
 * made; answers whether there may be more. A broadcast that has pending deliveries stays.
 */
export async function purgeNotifications(
  db: Pick<Database, 'query' | 'transaction'>,
  beforeId: string,
): Promise<boolean> {
  if ((await purgePages(db, beforeId)) > 0) return true;
  return (await db.query(deleteBroadcasts, [beforeId, BROADCASTS])).length > 0;
}

/** Deletes what some pages of recipients have got, and the pages; answers how many these were. */
function purgePages(db: Pick<Database, 'transaction'>, beforeId: string): Promise<number> {
  return db.transaction(async (tx) => {
    const pages = await tx.query<{ broadcast_id: string; page: number; user_ids: string[] }>(claimPages, [
      beforeId,
      BROADCASTS,
      PAGES,
    ]);
    if (pages.length === 0) return 0;
    const userIds = uuidArray(pages.flatMap((page) => page.user_ids));
    const ids = uuidArray(
      pages.flatMap((page) => page.user_ids.map((userId) => notificationId(page.broadcast_id, userId))),
    );
    await tx.query(deleteNotifications, [userIds, ids]);
    await tx.query(deleteDeliveries, [userIds, ids]);
    await tx.query(deletePages, [pages.map((page) => page.broadcast_id), pages.map((page) => page.page)]);
    return pages.length;
  });
}

const expired = `select b.id
    from projects p
    cross join lateral (
      select id
      from broadcasts
      where project_id = p.id and id < $1 and status = 'processed' and pending <= 0
      order by id
      limit $2
    ) b
    limit $2`;
// Index broadcasts_of_project (project_id, id); primary key of broadcast_users (broadcast_id, page). What
// another node has in hand is left to it.
const claimPages = sql(
  'purge_claim_pages',
  `with expired as materialized (
    ${expired}
  )
  select u.broadcast_id, u.page, u.user_ids
  from expired
  join broadcast_users u on u.broadcast_id = expired.id
  limit $3
  for update of u skip locked`,
);
// Primary keys: a notification's id follows from its broadcast and its user (lib/ids.ts).
const deleteNotifications = sql(
  'purge_notifications',
  `delete from notifications n
  using unnest($1::uuid[], $2::uuid[]) as d (user_id, id)
  where n.user_id = d.user_id and n.id = d.id`,
);
const deleteDeliveries = sql(
  'purge_deliveries',
  `delete from deliveries
  using unnest($1::uuid[], $2::uuid[]) as d (user_id, id)
  where deliveries.user_id = d.user_id and deliveries.notification_id = d.id`,
);
const deletePages = sql(
  'purge_pages',
  `delete from broadcast_users u
  using unnest($1::uuid[], $2::int[]) as d (broadcast_id, page)
  where u.broadcast_id = d.broadcast_id and u.page = d.page`,
);
// Primary keys of broadcasts and of broadcast_users: one whose pages are in hand elsewhere is left for later.
const deleteBroadcasts = sql(
  'purge_broadcasts',
  `delete from broadcasts b
  where b.id = any (array(
    ${expired}
  ))
    and (select u.broadcast_id from broadcast_users u where u.broadcast_id = b.id limit 1) is null
  returning 1`,
);

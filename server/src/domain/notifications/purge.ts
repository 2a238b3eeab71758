import { type Queryable, sql } from '../../db/client.ts';

const BROADCASTS = 500;
// A page has up to 1000 users.
const PAGES = 5;

/**
 * Deletes a batch of the broadcasts whose ids are lower, with the notifications and deliveries that they made; answers whether there may be
 * more. A broadcast that is not processed yet stays.
 */
export async function purgeNotifications(db: Queryable, beforeId: string): Promise<boolean> {
  const [pages] = await db.query<{ count: number }>(deleteNotifications, [beforeId, BROADCASTS, PAGES]);
  if ((pages?.count ?? 0) > 0) return true;
  return (await db.query(deleteBroadcasts, [beforeId, BROADCASTS])).length > 0;
}

const expired = `select b.id
    from projects p
    cross join lateral (
      select id
      from broadcasts
      where project_id = p.id and id < $1 and status = 'processed'
      order by id
      limit $2
    ) b
    limit $2`;
// Ids of a broadcast's notifications begin with the first half of its own (lib/ids.ts), so they lie together in the primary keys of
// notifications (user_id, id) and deliveries (user_id, notification_id, channel). Index broadcasts_of_project (project_id, id); primary key of
// broadcast_users (broadcast_id, page), of which what another node deletes is left to it.
const deleteNotifications = sql(
  'purge_notifications',
  `with expired as (
    ${expired}
  ),
  pages as (
    select u.broadcast_id, u.page, u.user_ids
    from expired
    join broadcast_users u on u.broadcast_id = expired.id
    limit $3
    for update of u skip locked
  ),
  members as (
    select pages.broadcast_id, member.user_id,
      (left(pages.broadcast_id::text, 19) || '8000-000000000000')::uuid as first,
      (left(pages.broadcast_id::text, 19) || 'bfff-ffffffffffff')::uuid as last
    from pages
    cross join lateral unnest(pages.user_ids) as member (user_id)
  ),
  notified as (
    delete from notifications n
    using members m
    where n.user_id = m.user_id and n.id between m.first and m.last and n.broadcast_id = m.broadcast_id
  ),
  delivered as (
    delete from deliveries d
    using members m
    where d.user_id = m.user_id and d.notification_id between m.first and m.last and d.broadcast_id = m.broadcast_id
  ),
  emptied as (
    delete from broadcast_users u
    using pages
    where u.broadcast_id = pages.broadcast_id and u.page = pages.page
    returning 1
  )
  select count(*)::int as count from emptied`,
);
// Primary key of broadcasts, and of broadcast_users: one whose pages are in hand elsewhere is left for later.
const deleteBroadcasts = sql(
  'purge_broadcasts',
  `with expired as (
    ${expired}
  )
  delete from broadcasts b
  using expired
  where b.id = expired.id and not exists (select from broadcast_users u where u.broadcast_id = b.id)
  returning 1`,
);

import { sql } from '../../../db/client.ts';

/**
 * Deletes notifications, given the ids of their users and their own. Locks them in the order of decision 61.
 * By primary key: a notification's id follows from its broadcast and its user (lib/ids.ts).
 */
export const deleteNotifications = sql(
  'purge_notifications',
  `with gone as materialized (
    select n.user_id, n.id
    from (select * from unnest($1::uuid[], $2::uuid[]) as g (user_id, id) order by user_id, id) g
    cross join lateral (
      select user_id, id from notifications n where n.user_id = g.user_id and n.id = g.id for update
    ) n
  )
  delete from notifications n
  using gone
  where n.user_id = gone.user_id and n.id = gone.id`,
);

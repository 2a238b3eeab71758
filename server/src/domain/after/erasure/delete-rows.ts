import { type Statement, sql } from '../../../db/client.ts';

/** Deletes notifications. An id follows from the broadcast and the user (lib/ids.ts). */
export const deleteNotifications = deletion('purge_notifications', 'notifications');
/** Deletes tokens. */
export const deleteTokens = deletion('purge_tokens', 'tokens');

/**
 * A statement that deletes rows, given the ids of their users and their own. Locks them in the order of
 * decision 61. By primary key.
 */
function deletion(name: string, table: 'notifications' | 'tokens'): Statement {
  return sql(
    name,
    `with gone as materialized (
    select r.user_id, r.id
    from (select * from unnest($1::uuid[], $2::uuid[]) as g (user_id, id) order by user_id, id) g
    cross join lateral (
      select user_id, id from ${table} r where r.user_id = g.user_id and r.id = g.id for update
    ) r
  )
  delete from ${table} r
  using gone
  where r.user_id = gone.user_id and r.id = gone.id`,
  );
}

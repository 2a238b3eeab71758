import { uuidArray } from '../../db/arrays.ts';
import { type Queryable, sql } from '../../db/client.ts';
import { packJson } from '../../lib/packed-json.ts';

/** What is left of the texts of a broadcast all of whose recipients were erased. */
const ERASED = packJson(
  JSON.stringify({ title: '[erased]', content: null, action_url: null, custom_attributes: null }),
);

/**
 * Erases what these broadcasts say where everybody whom they reached is erased, or about to be: then it was written to nobody else. Where
 * others have it, it stays: it is theirs too. Costs a look-up for each broadcast, and for each user of it up to the first who is left.
 */
export async function eraseContent(tx: Queryable, broadcastIds: readonly string[]): Promise<void> {
  if (broadcastIds.length > 0) await tx.query(eraseUnread, [uuidArray(broadcastIds), ERASED]);
}

// Primary keys of broadcasts, broadcast_users and users, looked up one by one; of a broadcast whose pages are still being written the jobs, which
// are few. Who is being purged has deleted_at '-infinity', and who was purged has no row. In the order of ids, in which all lock broadcasts.
const eraseUnread = sql(
  'erase_broadcast_content',
  `with unread as (
    select b.id
    from unnest($1::uuid[]) as given (id)
    cross join lateral (
      select id, project_id, status from broadcasts where id = given.id and message <> $2 limit 1
    ) b
    where (
        b.status = 'processed'
        or (
          select true
          from jobs j
          where j.kind = 'fan_out' and j.project_id = b.project_id and j.payload ->> 'broadcast_id' = b.id::text
          limit 1
        ) is null
      )
      and (
        select true
        from broadcast_users reached
        cross join unnest(reached.user_ids) as member (id)
        cross join lateral (
          select true as left_over
          from users u
          where u.id = member.id and u.deleted_at is distinct from '-infinity'
          limit 1
        ) u
        where reached.broadcast_id = b.id
        limit 1
      ) is null
  ),
  locked as (
    select b.id from broadcasts b where b.id in (select id from unread) order by b.id for no key update
  )
  update broadcasts b
  set message = $2, in_app = null, overrides = null, category = null, topic = null
  from locked
  where b.id = locked.id`,
);

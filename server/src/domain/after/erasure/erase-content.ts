import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { packJson } from '../../../lib/packed-json.ts';

/** What is left of the texts of a broadcast all of whose recipients were erased. */
const ERASED = packJson(
  JSON.stringify({ title: '[erased]', content: null, action_url: null, custom_attributes: null }),
);

/**
 * Erases what these broadcasts say where everybody whom they reached is erased, or about to be: then it was
 * written to nobody else. Where others have it, it stays: it is theirs too. Its users are gone through page
 * by page up to the first who is left, and it is remembered how many pages have nobody left: these are not
 * gone through again, however many users were erased before.
 */
export async function eraseContent(tx: Queryable, broadcastIds: readonly string[]): Promise<void> {
  if (broadcastIds.length > 0) await tx.query(eraseUnread, [uuidArray(broadcastIds), ERASED]);
}

// Primary keys of broadcasts, broadcast_users and users, looked up one by one; of a broadcast whose pages are
// still being written the jobs, which are few: until all are there, nothing is remembered. Who is being
// purged has deleted_at '-infinity', and who was purged has no row: for good, so that another node can only
// have come further. In the order of ids, in which all lock broadcasts.
const eraseUnread = sql(
  'erase_broadcast_content',
  `with asked as materialized (
    select b.id, b.erased_pages,
      (
        select reached.page
        from broadcast_users reached
        where reached.broadcast_id = b.id
          and reached.page >= coalesce(b.erased_pages, 0)
          and (
            select true
            from unnest(reached.user_ids) as member (id)
            cross join lateral (
              select true as left_over
              from users u
              where u.id = member.id and u.deleted_at is distinct from '-infinity'
              limit 1
            ) u
            limit 1
          )
        order by reached.page
        limit 1
      ) as living_page
    from unnest($1::uuid[]) as given (id)
    cross join lateral (
      select id, project_id, status, erased_pages from broadcasts where id = given.id and message <> $2 limit 1
    ) b
    where b.status = 'processed'
      or (
        select true
        from jobs j
        where j.kind = 'fan_out' and j.project_id = b.project_id and j.payload ->> 'broadcast_id' = b.id::text
        limit 1
      ) is null
  ),
  locked as (
    select b.id, asked.living_page
    from broadcasts b
    join asked on asked.id = b.id
    where asked.living_page is null or asked.living_page > coalesce(asked.erased_pages, 0)
    order by b.id
    for no key update of b
  ),
  remembered as (
    update broadcasts b
    set erased_pages = greatest(b.erased_pages, locked.living_page)
    from locked
    where b.id = locked.id and locked.living_page is not null
  )
  update broadcasts b
  set message = $2, in_app = null, overrides = null, category = null, topic = null
  from locked
  where b.id = locked.id and locked.living_page is null`,
);

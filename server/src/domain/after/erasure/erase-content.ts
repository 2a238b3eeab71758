import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { packJson } from '../../../lib/packed-json.ts';

/** Replaces the texts of a broadcast when all its recipients are erased. */
const ERASED = packJson(
  JSON.stringify({ title: '[erased]', content: null, action_url: null, custom_attributes: null }),
);

/**
 * Erases the content of those of these broadcasts whose recipients are all erased, or are being erased. If
 * another user has received it, it stays. The pages of users are read up to the first that has a remaining
 * user. The number of pages before it is stored, so that they are never read again.
 */
export async function eraseContent(tx: Queryable, broadcastIds: readonly string[]): Promise<void> {
  if (broadcastIds.length > 0) await tx.query(eraseUnread, [uuidArray(broadcastIds), ERASED]);
}

/** Erases the content of broadcasts that no user has received. */
export async function eraseUnsent(tx: Queryable, broadcastIds: readonly string[]): Promise<void> {
  if (broadcastIds.length > 0) await tx.query(eraseTexts, [uuidArray(broadcastIds), ERASED]);
}

const NO_CONTENT = `message = $2, in_app = null, overrides = null, template = null, category = null,
    topic = null`;

// Primary key.
const eraseTexts = sql(
  'erase_unsent_content',
  `with locked as (
    select id from broadcasts where id = any ($1::uuid[]) and message <> $2 order by id for no key update
  )
  update broadcasts b
  set ${NO_CONTENT}
  from locked
  where b.id = locked.id`,
);
// Primary keys of broadcasts, broadcast_users and users. If pages of a broadcast are still being written, it
// has a job, and is left out. A user that is being purged has deleted_at '-infinity', and a purged one has no
// row. Both are final, so another node can only have got further. Broadcasts are always locked in the order
// of their ids.
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
              select true as remaining
              from users u
              where u.id = member.id and u.deleted_at is distinct from '-infinity'
              limit 1
            ) u
            limit 1
          )
        order by reached.page
        limit 1
      ) as first_page
    from unnest($1::uuid[]) as given (id)
    cross join lateral (
      select id, project_id, status, erased_pages
      from broadcasts
      where id = given.id and message <> $2
      limit 1
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
    select b.id, asked.first_page
    from broadcasts b
    join asked on asked.id = b.id
    where asked.first_page is null or asked.first_page > coalesce(asked.erased_pages, 0)
    order by b.id
    for no key update of b
  ),
  stored as (
    update broadcasts b
    set erased_pages = greatest(b.erased_pages, locked.first_page)
    from locked
    where b.id = locked.id and locked.first_page is not null
  ),
  texts as (
    delete from broadcast_texts t
    using locked
    where t.broadcast_id = locked.id and locked.first_page is null
  )
  update broadcasts b
  set ${NO_CONTENT}
  from locked
  where b.id = locked.id and locked.first_page is null`,
);

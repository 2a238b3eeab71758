import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';

/** How many subscribers a page has at most. */
export const SUBSCRIBERS_PER_PAGE = 1_000;
// So many are looked at for them: of a topic of which hardly anybody is subscribed to a category, a page soon
// ends, too.
const LOOKED_AT = 10_000;

/**
 * Whose subscribers are asked for, and behind which user they begin; from the first on where it is left out.
 */
export interface WantedSubscribers {
  broadcastId: string;
  projectId: string;
  topic: string;
  category: string | null;
  /** Opt-outs of the category within the topic are ignored. */
  critical: boolean;
  after: string | undefined;
}

/** Some of them, and behind which user the next page begins; `undefined`: there are no more. */
export interface SubscriberPage {
  userIds: string[];
  next: string | undefined;
}

/**
 * The next page of subscribers for each of these, by one statement. Users who are deleted are left out, and
 * so are those of the broadcast's first page: who is named has it already.
 */
export async function nextSubscribers(
  db: Queryable,
  wanted: readonly WantedSubscribers[],
): Promise<SubscriberPage[]> {
  const rows = await db.query<{ place: number; user_ids: string[]; next: string | null }>(selectSubscribers, [
    uuidArray(wanted.map((one) => one.broadcastId)),
    uuidArray(wanted.map((one) => one.projectId)),
    textArray(wanted.map((one) => one.topic)),
    textArray(wanted.map((one) => one.category)),
    uuidArray(wanted.map((one) => one.after ?? OLDEST)),
    LOOKED_AT,
    SUBSCRIBERS_PER_PAGE,
    wanted.map((one) => one.critical),
  ]);
  const pages = wanted.map((): SubscriberPage => ({ userIds: [], next: undefined }));
  for (const { place, user_ids: userIds, next } of rows)
    pages[place - 1] = { userIds, next: next ?? undefined };
  return pages;
}

// Index subscriptions_of_topic (project_id, topic, user_id): the page is read from where it begins, and no
// further than until it is full. Primary keys of users and of broadcast_users. Whether a user is deleted is
// asked in the place of a value, so that it is looked up for those who are read, and never read for all.
const selectSubscribers = sql(
  'next_subscribers',
  `select w.place::int as place,
    array(
      select unnest(page.user_ids)
      except
      select unnest(named.user_ids)
      from broadcast_users named
      where named.broadcast_id = w.broadcast_id and named.page = 0
    ) as user_ids,
    case
      when cardinality(page.user_ids) = $7 then page.user_ids[$7]
      else (
        select s.user_id
        from subscriptions s
        where s.project_id = w.project_id and s.topic = w.topic and s.user_id > w.after
        order by s.user_id
        offset $6 - 1
        limit 1
      )
    end as next
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $8::boolean[])
    with ordinality as w (broadcast_id, project_id, topic, category, after, critical, place)
  cross join lateral (
    select array(
      select near.user_id
      from (
        select s.user_id, s.categories
        from subscriptions s
        where s.project_id = w.project_id and s.topic = w.topic and s.user_id > w.after
        order by s.user_id
        limit $6
      ) near
      where (
          coalesce(near.categories -> w.category, near.categories -> '*') ->> 'status' = 'subscribed'
          or (w.critical and near.categories -> '*' ->> 'status' = 'subscribed')
        )
        and (select u.deleted_at is null from users u where u.id = near.user_id)
      order by near.user_id
      limit $7
    ) as user_ids
    offset 0
  ) page`,
);

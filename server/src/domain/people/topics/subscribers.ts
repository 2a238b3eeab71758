import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { NOT_NAMED, readPages, USERS_PER_PAGE, type UserPage } from '../users/next-users.ts';

/**
 * SQL: whether the row of a subscription is for at least one category. Others only store that the user left
 * the topic. The condition of the index subscribers_of_topic.
 */
export const IS_SUBSCRIBED = `categories @? '$.*.status ? (@ == "subscribed")'`;

// The rows that are read for a page. It ends here if few subscribers of the topic match the category.
const MAX_ROWS_READ = 10_000;

/** A page of subscribers to read. */
export interface SubscriberRequest {
  broadcastId: string;
  projectId: string;
  topic: string;
  category: string | null;
  /** Opt-outs of the category within the topic are ignored. */
  critical: boolean;
  /** The user before the page; undefined for the first page. */
  after: string | undefined;
}

/**
 * Returns a page of subscribers for each request, in one statement. Leaves out deleted users, and the users
 * of the broadcast's first page, which are its named recipients.
 */
export function nextSubscribers(db: Queryable, requests: readonly SubscriberRequest[]): Promise<UserPage[]> {
  return readPages(db, selectSubscribers, requests, [
    textArray(requests.map((one) => one.topic)),
    textArray(requests.map((one) => one.category)),
    uuidArray(requests.map((one) => one.after ?? OLDEST)),
    MAX_ROWS_READ,
    USERS_PER_PAGE,
    requests.map((one) => one.critical),
  ]);
}

// Index subscribers_of_topic (project_id, topic, user_id), from `after` until the page is full. Primary
// keys of users and of broadcast_users. The condition on users is a scalar subquery, because for a join the
// planner might read all users.
const selectSubscribers = sql(
  'next_subscribers',
  `select w.place::int as place,
    ${NOT_NAMED} as user_ids,
    case
      when cardinality(page.user_ids) = $7 then page.user_ids[$7]
      else (
        select s.user_id
        from subscriptions s
        where s.project_id = w.project_id and s.topic = w.topic and s.user_id > w.after
          and s.${IS_SUBSCRIBED}
        order by s.user_id
        offset $6 - 1
        limit 1
      )
    end as next
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $8::boolean[])
    with ordinality as w (broadcast_id, project_id, topic, category, after, critical, place)
  cross join lateral (
    select array(
      select found.user_id
      from (
        select s.user_id, s.categories
        from subscriptions s
        where s.project_id = w.project_id and s.topic = w.topic and s.user_id > w.after
          and s.${IS_SUBSCRIBED}
        order by s.user_id
        limit $6
      ) found
      where (
          coalesce(found.categories -> w.category, found.categories -> '*') ->> 'status' = 'subscribed'
          or (w.critical
            and (found.categories ? w.category or found.categories -> '*' ->> 'status' = 'subscribed'))
        )
        and (select u.deleted_at is null from users u where u.id = found.user_id)
      order by found.user_id
      limit $7
    ) as user_ids
    offset 0
  ) page`,
);

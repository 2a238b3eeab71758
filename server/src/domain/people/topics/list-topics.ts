import type { Topic } from '../../../contract/topic.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import { IS_SUBSCRIBED } from './subscribers.ts';

/** The highest count of subscribers: counting takes 0.1 µs for each. A page of 50 such topics takes 50 ms. */
const MAX_SUBSCRIBER_COUNT = 10_000;

/** Returns the cursor of a topic. It begins with `=`, because users choose names, also those of `NEWEST`. */
export function topicCursor(nameOrCursor: string): string {
  return `=${nameOrCursor.replace(/^=/, '')}`;
}

/** The cursor after all topics, for links: a topic can have the name of `OLDEST`. No name has a `~`. */
export const AFTER_TOPICS = topicCursor('~');

/**
 * Returns up to `limit` of the project's topics with subscribers beyond the cursor, nearest first. `older` is
 * the alphabetical direction, by bytes.
 */
export async function listTopics(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<(Topic & { id: string })[]> {
  const from = id === NEWEST ? '' : id === OLDEST ? '\u{10ffff}' : id.slice(1);
  const topics = await db.query<Topic>(LIST[direction], [projectId, from, limit]);
  return topics.map((one) => ({ id: topicCursor(one.topic), ...one }));
}

// Index subscribers_of_topic: one entry for each topic, then those that are counted. Compares pairs, so that
// no plan reads another project, or sorts.
const topicText = (beyond: '<' | '>', order: 'asc' | 'desc') => {
  const next = (place: string) => `select s.topic
        from subscriptions s
        where s.project_id = $1 and s.topic ${beyond} ${place} and ${IS_SUBSCRIBED}
        order by s.project_id ${order}, s.topic ${order}, s.user_id ${order}
        limit 1`;
  return `with recursive found (topic) as (
    (${next('$2')})
    union all
    select (${next('found.topic')})
    from found
    where found.topic is not null
  ),
  page as (
    select topic from found where topic is not null limit $3
  )
  select topic, (
      select count(*)::int
      from (
        select
        from subscriptions s
        where s.project_id = $1 and s.topic = page.topic and ${IS_SUBSCRIBED}
        limit ${MAX_SUBSCRIBER_COUNT}
      ) counted
    ) as subscribers
  from page`;
};
const LIST = {
  older: sql('list_topics_older', topicText('>', 'asc')),
  newer: sql('list_topics_newer', topicText('<', 'desc')),
};

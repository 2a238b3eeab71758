import { isTopic, type Subscription } from '../../../contract/topic.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { newEventId } from '../../ground/events/record.ts';
import { type SubscriptionRow, subscriptionOf } from './list.ts';

/** Deletes a user's subscription. Returns it, or undefined if there is none. */
export async function deleteSubscription(
  { db }: { db: Queryable },
  { projectId, userId }: { projectId: string; userId: string },
  topic: string,
): Promise<Subscription | undefined> {
  if (!isTopic(topic)) return undefined;
  const [row] = await db.query<SubscriptionRow>(removeSubscription, [
    userId,
    topic,
    projectId,
    newEventId(),
    JSON.stringify({ payload: { topic } }),
  ]);
  return row && subscriptionOf(row);
}

// Primary key.
const removeSubscription = sql(
  'delete_subscription',
  `with deleted as (
    delete from subscriptions
    where user_id = $1 and topic = $2
    returning id, topic, categories
  ),
  event as (
    insert into events (project_id, id, type, user_ids, details)
    select $3, $4, 'subscription.deleted', array[$1::uuid], $5::json
    from deleted
  )
  select id, topic, categories::text as categories from deleted`,
);

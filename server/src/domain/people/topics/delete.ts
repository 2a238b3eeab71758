import { isTopic, type Subscription } from '../../../contract/topic.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { newEventId } from '../../ground/events/record.ts';
import { type SubscriptionRow, subscriptionOf } from './list.ts';
import { deleteCategories } from './write-subscriptions.ts';

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

/**
 * Deletes categories of a user's subscription, and the subscription with its last one. Returns false if there
 * is no such subscription.
 */
export async function deleteSubscribedCategories(
  { db }: { db: Pick<Database, 'transaction'> },
  { projectId, userId }: { projectId: string; userId: string },
  topic: string,
  slugs: readonly string[],
): Promise<boolean> {
  if (!isTopic(topic)) return false;
  return db.transaction(async (tx) => {
    const left = await deleteCategories(tx, { projectId, userId, topic }, new Set(slugs));
    if (left === 0) await deleteSubscription({ db: tx }, { projectId, userId }, topic);
    return left !== undefined;
  });
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

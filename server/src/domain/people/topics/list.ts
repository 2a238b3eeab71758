import { isTopic, type Subscription } from '../../../contract/topic.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { type Categories, sortedCategories } from './merge.ts';

export interface SubscriptionRow {
  id: string;
  topic: string;
  /** JSON text. */
  categories: string;
}

/** Returns up to `limit` of the user's subscriptions beyond the cursor, nearest first. */
export async function listSubscriptions(
  db: Queryable,
  userId: string,
  { direction, id, limit }: Cursor,
): Promise<SubscriptionRow[]> {
  return db.query<SubscriptionRow>(LIST[direction], [userId, id, limit]);
}

/** Returns the user's subscription to a topic, if there is one. */
export async function getSubscription(
  db: Queryable,
  userId: string,
  topic: string,
): Promise<Subscription | undefined> {
  if (!isTopic(topic)) return undefined;
  const [row] = await db.query<SubscriptionRow>(selectSubscription, [userId, topic]);
  return row && subscriptionOf(row);
}

/** Counts the user's subscriptions. */
export async function countSubscriptions(db: Queryable, userId: string): Promise<number> {
  const [row] = await db.query<{ count: number }>(countAll, [userId]);
  return row?.count ?? 0;
}

/** Returns the API form of a stored subscription. */
export function subscriptionOf({ id, topic, categories }: SubscriptionRow): Subscription {
  return { id, topic, categories: sortedCategories(JSON.parse(categories) as Categories) };
}

// Index subscriptions_listed (user_id, id).
const LIST = listStatements('subscriptions', {
  select: 'id, topic, categories::text as categories',
  from: 'subscriptions',
  owner: 'user_id',
});

// Primary key.
const selectSubscription = sql(
  'get_subscription',
  `select id, topic, categories::text as categories
  from subscriptions
  where user_id = $1 and topic = $2`,
);

// Index subscriptions_listed (user_id, id).
const countAll = sql(
  'count_subscriptions',
  'select count(*)::int as count from subscriptions where user_id = $1',
);

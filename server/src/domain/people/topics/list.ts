import type { Subscription } from '../../../contract/topic.ts';
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

// Index subscriptions_listed (user_id, id).
const countAll = sql(
  'count_subscriptions',
  'select count(*)::int as count from subscriptions where user_id = $1',
);

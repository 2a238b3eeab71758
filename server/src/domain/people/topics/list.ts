import type { Subscription } from '../../../contract/topic.ts';
import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';
import { type Categories, listed } from './merge.ts';

/** A subscription's own columns; `categories` is JSON text. */
export interface SubscriptionRow {
  id: string;
  topic: string;
  categories: string;
}

/** Up to `limit` of the user's subscriptions beyond the cursor, nearest first. */
export async function listSubscriptions(
  db: Queryable,
  userId: string,
  { direction, id, limit }: Cursor,
): Promise<SubscriptionRow[]> {
  return db.query<SubscriptionRow>(LIST[direction], [userId, id, limit]);
}

/** A stored subscription as clients see it. */
export function subscriptionOf({ id, topic, categories }: SubscriptionRow): Subscription {
  return { id, topic, categories: listed(JSON.parse(categories) as Categories) };
}

// Index subscriptions_listed (user_id, id).
const LIST = listStatements('subscriptions', {
  select: 'id, topic, categories::text as categories',
  from: 'subscriptions',
  owner: 'user_id',
});

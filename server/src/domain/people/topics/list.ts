import type { Subscription } from '../../../contract/topic.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
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
const listText = (beyond: '<' | '>', order: 'desc' | 'asc') =>
  `select id, topic, categories::text as categories
  from subscriptions
  where user_id = $1 and id ${beyond} $2
  order by id ${order}
  limit $3`;
const LIST: Record<Cursor['direction'], Statement> = {
  older: sql('list_older_subscriptions', listText('<', 'desc')),
  newer: sql('list_newer_subscriptions', listText('>', 'asc')),
};

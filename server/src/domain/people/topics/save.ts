import type { SaveSubscription, Subscription } from '../../../contract/topic.ts';
import type { Database } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { MAX_SUBSCRIBED_CATEGORIES, writeSubscriptions } from './write-subscriptions.ts';

/**
 * Changes categories of a user's subscription, which is created if there is none. Returns the subscription;
 * records an event only if it changed.
 */
export async function saveSubscription(
  { db }: { db: Pick<Database, 'transaction'> },
  { projectId, userId }: { projectId: string; userId: string },
  given: SaveSubscription,
): Promise<Subscription> {
  const problems = repeatedCategories(given);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const { saved, full } = await db.transaction((tx) =>
    writeSubscriptions(tx, { projectId, userIds: [userId], given }),
  );
  if (full.size > 0)
    throw new ClientError('validation_failed', [
      "Param 'categories' has too many items: a subscription can have at most " +
        `${MAX_SUBSCRIBED_CATEGORIES} categories`,
    ]);
  const subscription = saved.get(userId);
  if (subscription === undefined) throw new ClientError('not_found'); // the user was deleted
  return subscription;
}

/** Returns the problems of a subscription of any shape that its schema does not find: repeated categories. */
export function repeatedCategories(given: unknown): string[] {
  const places = new Map<string, number>();
  const problems: string[] = [];
  for (const [index, category] of itemsOf(memberOf(given, 'categories')).entries()) {
    const slug = memberOf(category, 'slug');
    if (typeof slug !== 'string') continue;
    const before = places.get(slug);
    if (before === undefined) places.set(slug, index);
    else
      problems.push(
        `Param 'categories.${index}.slug' repeats categories.${before}: list ${slug.slice(0, 255)} once`,
      );
  }
  return problems;
}

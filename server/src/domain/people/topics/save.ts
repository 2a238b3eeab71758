import type { SaveSubscription, Subscription } from '../../../contract/topic.ts';
import type { Database } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import {
  hasAllTopics,
  MAX_SUBSCRIBED_CATEGORIES,
  MAX_TOPICS_OF_USER,
  writeSubscriptions,
} from './write-subscriptions.ts';

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
  const { saved, full, hasAll } = await db.transaction(async (tx) => {
    const change = { projectId, userIds: [userId], given, maxTopics: MAX_TOPICS_OF_USER };
    const written = await writeSubscriptions(tx, change);
    return { ...written, hasAll: !written.saved.has(userId) && (await hasAllTopics(tx, userId)) };
  });
  if (full.size > 0)
    throw new ClientError('validation_failed', [
      "Param 'categories' has too many items: a subscription can have at most " +
        `${MAX_SUBSCRIBED_CATEGORIES} categories`,
    ]);
  if (hasAll)
    throw new ClientError('validation_failed', [
      `Param 'topic' is one too many: a user can subscribe to at most ${MAX_TOPICS_OF_USER} topics`,
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

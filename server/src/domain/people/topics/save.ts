import type { SaveSubscription, Subscription } from '../../../contract/topic.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { newId } from '../../../lib/ids.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { type SubscriptionRow, subscriptionOf } from './list.ts';
import { type Categories, mergeCategories } from './merge.ts';

// All categories of a subscription are in one row.
const MAX_CATEGORIES = 1_000;

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
  return db.transaction(async (tx) => {
    // Inserted first, so that there is a row for concurrent saves to lock.
    await tx.query(insertSubscription, [userId, given.topic, newId(), projectId]);
    const [row] = await tx.query<SubscriptionRow>(lockSubscription, [userId, given.topic]);
    if (row === undefined) throw new ClientError('not_found'); // the user was deleted
    const stored = JSON.parse(row.categories) as Categories;
    const categories = JSON.stringify(mergeCategories(stored, given.categories));
    const before = subscriptionOf(row);
    const saved = subscriptionOf({ ...row, categories });
    if (JSON.stringify(saved) === JSON.stringify(before)) return saved;
    if (saved.categories.length > MAX_CATEGORIES) throw tooMany();
    await tx.query(updateSubscription, [userId, given.topic, categories]);
    await recordSaved(tx, projectId, userId, saved);
    return saved;
  });
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

function tooMany(): ClientError {
  return new ClientError('validation_failed', [
    `Param 'categories' has too many items: a subscription can have at most ${MAX_CATEGORIES} categories`,
  ]);
}

async function recordSaved(
  tx: Queryable,
  projectId: string,
  userId: string,
  { topic, categories }: Subscription,
): Promise<void> {
  await recordEvents(tx, [
    {
      projectId,
      type: 'subscription.saved',
      userIds: [userId],
      // Without the reasons: users wrote them, and events are kept after a user is erased.
      details: { payload: { topic, categories: categories.map(({ slug, status }) => ({ slug, status })) } },
    },
  ]);
}

// Primary keys. Locks the user, so that no row is written for a user that is being purged.
const insertSubscription = sql(
  'insert_subscription',
  `insert into subscriptions (user_id, topic, id, project_id, categories)
  select id, $2, $3, project_id, '{}'
  from users
  where id = $1 and project_id = $4 and deleted_at is null
  for key share
  on conflict (user_id, topic) do nothing`,
);
const lockSubscription = sql(
  'lock_subscription',
  `select id, topic, categories::text as categories
  from subscriptions
  where user_id = $1 and topic = $2
  for no key update`,
);
const updateSubscription = sql(
  'update_subscription',
  'update subscriptions set categories = $3::jsonb where user_id = $1 and topic = $2',
);

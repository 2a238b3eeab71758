import type { SaveSubscription, Subscription } from '../../../contract/topic.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { newId } from '../../../lib/ids.ts';
import { itemsOf, memberOf } from '../../../lib/members.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { type SubscriptionRow, subscriptionOf } from './list.ts';
import { type Categories, merged } from './merge.ts';

// A subscription is one row, and is written whole.
const MAX_CATEGORIES = 1_000;

/**
 * Subscribes a user to a topic, or to categories of it, or takes that back; answers what holds now. What is
 * not named stays as it is, and saying the same again changes nothing.
 */
export async function saveSubscription(
  { db }: { db: Pick<Database, 'transaction'> },
  { projectId, userId }: { projectId: string; userId: string },
  given: SaveSubscription,
): Promise<Subscription> {
  const problems = repeatsIn(given);
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  return db.transaction(async (tx) => {
    // There from now on, whoever else saves it at this moment: then both wait for each other at the row.
    await tx.query(insertSubscription, [userId, given.topic, newId(), projectId]);
    const [row] = await tx.query<SubscriptionRow>(lockSubscription, [userId, given.topic]);
    if (row === undefined) throw new ClientError('not_found'); // the user is gone
    const categories = JSON.stringify(merged(JSON.parse(row.categories) as Categories, given.categories));
    const before = subscriptionOf(row);
    const saved = subscriptionOf({ ...row, categories });
    if (JSON.stringify(saved) === JSON.stringify(before)) return saved;
    if (saved.categories.length > MAX_CATEGORIES) throw tooMany();
    await tx.query(updateSubscription, [userId, given.topic, categories]);
    await recordSaved(tx, projectId, userId, saved);
    return saved;
  });
}

/** Where a subscription, of whatever shape, names a category twice. */
export function repeatsIn(given: unknown): string[] {
  const places = new Map<string, number>();
  const problems: string[] = [];
  for (const [index, category] of itemsOf(memberOf(given, 'categories')).entries()) {
    const slug = memberOf(category, 'slug');
    if (typeof slug !== 'string') continue;
    const before = places.get(slug);
    if (before === undefined) places.set(slug, index);
    else
      problems.push(
        `Param 'categories.${index}.slug' names ${slug.slice(0, 255)} again, after categories.${before}: give each category once`,
      );
  }
  return problems;
}

function tooMany(): ClientError {
  return new ClientError('validation_failed', [
    `Param 'categories' are too many: a subscription has at most ${MAX_CATEGORIES} categories`,
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
      // Not the reasons: they are the user's, and events outlive users.
      details: { payload: { topic, categories: categories.map(({ slug, status }) => ({ slug, status })) } },
    },
  ]);
}

// Primary key, each of them. The user is held, so that nothing is written of one who is being purged.
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
  'select id, topic, categories::text as categories from subscriptions where user_id = $1 and topic = $2 for no key update',
);
const updateSubscription = sql(
  'update_subscription',
  'update subscriptions set categories = $3::jsonb where user_id = $1 and topic = $2',
);

import type { SaveSubscription, Subscription } from '../../../contract/topic.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { newId } from '../../../lib/ids.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';
import { type SubscriptionRow, subscriptionOf } from './list.ts';
import { type Categories, mergeCategories } from './merge.ts';

/** The most categories of a subscription, which are all in one row. */
export const MAX_SUBSCRIBED_CATEGORIES = 1_000;

/** The most topics that users can subscribe to by themselves. */
export const MAX_TOPICS_OF_USER = 10_000;

/** The subscriptions of up to 1000 users to a topic, after a change of their categories. */
export interface WrittenSubscriptions {
  /** By user. Without users that do not exist, are deleted, have too many topics, or are in `full`. */
  saved: Map<string, Subscription>;
  /** The users whose subscription is new or changed. */
  changed: Set<string>;
  /** The users whose subscription would have too many categories. */
  full: Set<string>;
}

/**
 * Changes categories of the users' subscriptions to a topic, which are created if there are none, and for
 * users with fewer than `maxTopics`. Records an event for each subscription that changed. `userIds` are
 * distinct and sorted, so that concurrent calls do not deadlock.
 */
export async function writeSubscriptions(
  tx: Queryable,
  { projectId, userIds, given, maxTopics }: Change,
): Promise<WrittenSubscriptions> {
  const { topic } = given;
  const written: WrittenSubscriptions = { saved: new Map(), changed: new Set(), full: new Set() };
  const fresh = JSON.stringify(mergeCategories({}, given.categories));
  let left = userIds;
  for (let round = 1; left.length > 0 && round <= ROUNDS; round += 1) {
    const created = await tx.query<{ user_id: string; id: string }>(insertSubscriptions, [
      uuidArray(left),
      uuidArray(left.map(() => newId())),
      topic,
      projectId,
      fresh,
      maxTopics,
    ]);
    for (const { user_id: userId, id } of created) {
      written.saved.set(userId, subscriptionOf({ id, topic, categories: fresh }));
      written.changed.add(userId);
    }
    const others = left.filter((userId) => !written.changed.has(userId));
    if (others.length > 0) await changeSubscriptions(tx, others, { projectId, ...given }, written);
    left = others.filter((userId) => !written.saved.has(userId) && !written.full.has(userId));
  }
  await recordEvents(tx, eventsOf(projectId, written));
  return written;
}

interface Change {
  projectId: string;
  userIds: readonly string[];
  given: SaveSubscription;
  maxTopics?: number;
}

/** Whether the user has the most topics. */
export async function hasAllTopics(tx: Queryable, userId: string): Promise<boolean> {
  const [row] = await tx.query<{ count: number }>(countTopics, [userId, MAX_TOPICS_OF_USER]);
  return row?.count === MAX_TOPICS_OF_USER;
}

// A subscription that was found may be deleted before it is locked, and then is created in the next round.
// The users that are left after the last one do not exist, are deleted, or have too many topics.
const ROUNDS = 3;

async function changeSubscriptions(
  tx: Queryable,
  userIds: readonly string[],
  { projectId, topic, categories }: SaveSubscription & { projectId: string },
  written: WrittenSubscriptions,
): Promise<void> {
  const rows = await tx.query<SubscriptionRow & { user_id: string }>(lockSubscriptions, [
    uuidArray(userIds),
    topic,
  ]);
  const updates: { userId: string; id: string; categories: string }[] = [];
  for (const { user_id: userId, ...row } of rows) {
    const merged = JSON.stringify(mergeCategories(JSON.parse(row.categories) as Categories, categories));
    const saved = subscriptionOf({ ...row, categories: merged });
    if (JSON.stringify(saved) === JSON.stringify(subscriptionOf(row))) written.saved.set(userId, saved);
    else if (saved.categories.length > MAX_SUBSCRIBED_CATEGORIES) written.full.add(userId);
    else {
      written.saved.set(userId, saved);
      written.changed.add(userId);
      updates.push({ userId, id: row.id, categories: merged });
    }
  }
  if (updates.length > 0)
    await tx.query(updateSubscriptions, [
      uuidArray(updates.map(({ userId }) => userId)),
      uuidArray(updates.map(({ id }) => id)),
      textArray(updates.map((one) => one.categories)),
      topic,
      projectId,
    ]);
}

/**
 * Deletes categories of a user's subscription, unless none would be left. Returns how many are left, or
 * undefined if there is no such subscription.
 */
export async function deleteCategories(
  tx: Queryable,
  { projectId, userId, topic }: { projectId: string; userId: string; topic: string },
  slugs: ReadonlySet<string>,
): Promise<number | undefined> {
  const [row] = await tx.query<SubscriptionRow>(lockSubscriptions, [uuidArray([userId]), topic]);
  if (row === undefined) return undefined;
  const before = Object.entries(JSON.parse(row.categories) as Categories);
  const left = before.filter(([slug]) => !slugs.has(slug));
  if (left.length === 0 || left.length === before.length) return left.length;
  const categories = JSON.stringify(Object.fromEntries(left));
  await tx.query(updateSubscriptions, [
    uuidArray([userId]),
    uuidArray([row.id]),
    textArray([categories]),
    topic,
    projectId,
  ]);
  const saved = new Map([[userId, subscriptionOf({ ...row, categories })]]);
  await recordEvents(tx, eventsOf(projectId, { saved, changed: new Set([userId]) }));
  return left.length;
}

/** Returns an event for each user in a row of its own, so that it can be redacted when the user is erased. */
function eventsOf(
  projectId: string,
  { saved, changed }: Pick<WrittenSubscriptions, 'saved' | 'changed'>,
): NewEvent[] {
  return [...changed].map((userId) => {
    const { topic, categories = [] } = saved.get(userId) ?? {};
    // Without the reasons: users wrote them, and events are kept after a user is erased.
    const payload = { topic, categories: categories.map(({ slug, status }) => ({ slug, status })) };
    return { projectId, type: 'subscription.saved', userIds: [userId], details: { payload } };
  });
}

const countOf = (userId: string, limit: string) =>
  `select count(*)::int from (select from subscriptions where user_id = ${userId} limit ${limit}) s`;
// Primary key.
const countTopics = sql('count_topics_of_user', countOf('$1', '$2'));
// Primary keys. Locks the users, so that no row is written for a user that is being purged: in a lateral
// subquery, because for a join the planner might read all users of the project. A concurrent call that
// inserts the same row waits for the commit, and then changes the row.
const insertSubscriptions = sql(
  'insert_subscriptions',
  `with locked as (
    select u.id as user_id, given.id
    from unnest($1::uuid[], $2::uuid[]) with ordinality as given (user_id, id, place)
    cross join lateral (
      select u.id
      from users u
      where u.id = given.user_id and u.project_id = $4 and u.deleted_at is null
        and ($6::int is null or (${countOf('u.id', '$6')}) < $6)
      for key share
    ) u
    order by given.place
  )
  insert into subscriptions (user_id, topic, id, project_id, categories)
  select user_id, $3, id, $4, $5::jsonb
  from locked
  order by user_id
  on conflict (user_id, topic) do nothing
  returning user_id, id`,
);
const lockSubscriptions = sql(
  'lock_subscriptions',
  `select user_id, id, topic, categories::text as categories
  from subscriptions
  where user_id = any ($1::uuid[]) and topic = $2
  order by user_id
  for no key update`,
);
// Updates the locked rows. An upsert and not an update, for which the planner might read all subscriptions.
const updateSubscriptions = sql(
  'update_subscriptions',
  `insert into subscriptions (user_id, topic, id, project_id, categories)
  select user_id, $4, id, $5, categories::jsonb
  from unnest($1::uuid[], $2::uuid[], $3::text[]) as given (user_id, id, categories)
  order by user_id
  on conflict (user_id, topic) do update
  set categories = excluded.categories`,
);

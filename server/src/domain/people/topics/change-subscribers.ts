import type {
  AddSubscribers,
  RemoveSubscribers,
  SubscriberChanges,
  TopicUser,
} from '../../../contract/topic.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { chunksOf } from '../../../lib/chunks.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { Identities } from '../../ground/identities/identities.ts';
import { findUsers } from '../users/find.ts';
import { USER_WAS_DELETED } from '../users/refuse.ts';
import { publishChanges, type Resolved, resolveUsers } from '../users/resolve.ts';
import { retryOnConflict } from '../users/retry-on-conflict.ts';
import { repeatedCategories } from './save.ts';
import { MAX_SUBSCRIBED_CATEGORIES, writeSubscriptions } from './write-subscriptions.ts';

// A subscription can have 1,000 categories, which are in memory while they change.
const USERS_AT_ONCE = 1_000;
const NO_SUCH_USER = 'there is no such user';
const TOO_MANY_CATEGORIES = `the subscription would have more than ${MAX_SUBSCRIBED_CATEGORIES} categories`;

/** The topic whose subscribers change. */
interface TopicOf {
  projectId: string;
  topic: string;
}

/**
 * Changes the subscriptions of many users to a topic in one transaction, as `saveSubscription` does. Creates
 * users that do not exist, unless they are named by `id`.
 */
export async function addSubscribers(
  {
    db,
    identities,
    bus,
    afterCommit,
  }: {
    db: Pick<Database, 'transaction'>;
    identities: Identities;
    bus: Bus;
    afterCommit: (effect: () => void) => void;
  },
  { projectId, topic }: TopicOf,
  { users, categories }: AddSubscribers,
): Promise<SubscriberChanges> {
  const problems = repeatedCategories({ categories });
  if (problems.length > 0) throw new ClientError('validation_failed', problems);
  const given = { topic, ...(categories === undefined ? {} : { categories }) };
  const { changes, resolved } = await retryOnConflict(() =>
    db.transaction(async (tx) => {
      const { resolved, ...found } = await resolve(tx, identities, projectId, users);
      const changes = await changeAll(found, async (userIds) => {
        const { saved, changed, full } = await writeSubscriptions(tx, { projectId, userIds, given });
        const problemOf = (userId: string) =>
          full.has(userId) ? TOO_MANY_CATEGORIES : saved.has(userId) ? undefined : USER_WAS_DELETED;
        return { changed: changed.size, problemOf };
      });
      return { changes, resolved };
    }),
  );
  afterCommit(() => resolved.remember());
  publishChanges(bus, resolved);
  return changes;
}

/** Deletes the subscriptions of many users to a topic, in one transaction. */
export async function removeSubscribers(
  { db }: { db: Pick<Database, 'transaction'> },
  { projectId, topic }: TopicOf,
  { users }: RemoveSubscribers,
): Promise<SubscriberChanges> {
  return db.transaction(async (tx) => {
    const userIds = await findUsers(
      tx,
      users.map((user) => ({ ...user, projectId })),
    );
    const unknown = userIds.flatMap((userId, index) =>
      userId === undefined ? [{ index, message: NO_SUCH_USER }] : [],
    );
    return changeAll({ userIds, errors: unknown }, async (chunk) => {
      const deleted = await tx.query<{ user_id: string }>(deleteSubscriptions, [uuidArray(chunk), topic]);
      // An event for each user in a row of its own, so that it can be redacted when the user is erased.
      const type = 'subscription.deleted';
      const details = { payload: { topic } };
      await recordEvents(
        tx,
        deleted.map((row) => ({ projectId, type, userIds: [row.user_id], details })),
      );
      return { changed: deleted.length, problemOf: () => undefined };
    });
  });
}

/** The user of each item of a request, and the problems of items. */
interface FoundUsers {
  userIds: readonly (string | undefined)[];
  errors: readonly SubscriberChanges['errors'][number][];
}

/** Finds or creates the user of each item. */
async function resolve(
  tx: Queryable,
  identities: Identities,
  projectId: string,
  users: readonly TopicUser[],
): Promise<FoundUsers & { resolved: Resolved }> {
  const named = [...users.keys()].filter((index) => users[index]?.id === undefined);
  const byId = [...users.keys()].filter((index) => users[index]?.id !== undefined);
  const resolved = await resolveUsers(
    tx,
    identities,
    named.map((index) => ({
      projectId,
      externalId: users[index]?.external_id,
      email: users[index]?.email,
    })),
  );
  const found =
    byId.length === 0
      ? []
      : await findUsers(
          tx,
          byId.map((index) => ({ ...users[index], projectId })),
        );
  const userIds: (string | undefined)[] = [];
  const errors = resolved.conflicts.map(({ person, message }) => ({ index: named[person] ?? 0, message }));
  for (const [place, index] of named.entries()) {
    if (resolved.refused.has(place)) errors.push({ index, message: USER_WAS_DELETED });
    else userIds[index] = resolved.userIds[place];
  }
  for (const [place, index] of byId.entries()) {
    userIds[index] = found[place];
    if (found[place] === undefined) errors.push({ index, message: NO_SUCH_USER });
  }
  return { userIds, errors, resolved };
}

/** Changes the users in chunks, each user once. */
async function changeAll(
  { userIds, errors }: FoundUsers,
  change: (userIds: string[]) => Promise<{ changed: number; problemOf(userId: string): string | undefined }>,
): Promise<SubscriberChanges> {
  const places = new Map<string, number>();
  for (const [index, userId] of userIds.entries())
    if (userId !== undefined && !places.has(userId)) places.set(userId, index);
  // Sorted, so that concurrent requests do not deadlock.
  const distinct = [...places.keys()].sort();
  const changes: SubscriberChanges = { changed: 0, unchanged: distinct.length, errors: [...errors] };
  for (const chunk of chunksOf(distinct, USERS_AT_ONCE)) {
    const { changed, problemOf } = await change(chunk);
    changes.changed += changed;
    changes.unchanged -= changed;
    for (const userId of chunk) {
      const message = problemOf(userId);
      if (message === undefined) continue;
      changes.unchanged -= 1;
      changes.errors.push({ index: places.get(userId) ?? 0, message });
    }
  }
  changes.errors.sort((a, b) => a.index - b.index);
  return changes;
}

// Primary key. Rows are locked in the order of users, and deleted by their place in the table: for a join the
// planner might read all subscriptions.
const deleteSubscriptions = sql(
  'delete_subscriptions',
  `delete from subscriptions
  where ctid = any (array(
    select ctid
    from subscriptions
    where user_id = any ($1::uuid[]) and topic = $2
    order by user_id
    for update
  ))
  returning user_id`,
);

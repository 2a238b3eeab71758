import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { KEEP_FORMER, keyColumns, keysOf, type ReadUser, VERSION } from '../../ground/identities/keys.ts';
import { ConflictingChange, retryOnConflict } from '../../people/users/retry-on-conflict.ts';
import { deleteDigests } from '../../workflows/runs/digests.ts';
import { deleteNotifications, deleteTokens } from './delete-rows.ts';
import { eraseAddresses, erasePhoneNumbers } from './erase-addresses.ts';
import { eraseContent } from './erase-content.ts';
import { eraseInstallations } from './erase-installations.ts';
import { hasUnredacted, lockErased, redactKept } from './redact-kept.ts';
import { redactRecipients, redactUnsent } from './redact-recipients.ts';

/** How long a deleted user can be restored: the contract's seven days. */
export const GRACE_MS = 7 * 24 * 3_600_000;

// Users that are purged together, so that a broadcast with many of them as recipients is rewritten once.
const USERS = 100;
// Rows in a transaction, divided among the users that have so many, and the least for each.
const ROWS = 500;
const MIN_ROWS = 10;
const TOKENS = 1_000;
const RUNS = 200;

/**
 * Runs the next step of erasing users whose grace period is over. Returns whether there may be more to do.
 * All their data is deleted except their id, which stays in events, in lists of recipients and in outcomes.
 *
 * One transaction first removes their identities, so that they cannot be restored, and sets `deleted_at` to
 * '-infinity'. Small transactions delete the rest, and the row of the user last: a purge that is interrupted
 * continues on any node. A long step ends early when the signal is aborted.
 */
export async function purgeUsers({
  db,
  clock,
  sealer,
  signal,
}: {
  db: Pick<Database, 'query' | 'transaction'>;
  clock: Clock;
  sealer: Sealer;
  signal?: AbortSignal;
}): Promise<boolean> {
  const before = new Date(clock.now() - GRACE_MS);
  await retryOnConflict(() => db.transaction((tx) => removeIdentities(tx, before)));
  const started = await db.query<{ id: string }>(selectStarted, [USERS]);
  if (started.length === 0) return false;
  // Skips users that another node is purging.
  const { more, unredacted } = await db.transaction((tx) =>
    purgeStep(
      tx,
      sealer,
      started.map(({ id }) => id),
    ),
  );
  if (unredacted !== undefined) await redactKept(db, unredacted, signal);
  return more;
}

/** Removes the identities of users whose grace period is over; identities are always locked first. */
async function removeIdentities(tx: Queryable, before: Date): Promise<void> {
  const due = await tx.query<ReadUser & { phone_numbers: string[] }>(selectDue, [before, USERS]);
  if (due.length === 0) return;
  const keys = keyColumns(due.flatMap(keysOf));
  await tx.query(lockKeys, keys);
  const removed = await tx.query<{ user_id: string }>(deleteKeys, keys);
  const cleared = await tx.query<{ id: string }>(clearUsers, [
    uuidArray(due.map((user) => user.id)),
    textArray(due.map((user) => user.version)),
  ]);
  const ids = new Set(cleared.map(({ id }) => id));
  // Restored and renamed meanwhile.
  if (removed.some(({ user_id }) => !ids.has(user_id))) throw new ConflictingChange();
  await erasePhoneNumbers(
    tx,
    due.filter(({ id }) => ids.has(id)),
  );
}

interface Step {
  more: boolean;
  /** Users with deliveries or events to redact, which takes transactions of its own. */
  unredacted?: readonly string[];
}

async function purgeStep(tx: Queryable, sealer: Sealer, started: readonly string[]): Promise<Step> {
  const mine = await tx.query<{ id: string }>(lockErased, [uuidArray(started)]);
  if (mine.length === 0) return { more: false };
  const userIds = mine.map(({ id }) => id);
  const ids = uuidArray(userIds);
  const mentions = await readMentions(tx, userIds);
  if (mentions.length > 0) {
    const broadcasts = uuidArray(mentions.map((mention) => mention.broadcast_id));
    const users = uuidArray(mentions.map((mention) => mention.user_id));
    const byBroadcast = Map.groupBy(mentions, (mention) => mention.broadcast_id);
    const usersOf = [...byBroadcast].map(([id, some]) => [id, some.map((one) => one.user_id)] as const);
    const { needed } = await redactRecipients(tx, new Map(usersOf));
    const others = [...byBroadcast.keys()].filter((id) => !needed.has(id));
    await eraseContent(tx, others.sort());
    await tx.query(TEXTS_OF_USERS, [broadcasts, users]);
    await tx.query(deleteNotifications, [users, textArray(mentions.map((one) => one.notification_id))]);
    await tx.query(deleteRefused, [users, broadcasts]);
    return { more: true };
  }
  if (await hasUnredacted(tx, userIds)) return { more: true, unredacted: userIds };
  if (await purgeTokens(tx, ids)) return { more: true };
  const runs = await tx.query<{ id: string }>(deleteRuns, [ids, RUNS]);
  await deleteDigests(
    tx,
    runs.map(({ id }) => id),
  );
  if (runs.length > 0) return { more: true };
  await redactUnsent(tx, userIds);
  await eraseAddresses(tx, userIds);
  await eraseInstallations(tx, sealer, userIds);
  for (const statement of LAST) await tx.query(statement, [ids]);
  return { more: true };
}

/** A broadcast that names a purged user. */
interface Found {
  user_id: string;
  broadcast_id: string;
  /** Set if the broadcast has a notification for the user. */
  notification_id: string | null;
}

/**
 * Reads the next broadcasts that name these users: as many for each, newest first. What most users leave goes
 * to the others, because one with many would otherwise be erased in very small transactions.
 */
async function readMentions(tx: Queryable, userIds: readonly string[]): Promise<Found[]> {
  const share = Math.max(MIN_ROWS, Math.floor(ROWS / userIds.length));
  const found = await tx.query<Found>(selectMentions, [uuidArray(userIds), share]);
  const byUser = Map.groupBy(found, (mention) => mention.user_id);
  const long = [...byUser].flatMap(([userId, some]) => (some.length < share ? [] : [userId]));
  const rest = found.filter((mention) => !long.includes(mention.user_id));
  const larger = Math.floor((ROWS - rest.length) / Math.max(1, long.length));
  if (larger < 2 * share) return found;
  return [...rest, ...(await tx.query<Found>(selectMentions, [uuidArray(long), larger]))];
}

interface Token {
  user_id: string;
  id: string;
  project_id: string;
  channel: string;
  hash: Buffer;
}

async function purgeTokens(tx: Queryable, ids: string): Promise<boolean> {
  const tokens = await tx.query<Token>(selectTokens, [ids, TOKENS]);
  if (tokens.length === 0) return false;
  // Locks the owners first, like tokens/save.ts.
  await tx.query(deleteOwners, [
    tokens.map((one) => one.project_id),
    tokens.map((one) => one.channel),
    tokens.map((one) => one.hash),
    tokens.map((one) => one.user_id),
  ]);
  await tx.query(deleteTokens, [tokens.map((one) => one.user_id), tokens.map((one) => one.id)]);
  return true;
}

const NAMED_KEYS =
  'unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as named (project_id, kind, value, user_id)';

// Index users_deleted, like the next.
const selectDue = sql(
  'users_to_purge',
  `select id, project_id, external_id, email, phone_numbers, ${VERSION}
  from users
  where deleted_at <= $1 and deleted_at > '-infinity'
  order by deleted_at
  limit $2`,
);
const selectStarted = sql(
  'users_being_purged',
  "select id from users where deleted_at = '-infinity' limit $1",
);
// Primary key, like the next two. Waits for a user that is being restored, whose keys do not match then.
const lockKeys = sql(
  'lock_purged_user_keys',
  `select k.value
  from ${NAMED_KEYS}
  join user_keys k using (project_id, kind, value, user_id)
  where k.deleted
  order by k.project_id, k.kind, k.value
  for update of k`,
);
const deleteKeys = sql(
  'purge_user_keys',
  `with removed_keys as (
    delete from user_keys k
    using ${NAMED_KEYS}
    where k.project_id = named.project_id and k.kind = named.kind and k.value = named.value
      and k.user_id = named.user_id and k.deleted
    returning k.user_id, k.kind, k.value
  ),
  kept as (
    ${KEEP_FORMER}
  )
  select user_id from removed_keys`,
);
const clearUsers = sql(
  'clear_purged_users',
  `with due as (
    select u.id
    from unnest($1::uuid[], $2::text[]) as n (id, version)
    join users u on u.id = n.id
    where u.xmin::text = n.version
    order by u.id
    for update of u
  )
  update users u
  set deleted_at = '-infinity', external_id = null, email = null, first_name = null, last_name = null,
    locale = null, custom_attributes = null, phone_numbers = '{}', last_seen_at = null
  from due
  where u.id = due.id
  returning u.id`,
);
// Primary keys of notifications (user_id, id) and refused_recipients (user_id, broadcast_id).
const selectMentions = sql(
  'purge_mentions',
  `select one.user_id, mention.broadcast_id, mention.notification_id
  from unnest($1::uuid[]) as one (user_id)
  cross join lateral (
    (
      select n.broadcast_id, n.id as notification_id
      from notifications n
      where n.user_id = one.user_id
      order by n.id desc
      limit $2
    )
    union all
    (
      select r.broadcast_id, null::uuid
      from refused_recipients r
      where r.user_id = one.user_id
      order by r.broadcast_id desc
      limit $2
    )
  ) mention`,
);
const deleteRefused = sql(
  'purge_refused_recipients',
  `delete from refused_recipients r
  using unnest($1::uuid[], $2::uuid[]) as gone (user_id, broadcast_id)
  where r.user_id = gone.user_id and r.broadcast_id = gone.broadcast_id`,
);
// Primary keys of tokens (user_id, id) and token_owners (project_id, channel, hash).
const selectTokens = sql(
  'purge_select_tokens',
  `select user_id, id, project_id, channel, hash
  from tokens
  where user_id = any ($1::uuid[])
  limit $2`,
);
const deleteOwners = sql(
  'purge_token_owners',
  `with gone as (
    select o.project_id, o.channel, o.hash
    from unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[]) as t (project_id, channel, hash, user_id)
    join token_owners o using (project_id, channel, hash, user_id)
    order by o.project_id, o.channel, o.hash
    for update of o
  )
  delete from token_owners o
  using gone
  where o.project_id = gone.project_id and o.channel = gone.channel and o.hash = gone.hash`,
);
// Index workflow_runs_of_user, and primary keys. A run that waits has a job, which ends without its run.
const deleteRuns = sql(
  'purge_workflow_runs_of_users',
  `with deleted as (
    delete from workflow_runs
    where id = any (array(
      select id
      from workflow_runs
      where id = any (array(select id from workflow_runs where user_id = any ($1::uuid[]) limit $2))
      order by id
      for update
    ))
    returning id
  ),
  steps as (
    delete from workflow_run_steps
    where run_id = any (array(select id from deleted))
  )
  select id from deleted`,
);
// Tables with few rows per user, and last the user. Primary keys.
const LAST = [
  sql('purge_preferences', 'delete from preferences where user_id = any ($1::uuid[])'),
  sql('purge_user_delivery_windows', 'delete from user_delivery_windows where user_id = any ($1::uuid[])'),
  sql('purge_subscriptions', 'delete from subscriptions where user_id = any ($1::uuid[])'),
  sql('purge_former_user_keys', 'delete from former_user_keys where user_id = any ($1::uuid[])'),
  sql('purge_users', 'delete from users where id = any ($1::uuid[])'),
];

/** Deletes the texts that templates made for these users alone, by broadcast and user. Primary key. */
export const TEXTS_OF_USERS = sql(
  'purge_texts_of_users',
  `delete from broadcast_texts t
  using unnest($1::uuid[], $2::uuid[]) as gone (broadcast_id, user_id)
  where t.broadcast_id = gone.broadcast_id and t.reader = gone.user_id::text`,
);

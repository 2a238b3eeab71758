import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { type IdentifiedUser, KEEP_FORMER, keyColumns, keysOf } from '../../ground/identities/keys.ts';
import { Changed, undisturbed } from '../../people/users/undisturbed.ts';
import { eraseContent } from './erase-content.ts';
import { forgetInstallations } from './forget-installations.ts';
import { forgetAddresses, forgetPhoneNumbers } from './forget-suppressions.ts';
import { hasUnredacted, redactKept } from './redact-kept.ts';
import { type Mention, redactRecipients } from './redact-recipients.ts';

/** How long a deleted user can come back: the contract's seven days. */
export const GRACE_MS = 7 * 24 * 3_600_000;

// Users whose purge goes on together: a broadcast that named many of them is written anew once for all.
const USERS = 100;
// Rows of one user in a transaction: so many where they are alone, fewer where they are many.
const ROWS = 500;
const LEAST_ROWS = 10;
const TOKENS = 1_000;

/**
 * Takes a step in erasing users whose seven days are over; answers whether there may be more to do. Whatever
 * was known about them goes: only their bare id stays, in events, in lists of whom a broadcast reached and in
 * what became of it.
 *
 * First, in one transaction, they lose their names, and with these every way back: `deleted_at` is
 * '-infinity' then. The rest goes in small transactions, and the row of the user last, so that a purge which
 * is stopped goes on where it was, on whichever node. A step that has many of them ends early when the signal
 * says so.
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
  await undisturbed(() => db.transaction((tx) => begin(tx, before)));
  const begun = await db.query<{ id: string }>(selectBegun, [USERS]);
  if (begun.length === 0) return false;
  // What another node has in hand is left to it.
  const { more, unredacted } = await db.transaction((tx) =>
    goOn(
      tx,
      sealer,
      begun.map(({ id }) => id),
    ),
  );
  if (unredacted !== undefined) await redactKept(db, unredacted, signal);
  return more;
}

/**
 * Takes the names of those whose time is over. Names first, as everywhere: who is restored at this moment
 * keeps all of them.
 */
async function begin(tx: Queryable, before: Date): Promise<void> {
  const due = await tx.query<IdentifiedUser & { phone_numbers: string[] }>(selectDue, [before, USERS]);
  if (due.length === 0) return;
  const nameless = await tx.query<{ user_id: string }>(deleteKeys, keyColumns(due.flatMap(keysOf)));
  const begun = await tx.query<{ id: string }>(clearUsers, [
    uuidArray(due.map((user) => user.id)),
    textArray(due.map((user) => user.external_id)),
    textArray(due.map((user) => user.email)),
    before,
  ]);
  const ids = new Set(begun.map(({ id }) => id));
  if (nameless.some(({ user_id }) => !ids.has(user_id))) throw new Changed(); // restored, and deleted anew under another name
  await forgetPhoneNumbers(
    tx,
    due.filter(({ id }) => ids.has(id)),
  );
}

interface Step {
  more: boolean;
  /**
   * Those in whose deliveries and events something is left to be redacted, which is done in transactions of
   * its own.
   */
  unredacted?: readonly string[];
}

async function goOn(tx: Queryable, sealer: Sealer, begun: readonly string[]): Promise<Step> {
  const mine = await tx.query<{ id: string }>(lockBegun, [uuidArray(begun)]);
  if (mine.length === 0) return { more: false };
  const userIds = mine.map(({ id }) => id);
  const ids = uuidArray(userIds);
  const rows = Math.max(LEAST_ROWS, Math.floor(ROWS / mine.length));
  const mentions = await tx.query<Found>(selectMentions, [ids, rows]);
  if (mentions.length > 0) {
    await redactRecipients(tx, mentions);
    await eraseContent(tx, [...new Set(mentions.map((mention) => mention.broadcast_id))].sort());
    const users = uuidArray(mentions.map((mention) => mention.user_id));
    await tx.query(deleteNotifications, [users, textArray(mentions.map((one) => one.notification_id))]);
    await tx.query(deleteRefused, [users, uuidArray(mentions.map((one) => one.broadcast_id))]);
    return { more: true };
  }
  if (await hasUnredacted(tx, userIds)) return { more: true, unredacted: userIds };
  if (await purgeTokens(tx, ids)) return { more: true };
  await forgetAddresses(tx, userIds);
  await forgetInstallations(tx, sealer, userIds);
  for (const statement of LAST) await tx.query(statement, [ids]);
  return { more: true };
}

interface Found extends Mention {
  /** Where the broadcast reached the user. */
  notification_id: string | null;
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
  // The owners first, as in tokens/save.ts.
  await tx.query(deleteOwners, [
    tokens.map((one) => one.project_id),
    tokens.map((one) => one.channel),
    tokens.map((one) => one.hash),
    tokens.map((one) => one.user_id),
  ]);
  await tx.query(deleteTokens, [tokens.map((one) => one.user_id), tokens.map((one) => one.id)]);
  return true;
}

// Index users_deleted, both.
const selectDue = sql(
  'users_to_purge',
  `select id, project_id, external_id, email, phone_numbers
  from users
  where deleted_at <= $1 and deleted_at > '-infinity'
  order by deleted_at
  limit $2`,
);
const selectBegun = sql('users_being_purged', "select id from users where deleted_at = '-infinity' limit $1");
// Primary key. Waits for who is being restored, and then finds that they are not deleted.
const deleteKeys = sql(
  'purge_user_keys',
  `with locked as (
    select k.project_id, k.kind, k.value
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[]) as named (project_id, kind, value, user_id)
    join user_keys k using (project_id, kind, value, user_id)
    where k.deleted
    order by k.project_id, k.kind, k.value
    for update of k
  ),
  gone as (
    delete from user_keys k
    using locked
    where k.project_id = locked.project_id and k.kind = locked.kind and k.value = locked.value
    returning k.user_id, k.kind, k.value
  ),
  kept as (
    ${KEEP_FORMER}
  )
  select user_id from gone`,
);
// Primary key, both.
const clearUsers = sql(
  'clear_purged_users',
  `with due as (
    select u.id
    from unnest($1::uuid[], $2::text[], $3::text[]) as n (id, external_id, email)
    join users u on u.id = n.id
    where u.deleted_at <= $4
      and u.deleted_at > '-infinity'
      and u.external_id is not distinct from n.external_id
      and u.email is not distinct from n.email
    order by u.id
    for update of u
  )
  update users u
  set deleted_at = '-infinity', external_id = null, email = null, first_name = null, last_name = null,
    custom_attributes = null, phone_numbers = '{}', last_seen_at = null
  from due
  where u.id = due.id
  returning u.id`,
);
const lockBegun = sql(
  'lock_purged_users',
  `select id
  from users
  where id = any ($1::uuid[]) and deleted_at = '-infinity'
  order by id
  for update skip locked`,
);
// Primary keys of notifications (user_id, id) and refused_recipients (user_id, broadcast_id), some of each
// user.
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
const deleteNotifications = sql(
  'purge_notifications_of_users',
  `delete from notifications n
  using unnest($1::uuid[], $2::uuid[]) as gone (user_id, id)
  where n.user_id = gone.user_id and n.id = gone.id`,
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
const deleteTokens = sql(
  'purge_tokens',
  `delete from tokens t
  using unnest($1::uuid[], $2::uuid[]) as gone (user_id, id)
  where t.user_id = gone.user_id and t.id = gone.id`,
);
// What is short, and last the user. Primary keys.
const LAST = [
  sql('purge_preferences', 'delete from preferences where user_id = any ($1::uuid[])'),
  sql('purge_user_delivery_windows', 'delete from user_delivery_windows where user_id = any ($1::uuid[])'),
  sql('purge_subscriptions', 'delete from subscriptions where user_id = any ($1::uuid[])'),
  sql('purge_former_user_keys', 'delete from former_user_keys where user_id = any ($1::uuid[])'),
  sql('purge_users', 'delete from users where id = any ($1::uuid[])'),
];

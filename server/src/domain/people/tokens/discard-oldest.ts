import { type Queryable, sql } from '../../../db/client.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import { discarded } from './events.ts';

/**
 * The most active tokens of a user on a channel. It exceeds the devices of a user, and bounds the requests of
 * a message. Clients that save a new token with each page replace their old ones.
 */
export const MAX_ACTIVE_TOKENS = 100;

// The most tokens that one save discards, for users from before there was a limit.
const BATCH = 1000;

/** The caller records the events, and publishes the messages after the commit. */
export interface Discarded {
  tokenIds: string[];
  events: NewEvent[];
}

/**
 * Discards the oldest active tokens of the user on the channel that exceed the limit, except `savedId`. Call
 * it last in a transaction: a transaction that waits here holds no lock that the one before it needs. It
 * skips tokens that another transaction has locked, because they are being moved, discarded or saved.
 */
export async function discardOldest(
  tx: Queryable,
  kind: 'device' | 'shared',
  { projectId, userId, channel, savedId }: Saved,
): Promise<Discarded> {
  await tx.query(takeTurn, [userId, channel]);
  const of = [userId, channel, savedId, MAX_ACTIVE_TOKENS - 1, BATCH];
  const gone =
    kind === 'device'
      ? await tx.query<Gone>(discardDevices, [...of, projectId])
      : await tx.query<Gone>(discardShared, of);
  return {
    tokenIds: gone.map(({ id }) => id),
    events: gone.map(({ id, public_id }) => discarded({ projectId, userId, channel }, public_id ?? id)),
  };
}

interface Saved {
  projectId: string;
  userId: string;
  channel: string;
  savedId: string;
}

interface Gone {
  id: string;
  public_id: string | null;
}

// Serializes the saves of a user and channel until the commit, so that the limit is exact.
const takeTurn = sql(
  'take_turn_to_discard_tokens',
  "select pg_advisory_xact_lock(hashtextextended('tokens ' || $1::uuid || ' ' || $2::text, 0))",
);

// Index tokens_listed.
const STALE = `select t.id, t.hash
    from tokens t
    where t.user_id = $1 and t.channel = $2 and t.discarded_at is null and t.id <> $3
    order by t.id desc
    offset $4
    limit $5`;
// Primary keys of token_owners and tokens, or index tokens_listed. Locks the owners first, as save.ts does.
const discardDevices = sql(
  'discard_oldest_devices',
  `with stale as (
    ${STALE}
  ),
  locked as (
    select o.channel, o.hash
    from stale
    join token_owners o
      on o.project_id = $6 and o.channel = $2 and o.hash = stale.hash and o.user_id = $1
        and o.token_id = stale.id
    for update of o skip locked
  ),
  freed as (
    delete from token_owners o
    using locked
    where o.project_id = $6 and o.channel = locked.channel and o.hash = locked.hash
    returning o.token_id
  )
  update tokens t
  set discarded_at = now()
  from freed
  where t.user_id = $1 and t.channel = $2 and t.id = freed.token_id and t.discarded_at is null
  returning t.id, t.public_id`,
);
// Primary key, or index tokens_listed.
const discardShared = sql(
  'discard_oldest_shared_tokens',
  `with stale as (
    ${STALE}
  ),
  locked as (
    select t.id
    from stale
    join tokens t on t.user_id = $1 and t.channel = $2 and t.id = stale.id and t.discarded_at is null
    for update of t skip locked
  )
  update tokens t
  set discarded_at = now()
  from locked
  where t.user_id = $1 and t.channel = $2 and t.id = locked.id and t.discarded_at is null
  returning t.id, t.public_id`,
);

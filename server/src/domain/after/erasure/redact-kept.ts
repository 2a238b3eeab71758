import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { chunksOf } from '../../../lib/chunks.ts';

// Keys that are read at a time, and rows that are written in a transaction.
const KEYS = 10_000;
const ROWS = 500;

/** Whether there are deliveries or events of these users to redact. */
export async function hasUnredacted(tx: Queryable, userIds: readonly string[]): Promise<boolean> {
  for (const { select } of [deliveries, events])
    if ((await tx.query(select, [uuidArray(userIds), 1])).length > 0) return true;
  return false;
}

/**
 * Removes personal data from the deliveries and events of users that are being purged, in small transactions.
 * Each continues behind the last, without reading what is already redacted. Ends early when the signal is
 * aborted or another node purges the users; can be repeated at any time.
 */
export async function redactKept(
  db: Pick<Database, 'query' | 'transaction'>,
  userIds: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const one of [deliveries, events]) {
    let left = userIds;
    while (left.length > 0) {
      const keys = await db.query<Key>(one.select, [uuidArray(left), KEYS]);
      for (const some of chunksOf(keys, ROWS))
        if (signal?.aborted || !(await db.transaction((tx) => redact(tx, one, some)))) return;
      // The last user may have more.
      left = keys.length < KEYS ? [] : left.slice(left.indexOf(keys.at(-1)?.user_id ?? ''));
    }
  }
}

async function redact(tx: Queryable, { update }: typeof deliveries, keys: readonly Key[]): Promise<boolean> {
  const userIds = [...new Set(keys.map((key) => key.user_id))];
  if ((await tx.query(lockErased, [uuidArray(userIds)])).length < userIds.length) return false;
  await tx.query(update, [
    uuidArray(keys.map((key) => key.of)),
    uuidArray(keys.map((key) => key.id)),
    textArray(keys.map((key) => key.part)),
  ]);
  return true;
}

/** The primary key of a delivery (user_id, notification_id, channel) or of an event (project_id, id). */
interface Key {
  user_id: string;
  of: string;
  id: string;
  part: string | null;
}

export const lockErased = sql(
  'lock_erased_users',
  `select id
  from users
  where id = any ($1::uuid[]) and deleted_at = '-infinity'
  order by id
  for update skip locked`,
);

// In the given order of users. Primary keys, unless stated otherwise.

// The reason of a provider may name the user. The delivery and its state stay: the figures of the broadcast
// count them.
const deliveries = {
  select: sql(
    'deliveries_to_redact',
    `select gone.user_id, gone.user_id as of, kept.id, kept.part
    from unnest($1::uuid[]) with ordinality as gone (user_id, place)
    cross join lateral (
      select d.notification_id as id, d.channel as part
      from deliveries d
      where d.user_id = gone.user_id and (d.reason is not null or d.provider_id is not null)
      limit $2
    ) kept
    order by gone.place
    limit $2`,
  ),
  update: sql(
    'redact_deliveries',
    `update deliveries d
    set reason = null, provider_id = null, progress = null,
      targets = (targets::jsonb || '{"provider_ids": []}')::json
    from unnest($1::uuid[], $2::uuid[], $3::text[]) as gone (user_id, notification_id, channel)
    where d.user_id = gone.user_id and d.notification_id = gone.notification_id and d.channel = gone.channel`,
  ),
};

/** SQL: the condition of the index events_of_users. */
export const IS_OF_ONE_USER = `(
          type in (
            'token.saved', 'token.discarded', 'delivery.clicked', 'installation.saved', 'installation.broken',
            'subscription.saved', 'subscription.deleted', 'preferences.updated', 'delivery_windows.saved'
          )
          or (
            type in ('notification.seen', 'notification.read', 'notification.archived')
            and details is not null
          )
        )`;

// Index events_of_users. The details of a user's actions are personal: the connected workspace, chosen topics
// and categories, opened links. The event and its channel stay.
const events = {
  select: sql(
    'events_to_redact',
    `select gone.user_id, kept.project_id as of, kept.id, null as part
    from unnest($1::uuid[]) with ordinality as gone (user_id, place)
    cross join lateral (
      select e.project_id, e.id
      from events e
      where e.user_ids = array[gone.user_id]
        and ${IS_OF_ONE_USER}
        and (
          json_typeof(e.details) = 'array'
          or e.details -> 'payload' is not null
          or e.details -> 'log' is not null
          or e.details -> 'context' -> 'token_id' is not null
        )
      limit $2
    ) kept
    order by gone.place
    limit $2`,
  ),
  update: sql(
    'redact_events',
    `with kept as materialized (
      select project_id, id,
        json_strip_nulls(
          json_build_object(
            'code', details -> 'code',
            'level', details -> 'level',
            'context', (details -> 'context')::jsonb - 'token_id'
          )
        ) as details
      from (
        select e.project_id, e.id,
          case when json_typeof(e.details) = 'array' then e.details -> 0 else e.details end as details
        from unnest($1::uuid[], $2::uuid[], $3::text[]) as erased (project_id, id)
        join events e using (project_id, id)
      ) event
    )
    update events e
    set details = kept.details
    from kept
    where e.project_id = kept.project_id and e.id = kept.id`,
  ),
};

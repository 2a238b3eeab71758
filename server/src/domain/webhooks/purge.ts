import { type Queryable, sql } from '../../db/client.ts';
import { firstIdAt } from '../../lib/ids.ts';

// Long enough to find out about a failure and to replay it.
const KEPT_MS = 30 * 24 * 3_600_000;
const BATCH = 1_000;

/** Deletes a batch of old messages, and of what deleted webhooks have left; answers whether there may be more. */
export async function purgeWebhooks(db: Queryable, nowMs: number): Promise<boolean> {
  const old = await db.query(deleteOldMessages, [firstIdAt(Math.max(0, nowMs - KEPT_MS)), BATCH]);
  const left = await db.query(deleteLeftMessages, [BATCH]);
  await db.query(deleteReplays);
  await db.query(deleteWebhooks);
  return old.length === BATCH || left.length === BATCH;
}

// Primary keys of webhooks and of webhook_messages (webhook_id, id). What is still being tried stays.
const deleteOldMessages = sql(
  'purge_webhook_messages',
  `with expired as (
    select m.webhook_id, m.id
    from webhooks w
    cross join lateral (
      select webhook_id, id
      from webhook_messages
      where webhook_id = w.id and id < $1 and state <> 'retrying'
      order by id
      limit $2
    ) m
    limit $2
  )
  delete from webhook_messages m
  using expired
  where m.webhook_id = expired.webhook_id and m.id = expired.id
  returning 1`,
);
// Index webhooks_deleted, all of them.
const deleteLeftMessages = sql(
  'purge_messages_of_deleted_webhooks',
  `with orphaned as (
    select m.webhook_id, m.id
    from webhooks w
    cross join lateral (
      select webhook_id, id
      from webhook_messages
      where webhook_id = w.id
      limit $1
    ) m
    where w.deleted_at is not null
    limit $1
  )
  delete from webhook_messages m
  using orphaned
  where m.webhook_id = orphaned.webhook_id and m.id = orphaned.id
  returning 1`,
);
const deleteReplays = sql(
  'purge_webhook_replays',
  `delete from webhook_replays r
  using webhooks w
  where w.deleted_at is not null and r.webhook_id = w.id`,
);
// Jobs that are left find no webhook and end.
const deleteWebhooks = sql(
  'purge_webhooks',
  `delete from webhooks w
  where w.deleted_at is not null
    and not exists (select from webhook_messages m where m.webhook_id = w.id)`,
);

import { type Queryable, sql } from '../../../db/client.ts';
import { firstIdAt } from '../../../lib/ids.ts';

// Long enough to find out about a failure and to replay it.
const STORED_MS = 30 * 24 * 3_600_000;
const BATCH = 1_000;

/**
 * Deletes a batch of old messages, and of what deleted webhooks have left; answers whether there may be more.
 */
export async function purgeWebhooks(db: Queryable, nowMs: number): Promise<boolean> {
  const old = await db.query(deleteOldMessages, [firstIdAt(Math.max(0, nowMs - STORED_MS)), BATCH]);
  const left = await db.query(deleteLeftMessages, [BATCH]);
  await db.query(deleteReplays);
  await db.query(deleteWebhooks);
  return old.length === BATCH || left.length === BATCH;
}

// Primary keys of webhooks and of webhook_messages (webhook_id, id). What is still being tried stays, and
// what is sent again this moment.
const deleteOldMessages = sql(
  'purge_webhook_messages',
  `delete from webhook_messages
  where ctid = any (array(
    select m.ctid
    from webhooks w
    cross join lateral (
      select ctid
      from webhook_messages
      where webhook_id = w.id and id < $1 and state <> 'retrying'
      order by id
      limit $2
    ) m
    limit $2
  ))
  returning 1`,
);
// Index webhooks_deleted, all of them.
const deleteLeftMessages = sql(
  'purge_messages_of_deleted_webhooks',
  `delete from webhook_messages
  where ctid = any (array(
    select m.ctid
    from webhooks w
    cross join lateral (
      select ctid
      from webhook_messages
      where webhook_id = w.id
      limit $1
    ) m
    where w.deleted_at is not null
    limit $1
  ))
  returning 1`,
);
const deleteReplays = sql(
  'purge_webhook_replays',
  `delete from webhook_replays
  where webhook_id = any (array(select id from webhooks where deleted_at is not null))`,
);
// Jobs that are left find no webhook and end.
const deleteWebhooks = sql(
  'purge_webhooks',
  `delete from webhooks w
  where w.deleted_at is not null
    and (select m.webhook_id from webhook_messages m where m.webhook_id = w.id limit 1) is null`,
);

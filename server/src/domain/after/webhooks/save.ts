import type { SaveWebhook } from '../../../contract/webhook.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import { OLDEST } from '../../../lib/cursor.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { lockProject } from '../../setup/projects/lock.ts';
import { WEBHOOK_COLUMNS, type WebhookRow } from './get.ts';
import { newSecret, sealSecret } from './sign.ts';

// Every one of them gets every event of its types.
const MAX_WEBHOOKS = 50;

interface Deps {
  db: Pick<Database, 'transaction'>;
  sealer: Sealer;
}

/**
 * Makes a webhook with a secret of its own, or changes the one with this id; undefined when the project has
 * none such.
 */
export function saveWebhook(
  { db, sealer }: Deps,
  projectId: string,
  given: SaveWebhook,
): Promise<WebhookRow | undefined> {
  return db.transaction(async (tx) => {
    const saved = await (given.id === undefined
      ? create(tx, sealer, projectId, given)
      : change(tx, projectId, given.id, given));
    if (saved !== undefined) await recordSaved(tx, projectId, saved.id);
    return saved;
  });
}

/** Records that a webhook is not what it was. Not its address: that may be as good as a password. */
export async function recordSaved(tx: Queryable, projectId: string, webhookId: string): Promise<void> {
  await recordEvents(tx, [
    { projectId, type: 'webhook.saved', details: { context: { webhook_id: webhookId } } },
  ]);
}

async function create(
  tx: Queryable,
  sealer: Sealer,
  projectId: string,
  given: SaveWebhook,
): Promise<WebhookRow> {
  // One at a time in a project, so that the limit holds.
  await lockProject(tx, projectId);
  const id = newId();
  const [webhook] = await tx.query<WebhookRow>(insertWebhook, [
    id,
    projectId,
    given.url,
    given.description ?? null,
    given.event_types ?? [],
    given.disabled ?? false,
    sealSecret(sealer, id, newSecret()),
    OLDEST,
    MAX_WEBHOOKS,
  ]);
  if (webhook === undefined)
    throw new ClientError('validation_failed', [`A project can have at most ${MAX_WEBHOOKS} webhooks`]);
  return webhook;
}

async function change(
  tx: Queryable,
  projectId: string,
  id: string,
  given: SaveWebhook,
): Promise<WebhookRow | undefined> {
  const [webhook] = await tx.query<WebhookRow>(updateWebhook, [
    projectId,
    id,
    given.url,
    given.description !== undefined,
    given.description ?? null,
    given.event_types ?? null,
    given.disabled ?? null,
    OLDEST,
  ]);
  return webhook;
}

// Index webhooks_of_project. It begins with the oldest transaction that still runs: nothing that happens from
// now on is left out.
const insertWebhook = sql(
  'insert_webhook',
  `with room as materialized (
    select count(*) < $9 as is_left
    from webhooks
    where project_id = $2 and deleted_at is null
  )
  insert into webhooks (
    id, project_id, url, description, event_types, disabled_at, sealed_secret, feed_xact, feed_id, created_at, updated_at
  )
  select $1, $2, $3, $4, $5::text[], case when $6 then now() end, $7, pg_snapshot_xmin(pg_current_snapshot()), $8, now(), now()
  from room
  where is_left
  returning ${WEBHOOK_COLUMNS}`,
);
// Index webhooks_of_project. What was disabled goes on with what happens from now on.
const updateWebhook = sql(
  'update_webhook',
  `update webhooks
  set url = $3,
    description = case when $4 then $5 else description end,
    event_types = coalesce($6::text[], event_types),
    disabled_at = case when $7 then coalesce(disabled_at, now()) when not $7 then null else disabled_at end,
    disabled_reason = case when not $7 then null else disabled_reason end,
    failing_since = case when not $7 and disabled_at is not null then null else failing_since end,
    last_failure_at = case when not $7 and disabled_at is not null then null else last_failure_at end,
    feed_xact = case when not $7 and disabled_at is not null then pg_snapshot_xmin(pg_current_snapshot()) else feed_xact end,
    feed_id = case when not $7 and disabled_at is not null then $8 else feed_id end,
    updated_at = now()
  where project_id = $1 and id = $2 and deleted_at is null
  returning ${WEBHOOK_COLUMNS}`,
);

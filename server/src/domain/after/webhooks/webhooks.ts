import type { SaveWebhook, Webhook } from '../../../contract/webhook.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { type Cursor, OLDEST } from '../../../lib/cursor.ts';
import { newId } from '../../../lib/ids.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { lockProject } from '../../setup/projects/lock.ts';
import { newSecret, sealSecret, unreadableSecret } from './secrets.ts';

/** A webhook as stored. */
export interface WebhookRow {
  id: string;
  url: string;
  description: string | null;
  event_types: string[];
  disabled_at: Date | null;
  disabled_reason: string | null;
  failing_since: Date | null;
  /** The id of the key that sealed its secret. */
  key_id: string;
  created_at: Date;
  updated_at: Date;
}

const WEBHOOK_COLUMNS = `id, url, description, event_types, disabled_at, disabled_reason, failing_since,
    created_at, updated_at, encode(substring(sealed_secret from 2 for 4), 'hex') as key_id`;

/** Converts a webhook to its wire shape. */
export function toWebhook({ keyIds }: Pick<Sealer, 'keyIds'>, row: WebhookRow): Webhook {
  return {
    id: row.id,
    url: row.url,
    description: row.description,
    event_types: row.event_types,
    disabled: row.disabled_at !== null,
    disabled_reason: row.disabled_reason,
    failing_since: row.failing_since?.toISOString() ?? null,
    ...(keyIds.includes(row.key_id)
      ? {}
      : { error: { code: 'secret_unreadable', message: unreadableSecret(row.key_id) } }),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** Returns the project's webhook with this id. */
export async function getWebhook(
  db: Queryable,
  projectId: string,
  id: string,
): Promise<WebhookRow | undefined> {
  return (await db.query<WebhookRow>(selectWebhook, [projectId, id]))[0];
}

/** Returns up to `limit` of the project's webhooks beyond the cursor, nearest first. */
export function listWebhooks(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<WebhookRow[]> {
  return db.query<WebhookRow>(selectWebhooks[direction], [projectId, id, limit]);
}

// Each event is sent to all webhooks that subscribe to its type.
const MAX_WEBHOOKS = 50;
// Time to deploy the new secret on the receiver's side.
const OVERLAP_MS = 24 * 3_600_000;

interface Deps {
  db: Pick<Database, 'transaction'>;
  sealer: Sealer;
}

/** Creates a webhook with a new secret, or changes the one with this id; undefined if there is none. */
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

/** Records that a webhook was changed; without its URL, which may contain a password. */
async function recordSaved(tx: Queryable, projectId: string, webhookId: string): Promise<void> {
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
  // Serializes creation within a project, so that the limit holds.
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

/**
 * Replaces the webhook's secret. The former one also signs for a day: returns its end, or undefined if there
 * is no such webhook.
 */
export function rotateSecret(
  { db, sealer, clock }: { db: Pick<Database, 'transaction'>; sealer: Sealer; clock: Clock },
  projectId: string,
  id: string,
): Promise<Date | undefined> {
  return db.transaction(async (tx) => {
    const until = new Date(clock.now() + OVERLAP_MS);
    const sealed = sealSecret(sealer, id, newSecret());
    const changed = await tx.query(replaceSecret, [projectId, id, sealed, until]);
    if (changed.length === 0) return undefined;
    await recordSaved(tx, projectId, id);
    return until;
  });
}

/** Deletes a webhook: nothing more is sent to it. Returns false if the project has no such webhook. */
export function deleteWebhook(
  { db }: { db: Pick<Database, 'transaction'> },
  projectId: string,
  id: string,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    const deleted = await tx.query(hideWebhook, [projectId, id]);
    if (deleted.length === 0) return false;
    await recordEvents(tx, [
      { projectId, type: 'webhook.deleted', details: { context: { webhook_id: id } } },
    ]);
    return true;
  });
}

// Index webhooks_of_project (project_id, id), like all below.
const selectWebhook = sql(
  'get_webhook',
  `select ${WEBHOOK_COLUMNS} from webhooks where project_id = $1 and id = $2 and deleted_at is null`,
);
// users/list.ts explains the row comparisons.
const selectWebhooks = listStatements('webhooks', {
  select: WEBHOOK_COLUMNS,
  from: 'webhooks',
  owner: 'project_id',
  pairs: true,
  where: 'deleted_at is null',
});
// The feed starts with the oldest open transaction, so that no event from now on is missed.
const insertWebhook = sql(
  'insert_webhook',
  `with capacity as materialized (
    select count(*) < $9 as is_left
    from webhooks
    where project_id = $2 and deleted_at is null
  )
  insert into webhooks (
    id, project_id, url, description, event_types, disabled_at, sealed_secret, feed_xact, feed_id, created_at,
    updated_at
  )
  select $1, $2, $3, $4, $5::text[], case when $6 then now() end, $7, pg_snapshot_xmin(pg_current_snapshot()),
    $8, now(), now()
  from capacity
  where is_left
  returning ${WEBHOOK_COLUMNS}`,
);
// A webhook that was disabled starts with the events from now on.
const updateWebhook = sql(
  'update_webhook',
  `with present as materialized (
    select now() as now, pg_snapshot_xmin(pg_current_snapshot()) as xact
  )
  update webhooks
  set url = $3,
    description = case when $4 then $5 else description end,
    event_types = coalesce($6::text[], event_types),
    disabled_at = case
      when $7 then coalesce(disabled_at, (select now from present))
      when not $7 then null
      else disabled_at
    end,
    disabled_reason = case when not $7 then null else disabled_reason end,
    failing_since = case when not $7 and disabled_at is not null then null else failing_since end,
    last_failure_at = case when not $7 and disabled_at is not null then null else last_failure_at end,
    feed_xact = case
      when not $7 and disabled_at is not null then (select xact from present)
      else feed_xact
    end,
    feed_id = case when not $7 and disabled_at is not null then $8 else feed_id end,
    updated_at = now()
  where project_id = $1 and id = $2 and deleted_at is null
  returning ${WEBHOOK_COLUMNS}`,
);
const replaceSecret = sql(
  'rotate_webhook_secret',
  `update webhooks
  set sealed_former_secret = sealed_secret, former_secret_until = $4, sealed_secret = $3, updated_at = now()
  where project_id = $1 and id = $2 and deleted_at is null
  returning id`,
);
// Clears the secrets immediately; the next purge deletes the messages.
const hideWebhook = sql(
  'delete_webhook',
  `update webhooks
  set deleted_at = now(), sealed_secret = '', sealed_former_secret = null
  where project_id = $1 and id = $2 and deleted_at is null
  returning id`,
);

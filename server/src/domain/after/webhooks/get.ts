import type { Webhook } from '../../../contract/webhook.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
import { type Cursor, NEWEST, OLDEST } from '../../../lib/cursor.ts';
import type { Sealer } from '../../../lib/seal.ts';
import { unreadableSecret } from './unreadable.ts';

/** A project's webhook as it stands in the database. */
export interface WebhookRow {
  id: string;
  url: string;
  description: string | null;
  event_types: string[];
  disabled_at: Date | null;
  disabled_reason: string | null;
  failing_since: Date | null;
  /** The key that its secret was sealed with. */
  key_id: string;
  created_at: Date;
  updated_at: Date;
}

export const WEBHOOK_COLUMNS = `id, url, description, event_types, disabled_at, disabled_reason, failing_since, created_at, updated_at,
    encode(substring(sealed_secret from 2 for 4), 'hex') as key_id`;

/** A webhook as clients see it. */
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

/** The project's webhook with this id. */
export async function getWebhook(
  db: Queryable,
  projectId: string,
  id: string,
): Promise<WebhookRow | undefined> {
  return (await db.query<WebhookRow>(selectWebhook, [projectId, id]))[0];
}

/** Up to `limit` of the project's webhooks beyond the cursor, nearest first. */
export function listWebhooks(
  db: Queryable,
  projectId: string,
  { direction, id, limit }: Cursor,
): Promise<WebhookRow[]> {
  return db.query<WebhookRow>(selectWebhooks[direction], [projectId, id, limit]);
}

// Index webhooks_of_project (project_id, id), all of them.
const selectWebhook = sql(
  'get_webhook',
  `select ${WEBHOOK_COLUMNS} from webhooks where project_id = $1 and id = $2 and deleted_at is null`,
);
// The list: see users/list.ts for the pairs.
const listText = (direction: Cursor['direction']) =>
  direction === 'older'
    ? `select ${WEBHOOK_COLUMNS}
  from webhooks
  where (project_id, id) < ($1, $2) and (project_id, id) >= ($1, '${OLDEST}') and deleted_at is null
  order by project_id desc, id desc
  limit $3`
    : `select ${WEBHOOK_COLUMNS}
  from webhooks
  where (project_id, id) > ($1, $2) and (project_id, id) <= ($1, '${NEWEST}') and deleted_at is null
  order by project_id, id
  limit $3`;
const selectWebhooks: Record<Cursor['direction'], Statement> = {
  older: sql('list_webhooks_older', listText('older')),
  newer: sql('list_webhooks_newer', listText('newer')),
};

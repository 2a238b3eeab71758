import type { Static } from 'typebox';
import type { EventType } from '../../../contract/event.ts';
import type { WebhookDelivery } from '../../../contract/webhook.ts';
import type { Queryable } from '../../../db/client.ts';
import { listStatements } from '../../../db/list-statements.ts';
import type { Cursor } from '../../../lib/cursor.ts';

export type MessageState = 'sent' | 'retrying' | 'failed';

/** The delivery of an event to a webhook, as stored. */
export interface MessageRow {
  id: string;
  type: EventType;
  state: MessageState;
  attempts: number;
  status: number | null;
  reason: string | null;
  duration_ms: number | null;
  last_attempt_at: Date | null;
  next_attempt_at: Date | null;
}

/** Converts a message to its wire shape. */
export function toDelivery(row: MessageRow): Static<typeof WebhookDelivery> {
  return {
    id: row.id,
    type: row.type,
    status: row.state,
    attempts: row.attempts,
    response_status: row.status,
    reason: row.reason,
    duration_ms: row.duration_ms,
    last_attempt_at: row.last_attempt_at?.toISOString() ?? null,
    next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
  };
}

/** Returns up to `limit` of a webhook's messages beyond the cursor, in this state or in any. */
export function listMessages(
  db: Queryable,
  webhookId: string,
  state: MessageState | undefined,
  { direction, id, limit }: Cursor,
): Promise<MessageRow[]> {
  const values = [webhookId, id, limit];
  return state === undefined
    ? db.query<MessageRow>(STATEMENTS.all[direction], values)
    : db.query<MessageRow>(STATEMENTS.inState[direction], [...values, state]);
}

// Primary key (webhook_id, id), or index webhook_messages_by_state (webhook_id, state, id).
const MESSAGES = {
  select: 'id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at',
  from: 'webhook_messages',
  owner: 'webhook_id',
};
const STATEMENTS = {
  all: listStatements('webhook_messages', MESSAGES),
  inState: listStatements('webhook_messages_in_state', { ...MESSAGES, where: 'state = $4' }),
};

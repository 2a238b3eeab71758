import type { Static } from 'typebox';
import type { EventType } from '../../../contract/event.ts';
import type { WebhookDelivery } from '../../../contract/webhook.ts';
import { type Queryable, type Statement, sql } from '../../../db/client.ts';
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

/** Returns up to `limit` of a webhook's messages beyond the cursor, nearest first; all, or those in `state`. */
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
const listText = (direction: Cursor['direction'], condition: string) =>
  `select id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at
  from webhook_messages
  where webhook_id = $1 ${condition} and id ${direction === 'older' ? '<' : '>'} $2
  order by id ${direction === 'older' ? 'desc' : 'asc'}
  limit $3`;
const both = (name: string, condition: string): Record<Cursor['direction'], Statement> => ({
  older: sql(`list_webhook_${name}_older`, listText('older', condition)),
  newer: sql(`list_webhook_${name}_newer`, listText('newer', condition)),
});
const STATEMENTS = { all: both('messages', ''), inState: both('messages_in', 'and state = $4') };

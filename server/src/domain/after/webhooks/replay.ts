import type { ReplayWebhook } from '../../../contract/webhook.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { firstIdAt, newId } from '../../../lib/ids.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { getEvent } from '../../ground/events/get.ts';
import { webhookJob } from './deliver.ts';
import { getWebhook } from './get.ts';

// One after the other is as fast, and says what it does.
const MAX_REPLAYS = 10;

/**
 * Sends events to a webhook once more. Throws what the client is told when the event, or the webhook, is not
 * there or is disabled.
 */
export function replayMessages(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  projectId: string,
  webhookId: string,
  { event_id: single, since, until, status = 'failed' }: ReplayWebhook,
): Promise<void> {
  return db.transaction(async (tx) => {
    const webhook = await getWebhook(tx, projectId, webhookId);
    if (webhook === undefined) throw new ClientError('not_found');
    if (webhook.disabled_at !== null)
      throw new ClientError('validation_failed', ['The webhook is disabled: enable it first']);
    const nowMs = clock.now();
    if (single !== undefined) await replayOne(tx, projectId, webhookId, single.toLowerCase(), nowMs);
    if (since === undefined) return;
    const from = Math.max(0, Date.parse(since));
    const to = Math.max(0, until === undefined ? nowMs : Math.min(nowMs, Date.parse(until)));
    const added = await tx.query(insertReplay, [
      webhookId,
      newId(),
      status === 'failed',
      firstIdAt(from),
      firstIdAt(to),
      MAX_REPLAYS,
    ]);
    if (added.length === 0)
      throw new ClientError('validation_failed', ['The webhook has enough replays under way; wait for them']);
  });
}

async function replayOne(
  tx: Queryable,
  projectId: string,
  webhookId: string,
  id: string,
  nowMs: number,
): Promise<void> {
  if ((await getEvent(tx, projectId, id)) === undefined)
    throw new ClientError('not_found', ['There is no event with this event_id']);
  const payload = { webhook_id: webhookId, event_ids: [id], attempt: 0, since_ms: nowMs, replay: true };
  await enqueue(tx, [webhookJob(payload)]);
}

// Primary key of webhook_replays (webhook_id, id).
const insertReplay = sql(
  'insert_webhook_replay',
  `with room as materialized (
    select count(*) < $6 as is_left
    from webhook_replays
    where webhook_id = $1
  )
  insert into webhook_replays (webhook_id, id, failed_only, after_id, until_id)
  select $1, $2, $3, $4, $5
  from room
  where is_left
  returning id`,
);

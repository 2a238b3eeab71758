import { type Database, sql } from '../../../db/client.ts';
import { recordEvents } from '../../ground/events/record.ts';

/** Deletes a webhook: nothing more is sent to it. False when the project has none such. */
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

// Index webhooks_of_project. The secrets go at once, the messages with the next purge.
const hideWebhook = sql(
  'delete_webhook',
  `update webhooks
  set deleted_at = now(), sealed_secret = '', sealed_former_secret = null
  where project_id = $1 and id = $2 and deleted_at is null
  returning id`,
);

import { type Database, sql } from '../../../db/client.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { Handler } from '../../../queue/handler.ts';
import { BULK } from '../../../queue/jobs.ts';
import { makeDueHandler } from '../../../queue/make-due.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { LineContext } from '../context/context.ts';
import { broadcastExists } from './exists.ts';

/**
 * Cancels a broadcast. Fan-outs and deliveries read that, and write no further notifications and send no
 * further messages; a job makes its scheduled jobs due, so that they end now. Changes nothing if the
 * broadcast has ended or is cancelled. Returns whether the project has such a broadcast.
 */
export async function cancelBroadcast(
  { db, bus }: { db: Pick<Database, 'query' | 'transaction'>; bus: Bus },
  projectId: string,
  broadcastId: string,
): Promise<boolean> {
  const isCancelled = await db.transaction(async (tx) => {
    const cancelled = await tx.query(setCancelled, [broadcastId, projectId]);
    if (cancelled.length === 0) return false;
    await recordEvents(tx, [{ projectId, type: 'broadcast.cancelled', broadcastId }]);
    const payload = { broadcast_id: broadcastId };
    await enqueue(tx, [{ kind: 'cancel', projectId, priority: BULK, weight: 1, payload }]);
    return true;
  });
  if (!isCancelled) return broadcastExists(db, projectId, broadcastId);
  bus.publish({ type: 'broadcast_cancelled', broadcastId });
  return true;
}

// Jobs in one transaction: a broadcast to a million users may have ten thousand on each channel.
const CHUNK = 2_000;

/** Makes the scheduled jobs of cancelled broadcasts due. */
export function cancelHandler(context: Pick<LineContext, 'db' | 'clock'>): Handler<'cancel'> {
  return makeDueHandler(context, ['fan_out', 'deliver'], async (tx, { payload }) => {
    const made = await tx.query(makeDue, [payload.broadcast_id, CHUNK]);
    return { isLast: made.length === 0, next: payload };
  });
}

// Primary key.
const setCancelled = sql(
  'cancel_broadcast',
  `update broadcasts
  set cancelled_at = date_trunc('milliseconds', now())
  where id = $1 and project_id = $2 and cancelled_at is null and (status <> 'processed' or pending > 0)
  returning id`,
);
// Indexes jobs_planned and jobs_deferred, whose conditions are repeated word for word. The time that
// the jobs wait in the queue begins now.
const makeDue = sql(
  'end_scheduled_jobs',
  `update jobs
  set due_at = null, enqueued_at = now()
  where id = any (array(
    select id
    from jobs
    where id = any (array(
        (
          select id
          from jobs
          where kind in ('fan_out', 'deliver') and due_at is not null and payload ->> 'back' is null
            and (payload ->> 'broadcast_id')::uuid = $1
          limit $2
        )
        union all
        (
          select id
          from jobs
          where kind = 'deliver' and due_at is not null and payload ->> 'back' is not null
            and (payload ->> 'broadcast_id')::uuid = $1
          limit $2
        )
      ))
      and lease_id is null
    for update skip locked
  ))
  returning 1`,
);

import { MAX_WAIT_SECONDS } from '../../../contract/workflow.ts';
import { type Database, sql } from '../../../db/client.ts';
import { ClientError } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { priorityFor } from '../../../queue/jobs.ts';
import type { Bus } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { type ChangeRequest, changeText, type FoundToChange, publishChange } from './change.ts';
import { getNotification } from './get.ts';
import { HIDDEN } from './row.ts';
import { unsnooze } from './unsnooze.ts';

interface Deps {
  db: Pick<Database, 'query' | 'transaction'>;
  bus: Bus;
  clock: Clock;
}

/**
 * Hides a notification until a time, at which a job returns it to the inbox as a new one. Without a time it
 * returns now. Records the event and notifies the user's inboxes. Repeating it changes nothing. Returns false
 * if the user has no such notification, or discarded it. Throws if the time is not within the next 400 days.
 */
export async function snoozeNotification(
  { db, bus, clock }: Deps,
  request: ChangeRequest,
  until: string | null,
): Promise<boolean> {
  const { projectId, userId, id } = request;
  if (until === null) {
    const [shown] = await unsnooze({ db, bus }, [{ projectId, userId, id, untilMs: null, isRepeat: false }]);
    return shown !== undefined || (await getNotification(db, userId, id)) !== undefined;
  }
  const nowMs = clock.now();
  const untilMs = Date.parse(until);
  // Negated, because every comparison with NaN, the time of any other text, is false.
  if (!(untilMs > nowMs && untilMs <= nowMs + MAX_WAIT_SECONDS * 1_000)) {
    if ((await getNotification(db, userId, id)) === undefined) return false;
    throw new ClientError('validation_failed', ["Param 'until' must be within the next 400 days"]);
  }
  const found = await db.transaction(async (tx) => {
    const seenEventId = newEventId();
    const values = [userId, id, projectId, newEventId(), new Date(untilMs), seenEventId];
    const [row] = await tx.query<FoundToChange>(snooze, values);
    const payload = { user_id: userId, notification_id: id.toLowerCase(), until_ms: untilMs };
    if (row?.changed_at != null) {
      await tx.query(deleteFormer, [payload.notification_id, userId]);
      await enqueue(tx, [
        { kind: 'unsnooze', projectId, priority: priorityFor(1), weight: 1, dueAtMs: untilMs, payload },
      ]);
    }
    return row;
  });
  publishChange(bus, 'snoozed', request, found);
  return found !== undefined;
}

// Index jobs_of_snoozed. Otherwise a user who snoozes one notification again and again would leave a job
// behind each time, for up to 400 days.
const deleteFormer = sql(
  'delete_former_unsnooze',
  `delete from jobs
  where kind = 'unsnooze' and due_at is not null and lease_id is null
    and payload ->> 'notification_id' = $1 and payload ->> 'user_id' = $2`,
);

// A user who snoozes a notification has seen it. It is no longer archived.
const snooze = sql(
  'snooze_notification',
  changeText({
    event: 'notification.snoozed',
    set: `snoozed_until = $5, discarded_at = ${HIDDEN}, archived_at = null`,
    due: 'snoozed_until is distinct from $5',
    seenEventId: '$6',
  }),
);

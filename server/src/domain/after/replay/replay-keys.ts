import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { notificationId } from '../../../lib/ids.ts';
import { activeSpan } from '../../../lib/tracing.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { recordEvents } from '../../ground/events/record.ts';
import { deliveryJobs, type JobSource } from '../../line/fan-out/plan-deliveries.ts';
import { addPending } from '../../line/ledger/finish.ts';

/** A delivery of a broadcast. */
export interface DeliveryKey {
  userId: string;
  channel: string;
}

/**
 * Replays the deliveries with these keys that are in this state, as if they had not been tried: with jobs,
 * events and the figures of the broadcast. Must be the last step of the caller's transaction. Returns their
 * number, without deliveries that another transaction replays now.
 */
export async function replayKeys(
  tx: Queryable,
  broadcast: JobSource,
  { state, keys, nowMs }: { state: 'failed' | 'skipped'; keys: readonly DeliveryKey[]; nowMs: number },
): Promise<number> {
  if (keys.length === 0) return 0;
  const rows = await tx.query<{ user_id: string; channel: string; replays: number }>(replayDeliveries, [
    uuidArray(keys.map(({ userId }) => userId)),
    uuidArray(keys.map(({ userId }) => notificationId(broadcast.id, userId))),
    textArray(keys.map(({ channel }) => channel)),
    state,
  ]);
  const alike = Map.groupBy(rows, (row) => `${row.channel} ${row.replays}`);
  await enqueue(
    tx,
    [...alike.values()].flatMap((group) => {
      const [first] = group;
      if (first === undefined) return [];
      const userIds = group.map((row) => row.user_id).sort();
      const about = { recipients: keys.length, dueAtMs: nowMs, later: false, replay: first.replays };
      const traced = { ...broadcast, traceparent: activeSpan()?.traceparent };
      return deliveryJobs(traced, first.channel, userIds, about);
    }),
  );
  const byChannel = Map.groupBy(rows, (row) => row.channel);
  await recordEvents(
    tx,
    [...byChannel].map(([channel, some]) => ({
      ...{ projectId: broadcast.projectId, type: 'delivery.replayed', broadcastId: broadcast.id },
      userIds: some.map((row) => row.user_id).sort(),
      details: { level: 'info', context: { channel } },
    })),
  );
  const replayed = rows.map(({ user_id: userId }) => ({
    userId,
    notificationId: notificationId(broadcast.id, userId),
  }));
  if (rows.length > 0)
    await addPending(tx, broadcast.id, {
      deliveries: rows.length,
      failed: state === 'failed' ? replayed : [],
    });
  return rows.length;
}

// Primary key (user_id, notification_id, channel), locked in the order of users, like outcomes. A concurrent
// replay that waits for a row finds it in another state, and skips it.
const replayDeliveries = sql(
  'replay_deliveries',
  `with locked as (
    select d.user_id, d.notification_id, d.channel
    from unnest($1::uuid[], $2::uuid[], $3::text[]) as wanted (user_id, notification_id, channel)
    join deliveries d using (user_id, notification_id, channel)
    where d.state = $4
    order by d.user_id, d.notification_id, d.channel
    for update of d
  )
  update deliveries d
  set state = 'retrying', replays = least(d.replays + 1, 32767), attempts = 0, integration_id = null,
    provider = null, provider_id = null, code = null, reason = null, targets = null, progress = null,
    -- language-ignore: the column was released with this name
    unsure = 0, receipt = null, receipt_at = null, first_attempt_at = now(), last_attempt_at = now()
  from locked
  where d.user_id = locked.user_id and d.notification_id = locked.notification_id
    and d.channel = locked.channel
  returning d.user_id, d.channel, d.replays`,
);

import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { complete } from '../../../queue/complete.ts';
import type { Handler } from '../../../queue/handler.ts';
import { type Bus, newToThese } from '../../ground/bus/messages.ts';
import { newEventId } from '../../ground/events/record.ts';
import { SHOW } from './row.ts';

/** A snoozed notification. */
export interface Snoozed {
  projectId: string;
  userId: string;
  id: string;
  /** Only if it is snoozed until this time; null for any. */
  untilMs: number | null;
  /** It may have returned already, by a process that stopped before it notified the user. */
  isRepeat: boolean;
}

/**
 * Returns snoozed notifications to their inboxes as new ones of this moment, by one statement, records the
 * events and notifies connected users. A repeat changes nothing but notifies them again. Returns the
 * notifications that were shown.
 */
export async function unsnooze(
  { db, bus }: { db: Queryable; bus: Bus },
  snoozed: readonly Snoozed[],
): Promise<readonly object[]> {
  const sorted = snoozed.toSorted((a, b) => (a.userId + a.id < b.userId + b.id ? -1 : 1));
  const rows = await db.query<Shown>(show, [
    uuidArray(sorted.map(({ userId }) => userId)),
    uuidArray(sorted.map(({ id }) => id)),
    sorted.map(({ untilMs }) => (untilMs === null ? null : new Date(untilMs))),
    uuidArray(sorted.map(({ projectId }) => projectId)),
    uuidArray(sorted.map(() => newEventId())),
    sorted.map(({ isRepeat }) => isRepeat),
  ]);
  for (const { project_id: projectId, user_id: userId, broadcast_id: broadcastId, sent_at: sentAt } of rows)
    for (const message of newToThese({ projectId, broadcastId, sentAtMs: sentAt.getTime() }, [userId]))
      bus.publish(message);
  return rows;
}

/** Returns notifications to the inbox when the time of their snooze has come. */
export function unsnoozeHandler({ db, bus }: { db: Queryable; bus: Bus }): Handler<'unsnooze'> {
  return {
    slots: 1,
    slotsPerPartition: 1,
    gatherBelow: 0,
    maxJobs: 256,
    maxWeight: 256,
    maxPartitions: 32,
    async run(jobs, leaseId) {
      await unsnooze(
        { db, bus },
        jobs.map(({ projectId, attempt, payload }) => ({
          projectId,
          userId: payload.user_id,
          id: payload.notification_id,
          untilMs: payload.until_ms,
          isRepeat: attempt > 1,
        })),
      );
      // Only now, so that a crash before the messages repeats them. The rows are changed once.
      await complete(
        db,
        leaseId,
        jobs.map(({ id }) => id),
      );
      return [];
    },
    // The user can still end the snooze.
    discard: (job, leaseId) => complete(db, leaseId, [job.id]),
  };
}

interface Shown {
  project_id: string;
  user_id: string;
  broadcast_id: string;
  sent_at: Date;
}

// Primary keys. No condition is that of a partial index: the planner would read all of the user's rows in it.
// Locks the users first: a change of all notifications of a user locks them in the order of their places.
// Clients that reconnect find a returned notification by updated_at, however old its id is. The second part
// finds what has returned already, unless its user changed it since.
const show = sql(
  'unsnooze_notifications',
  `with wanted as (
    select user_id, id, until, project_id, event_id, is_repeat
    from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::uuid[], $5::uuid[], $6::boolean[])
      as w (user_id, id, until, project_id, event_id, is_repeat)
  ),
  owners as materialized (
    select id
    from users
    where id = any ($1::uuid[])
    order by id
    for no key update
  ),
  snoozed as materialized (
    select n.user_id, n.id, w.project_id, w.event_id
    from (
      select * from wanted where (select count(*) from owners) >= 0 order by user_id, id
    ) w
    cross join lateral (
      select user_id, id
      from notifications n
      where n.user_id = w.user_id and n.id = w.id
        and coalesce(n.snoozed_until = coalesce(w.until, n.snoozed_until), false)
      for update
    ) n
  ),
  shown as (
    update notifications n
    set ${SHOW}
    from snoozed
    where n.user_id = snoozed.user_id and n.id = snoozed.id
    returning snoozed.project_id, snoozed.event_id, n.user_id, n.broadcast_id, n.sent_at
  ),
  event as (
    insert into events (project_id, id, type, broadcast_id, user_ids)
    select project_id, event_id, 'notification.unsnoozed', broadcast_id, array[user_id]
    from shown
  )
  select project_id, user_id, broadcast_id, sent_at
  from shown
  union
  select wanted.project_id, n.user_id, n.broadcast_id, n.sent_at
  from wanted
  join notifications n using (user_id, id)
  where wanted.is_repeat and n.discarded_at is null
    and n.updated_at is not distinct from n.sent_at`,
);

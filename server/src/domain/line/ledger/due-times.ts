import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import type { JobPayloads } from '../../../queue/jobs.ts';
import type { Closed } from '../../setup/delivery-windows/closed-until.ts';

// Deliveries beyond this many deferred jobs show their planned times: a list must not read all jobs.
const MOST_JOBS = 1_000;

/** The next attempt of a deferred delivery. */
export interface Due {
  at: Date;
  /** What it waits for, if that is a window or the end of quiet hours. */
  closed: Closed['code'] | null;
  /** What it waits for, if that is an integration or its rate. */
  waits_for: JobPayloads['deliver']['waits_for'] | null;
}

/**
 * Returns when deferred deliveries of these broadcasts are attempted next; undefined for those that are not
 * deferred, or are being attempted.
 */
export async function dueTimes(
  db: Queryable,
  deliveries: readonly { broadcastId: string; userId: string }[],
): Promise<(userId: string, broadcastId: string, channel: string) => Due | undefined> {
  if (deliveries.length === 0) return () => undefined;
  const rows = await db.query<Row>(selectDeferred, [
    uuidArray([...new Set(deliveries.map((one) => one.broadcastId))]),
    [...new Set(deliveries.map((one) => one.userId))],
    MOST_JOBS,
  ]);
  const name = (userId: string, broadcastId: string, channel: string) =>
    `${userId} ${broadcastId} ${channel}`;
  const due = new Map(
    rows.map(({ user_id, broadcast_id, channel, ...due }) => [name(user_id, broadcast_id, channel), due]),
  );
  return (...delivery) => due.get(name(...delivery));
}

interface Row extends Due {
  user_id: string;
  broadcast_id: string;
  channel: string;
}

// Index jobs_deferred, whose condition is repeated word for word. The users are a subquery as in locate.ts.
const selectDeferred = sql(
  'deferred_deliveries',
  `select member.user_id, job.payload ->> 'broadcast_id' as broadcast_id,
    job.payload ->> 'channel' as channel, job.due_at as at, job.payload ->> 'closed' as closed,
    job.payload ->> 'waits_for' as waits_for
  from (
    select due_at, payload
    from jobs
    where kind = 'deliver' and due_at is not null and payload ->> 'back' is not null
      and (payload ->> 'broadcast_id')::uuid = any ($1::uuid[])
    limit $3
  ) job
  cross join lateral json_array_elements_text(job.payload -> 'user_ids') as member (user_id)
  where member.user_id in (select unnest($2::text[]))`,
);

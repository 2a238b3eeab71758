import { type Queryable, sql } from '../../db/client.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';

// A broadcast has at most 1000 recipients; what more is wrong than this is told by the events.
const MAX_ERRORS = 1_000;

/** Ends broadcasts that an error of ours stopped: everybody is counted as failed. */
export async function finishBroadcasts(
  tx: Queryable,
  broken: readonly { projectId: string; broadcastId: string; error: string }[],
): Promise<void> {
  for (const { projectId, broadcastId, error } of broken) {
    const [row] = await tx.query<{ total: number }>(failBroadcast, [
      broadcastId,
      JSON.stringify([{ message: error }]),
    ]);
    if (row)
      await recordEvents(tx, [
        broadcastProcessed(projectId, broadcastId, { total: row.total, failures: row.total }),
      ]);
  }
}

/**
 * Counts deliveries that have reached their final state off their broadcasts. A broadcast for which that was the last becomes `processed`, with the
 * figures taken from the deliveries themselves, so that they agree whatever was repeated on the way. Answers how many became processed.
 */
export async function countDown(tx: Queryable, finals: ReadonlyMap<string, number>): Promise<number> {
  const ids = [...finals.keys()].sort();
  if (ids.length === 0) return 0;
  await tx.query(lockBroadcasts, [ids]);
  const rows = await tx.query<{ id: string }>(subtractPending, [ids, ids.map((id) => finals.get(id))]);
  if (rows.length === 0) return 0;
  const finished = await tx.query<{ id: string; project_id: string; total: number; failures: number }>(
    finish,
    [rows.map((row) => row.id), MAX_ERRORS],
  );
  await recordEvents(
    tx,
    finished.map((row) =>
      broadcastProcessed(row.project_id, row.id, { total: row.total, failures: row.failures }),
    ),
  );
  return finished.length;
}

export function broadcastProcessed(
  projectId: string,
  broadcastId: string,
  summary: { total: number; failures: number },
): NewEvent {
  return { projectId, type: 'broadcast.processed', broadcastId, details: { payload: summary } };
}

// In the order of ids, so that two workers that count down the same broadcasts wait instead of deadlocking.
const lockBroadcasts = sql(
  'lock_broadcasts',
  'select id from broadcasts where id = any ($1::uuid[]) order by id for update',
);
const subtractPending = sql(
  'subtract_pending',
  `with counted as (
    update broadcasts
    set pending = pending - d.finals
    from unnest($1::uuid[], $2::int[]) as d (id, finals)
    where broadcasts.id = d.id
    returning broadcasts.id, pending, status
  )
  select id from counted where pending <= 0 and status <> 'processed'`,
);
// The broadcast's users are in broadcast_users; their deliveries are found by primary key (user_id, notification_id, channel), because the
// ids of a broadcast's notifications all begin with the first half of its own id (lib/ids.ts).
const finish = sql(
  'finish_broadcasts',
  `with failed as (
    select d.broadcast_id, d.user_id, d.channel, d.reason
    from broadcast_users u
    cross join lateral unnest(u.user_ids) as member (user_id)
    join deliveries d on d.user_id = member.user_id
      and d.notification_id between (left(u.broadcast_id::text, 19) || '8000-000000000000')::uuid
        and (left(u.broadcast_id::text, 19) || 'bfff-ffffffffffff')::uuid
      and d.broadcast_id = u.broadcast_id
      and d.state = 'failed'
    where u.broadcast_id = any ($1::uuid[])
  ),
  summary as (
    select broadcast_id, count(distinct user_id)::int as failures,
      (
        select json_agg(json_build_object('message', channel || ' to user ' || user_id || ' failed: ' || reason))
        from (select * from failed f where f.broadcast_id = failed.broadcast_id order by user_id, channel limit $2) listed
      ) as errors
    from failed
    group by broadcast_id
  )
  update broadcasts b
  set status = 'processed',
    failures = b.failures + coalesce(s.failures, 0),
    errors = case
      when s.errors is null then b.errors
      when b.errors is null then s.errors
      else (b.errors::jsonb || s.errors::jsonb)::json
    end
  from unnest($1::uuid[]) as done (id)
  left join summary s on s.broadcast_id = done.id
  where b.id = done.id
  returning b.id, b.project_id, b.total, b.failures`,
);
const failBroadcast = sql(
  'fail_broadcast',
  `update broadcasts
  set status = 'processed', failures = total, errors = $2::json
  where id = $1 and status <> 'processed'
  returning total`,
);

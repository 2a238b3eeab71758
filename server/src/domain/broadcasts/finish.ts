import { type Queryable, sql } from '../../db/client.ts';
import { type NewEvent, recordEvents } from '../events/record.ts';

// What more is wrong than this is told by the events.
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
  const ids = [...finals.keys()];
  if (ids.length === 0) return 0;
  await lockBroadcasts(tx, ids);
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

/** Lets nobody else change these broadcasts until the transaction ends: whoever changes several does this before. */
export async function lockBroadcasts(tx: Queryable, ids: readonly string[]): Promise<void> {
  await tx.query(selectForUpdate, [ids]);
}

/** Has a broadcast wait for so many deliveries more, also where it was processed already. */
export async function reopenBroadcast(tx: Queryable, broadcastId: string, pending: number): Promise<void> {
  await tx.query(addPending, [broadcastId, pending]);
}

/** Notes what went wrong with a broadcast beside its deliveries. */
export async function addError(tx: Queryable, broadcastId: string, message: string): Promise<void> {
  await tx.query(appendError, [broadcastId, JSON.stringify([{ message }])]);
}

export function broadcastProcessed(
  projectId: string,
  broadcastId: string,
  summary: { total: number; failures: number },
): NewEvent {
  return { projectId, type: 'broadcast.processed', broadcastId, details: { payload: summary } };
}

// In the order of ids, so that two workers that count down the same broadcasts wait instead of deadlocking.
const selectForUpdate = sql(
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
// Index deliveries_failed (broadcast_id, user_id, channel): what it takes depends on what failed, not on how many users there are. The users are
// counted in the index alone and in its order, and only the deliveries that are told of are read. A broadcast may end more than once, as what
// failed can be sent anew: the last end counts.
const finish = sql(
  'finish_broadcasts',
  `update broadcasts b
  set status = 'processed',
    failed_users = (
      select count(distinct user_id)
      from (
        select user_id from deliveries d where d.broadcast_id = b.id and d.state = 'failed' order by user_id
      ) failed
    ),
    failed_errors = (
      select json_agg(json_build_object('message', channel || ' to user ' || user_id || ' failed: ' || reason))
      from (
        select user_id, channel, reason
        from deliveries d
        where d.broadcast_id = b.id and d.state = 'failed'
        order by user_id, channel
        limit $2
      ) listed
    )
  where b.id = any ($1::uuid[])
  returning b.id, b.project_id, b.total, b.failures + b.failed_users as failures`,
);
// Primary key.
const addPending = sql(
  'reopen_broadcast',
  `update broadcasts
  set status = 'processing', pending = case when status = 'processed' then 0 else pending end + $2
  where id = $1`,
);
const failBroadcast = sql(
  'fail_broadcast',
  `update broadcasts
  set status = 'processed', failures = total, errors = $2::json
  where id = $1 and status <> 'processed'
  returning total`,
);
// Primary key.
const appendError = sql(
  'append_broadcast_error',
  `update broadcasts
  set errors = (coalesce(errors::jsonb, '[]') || $2::jsonb)::json
  where id = $1`,
);

import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { type NewEvent, recordEvents } from '../../ground/events/record.ts';

/*
 * A broadcast is `processed` when nothing is awaited: each delivery that was due at once has had its first
 * attempt, or was deferred, and all pages of a group are written. Retries, deferred and scheduled
 * deliveries have jobs that are not awaited. So an outcome counts if the payload of its job says `awaited`,
 * and the deliveries that a job leaves to later jobs count when it ends, in the transaction that deletes it:
 * exactly once, also after a crash. If a worker lost its lease, it and its successor may both count a
 * delivery; then the broadcast is processed too early. It never goes back to `processing`.
 */

/** The changes of one transaction to the deliveries of a broadcast. */
export interface Tally {
  /** Deliveries that reached their final state. */
  ended: number;
  /** Awaited events: first attempts, deferrals, or the last page of a group. */
  attempted: number;
  /** The deliveries that failed. */
  failed: readonly { userId: string; notificationId: string }[];
}

/** The last page of a group of users is written. */
export const PAGES_WRITTEN: Tally = { ended: 0, attempted: 1, failed: [] };

/** Ends broadcasts that an error of ours stopped: all their users count as failed. */
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
        broadcastProcessed(projectId, broadcastId, { total: row.total, failures: row.total, pending: 0 }),
      ]);
  }
}

/**
 * Subtracts ended and attempted deliveries from their broadcasts, and counts the users with a first failure.
 * A broadcast that awaits nothing becomes `processed`. Called last in a transaction, because it locks the
 * broadcasts.
 */
export async function countDown(tx: Queryable, tallies: ReadonlyMap<string, Tally>): Promise<void> {
  const ids = [...tallies.keys()];
  if (ids.length === 0) return;
  const open = await lockBroadcasts(tx, ids);
  const failed = ids.flatMap((id) => (tallies.get(id)?.failed ?? []).map((one) => ({ id, ...one })));
  const rows = await tx.query<Counted>(subtract, [
    ids,
    ids.map((id) => tallies.get(id)?.ended),
    ids.map((id) => tallies.get(id)?.attempted),
    uuidArray(failed.map(({ id }) => id)),
    uuidArray(failed.map(({ userId }) => userId)),
    uuidArray(failed.map(({ notificationId }) => notificationId)),
  ]);
  await recordEvents(
    tx,
    rows
      .filter(({ id, status }) => status === 'processed' && open.has(id))
      .map(({ id, project_id: projectId, total, failures, pending }) =>
        broadcastProcessed(projectId, id, { total, failures, pending }),
      ),
  );
}

interface Counted {
  id: string;
  project_id: string;
  status: string;
  total: number;
  failures: number;
  pending: number;
}

/**
 * Locks broadcasts until the transaction ends, before several are changed or their failures are counted.
 * Returns those that are not processed yet.
 */
export async function lockBroadcasts(tx: Queryable, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx.query<{ id: string; status: string }>(selectForUpdate, [ids]);
  return new Set(rows.flatMap(({ id, status }) => (status === 'processed' ? [] : [id])));
}

/** Counts replayed deliveries as pending, and subtracts the users who have no failed delivery left. */
export async function addPending(
  tx: Queryable,
  broadcastId: string,
  replayed: { deliveries: number; failed: readonly { userId: string; notificationId: string }[] },
): Promise<void> {
  await lockBroadcasts(tx, [broadcastId]);
  await tx.query(addReplayed, [
    broadcastId,
    replayed.deliveries,
    uuidArray(replayed.failed.map(({ userId }) => userId)),
    uuidArray(replayed.failed.map(({ notificationId }) => notificationId)),
  ]);
}

/** Adds an error that is not one of its deliveries to a broadcast. */
export async function addError(tx: Queryable, broadcastId: string, message: string): Promise<void> {
  await tx.query(appendError, [broadcastId, errorsJson([message])]);
}

/** The column `errors` of a broadcast. */
export function errorsJson(messages: readonly string[]): string {
  return JSON.stringify(messages.map((message) => ({ message })));
}

export function broadcastProcessed(
  projectId: string,
  broadcastId: string,
  summary: { total: number; failures: number; pending: number },
): NewEvent {
  return { projectId, type: 'broadcast.processed', broadcastId, details: { payload: summary } };
}

// In the order of ids, so that two workers that count down the same broadcasts wait instead of deadlocking.
const selectForUpdate = sql(
  'lock_broadcasts',
  'select id, status from broadcasts where id = any ($1::uuid[]) order by id for update',
);
// Primary keys, or deliveries_failed. A statement of its own after the lock, so that it sees what others have
// counted: a user fails for the first time if all its failures are of this transaction.
const subtract = sql(
  'count_down_broadcasts',
  `with first_failures as (
    select broadcast_id, count(*)::int as users
    from (
      select broadcast_id, user_id, notification_id, count(*) as failures
      from unnest($4::uuid[], $5::uuid[], $6::uuid[]) as f (broadcast_id, user_id, notification_id)
      group by broadcast_id, user_id, notification_id
    ) f
    where failures = (
      select count(*)
      from deliveries d
      where d.user_id = f.user_id and d.notification_id = f.notification_id
        and d.broadcast_id = f.broadcast_id and d.state = 'failed'
    )
    group by broadcast_id
  )
  update broadcasts b
  set pending = b.pending - t.ended,
    awaited = b.awaited - t.attempted,
    failed_users = b.failed_users + coalesce(f.users, 0),
    status = case when b.awaited - t.attempted <= 0 then 'processed' else b.status end
  from unnest($1::uuid[], $2::int[], $3::int[]) as t (id, ended, attempted)
  left join first_failures f on f.broadcast_id = t.id
  where b.id = t.id
  returning b.id, b.project_id, b.status, b.total, b.failures + b.failed_users as failures, b.pending`,
);
// Primary keys, or deliveries_failed. Looked up one by one: a join was planned as a hash of the table while
// it was empty.
const addReplayed = sql(
  'add_replayed_deliveries',
  `update broadcasts
  set pending = pending + $2,
    failed_users = failed_users - (
      select count(*)
      from (
        select distinct user_id, notification_id
        from unnest($3::uuid[], $4::uuid[]) as r (user_id, notification_id)
      ) r
      where (
        select true
        from deliveries d
        where d.user_id = r.user_id and d.notification_id = r.notification_id
          and d.broadcast_id = $1 and d.state = 'failed'
        limit 1
      ) is null
    )
  where id = $1`,
);
// Primary keys. If it was never written, a purge has to find the names in it (erasure/redact-recipients.ts).
const failBroadcast = sql(
  'fail_broadcast',
  `update broadcasts
  set status = 'processed', failures = total, errors = $2::json,
    waiting = case
      when (select true from broadcast_users u where u.broadcast_id = $1 limit 1) is null then true
    end
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

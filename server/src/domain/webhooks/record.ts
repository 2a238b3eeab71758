import type { EventType } from '../../contract/event.ts';
import { textArray, uuidArray } from '../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../db/client.ts';
import type { Clock } from '../../lib/clock.ts';
import { webhookMessages } from '../../metrics.ts';
import { enqueue } from '../../queue/enqueue.ts';
import type { NewJob } from '../../queue/jobs.ts';
import { settle } from '../../queue/settle.ts';
import { recordEvents } from '../events/record.ts';
import type { MessageState } from './messages.ts';
import type { Attempt } from './send.ts';

/** What became of a message this time. */
export interface MessageOutcome {
  id: string;
  /** Null where the event is gone. */
  type: EventType | null;
  state: MessageState;
  /** Attempts made, this one included. */
  attempts: number;
  /** This one; undefined where there was none. */
  attempt: Attempt | undefined;
  reason: string | null;
  nextAttemptMs: number | null;
  /** Sent once more by request: the outcome counts although the message was accepted before. */
  replay: boolean;
}

// A webhook at which everything has failed for so long is disabled …
const DISABLED_AFTER_MS = 5 * 24 * 3_600_000;
// … unless nothing was tried for a while in between: two failures far apart do not show that it was down all the time.
const LONGEST_GAP_MS = 36 * 3_600_000;

/**
 * Writes down what became of messages and ends their jobs, under the lease that they were claimed with. A webhook that is gone, or has
 * failed for days, is disabled. Without a webhook, which then was deleted, only the jobs are ended.
 */
export async function recordMessages(
  { db, clock }: { db: Pick<Database, 'transaction'>; clock: Clock },
  webhook: { id: string; projectId: string } | undefined,
  { jobIds, leaseId }: { jobIds: readonly number[]; leaseId: string },
  outcomes: readonly MessageOutcome[],
  again: readonly NewJob<'webhook'>[],
): Promise<void> {
  await db.transaction(async (tx) => {
    await settle(tx, leaseId, jobIds);
    if (webhook === undefined) return;
    await upsert(tx, webhook.id, outcomes);
    await enqueue(tx, again);
    const disabled = await noteHealth(tx, webhook.id, outcomes, clock.now());
    if (disabled === undefined) return;
    await recordEvents(tx, [
      {
        projectId: webhook.projectId,
        type: 'webhook.disabled',
        details: { level: 'error', log: disabled, context: { webhook_id: webhook.id } },
      },
    ]);
  });
  for (const { state } of outcomes) webhookMessages.inc({ outcome: state });
}

/** One row for each message; of one that was sent twice at the same time, what came last. */
async function upsert(tx: Queryable, webhookId: string, outcomes: readonly MessageOutcome[]): Promise<void> {
  const known = new Map(outcomes.filter(({ type }) => type !== null).map((one) => [one.id, one]));
  const rows = [...known.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  if (rows.length > 0) {
    await tx.query(upsertMessages, [
      webhookId,
      uuidArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.type)),
      textArray(rows.map((row) => row.state)),
      rows.map((row) => row.attempts),
      rows.map((row) => row.attempt?.status ?? null),
      textArray(rows.map((row) => row.reason)),
      rows.map((row) => row.attempt?.durationMs ?? null),
      rows.map((row) => (row.attempt === undefined ? null : new Date(row.attempt.atMs))),
      rows.map((row) => (row.nextAttemptMs === null ? null : new Date(row.nextAttemptMs))),
      rows.map((row) => row.replay),
    ]);
  }
  const gone = outcomes.filter(({ type }) => type === null);
  if (gone.length > 0)
    await tx.query(failMessages, [webhookId, uuidArray(gone.map(({ id }) => id)), gone[0]?.reason]);
}

/** Keeps count of what is pending, and of how the webhook does; answers why it was disabled, if it was. */
async function noteHealth(
  tx: Queryable,
  webhookId: string,
  outcomes: readonly MessageOutcome[],
  nowMs: number,
): Promise<string | undefined> {
  const attempts = outcomes.flatMap(({ attempt }) => attempt ?? []);
  const accepted = attempts.some((attempt) => attempt.accepted);
  const [row] = await tx.query<{ reason: string | null }>(updateHealth, [
    webhookId,
    outcomes.filter(({ state }) => state !== 'retrying').length,
    accepted,
    attempts.length > 0 && !accepted,
    attempts.some(({ gone }) => gone),
    new Date(nowMs),
    new Date(nowMs - DISABLED_AFTER_MS),
    new Date(nowMs - LONGEST_GAP_MS),
  ]);
  return row?.reason ?? undefined;
}

// Primary key (webhook_id, id). That a message was accepted stays, whatever a twin of its job reports later.
const upsertMessages = sql(
  'record_webhook_messages',
  `insert into webhook_messages as m (
    webhook_id, id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at
  )
  select $1, id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at
  from unnest(
    $2::uuid[], $3::text[], $4::text[], $5::int[], $6::int[], $7::text[], $8::int[], $9::timestamptz[], $10::timestamptz[], $11::bool[]
  ) as o (id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at, replay)
  order by id
  on conflict (webhook_id, id) do update
  set state = excluded.state, attempts = excluded.attempts, status = excluded.status, reason = excluded.reason,
    duration_ms = excluded.duration_ms, last_attempt_at = coalesce(excluded.last_attempt_at, m.last_attempt_at),
    next_attempt_at = excluded.next_attempt_at
  where m.state <> 'sent' or excluded.state = 'sent'
    or (select replay from unnest($2::uuid[], $11::bool[]) as o (id, replay) where o.id = m.id)`,
);
// Primary key. An event that is gone is not told of anew.
const failMessages = sql(
  'fail_webhook_messages',
  `update webhook_messages
  set state = 'failed', reason = $3, next_attempt_at = null
  where webhook_id = $1 and id = any ($2::uuid[]) and state = 'retrying'`,
);
// Primary key. Answers a reason where this update is what disables it.
const updateHealth = sql(
  'note_webhook_health',
  `with judged as (
    select id, pending - $2::int as pending, disabled_at,
      case
        when $3 then null
        when not $4 then failing_since
        when failing_since is null or last_failure_at < $8 then $6::timestamptz
        else failing_since
      end as failing_since,
      case when $4 then $6::timestamptz else last_failure_at end as last_failure_at
    from webhooks
    where id = $1
    for update
  ),
  decided as (
    select *,
      case
        when disabled_at is not null then null
        when $5 then 'It answered 410 Gone'
        when $4 and failing_since <= $7 then 'It has not accepted anything for 5 days'
      end as reason
    from judged
  )
  update webhooks w
  set pending = d.pending, failing_since = d.failing_since, last_failure_at = d.last_failure_at,
    disabled_at = case when d.reason is null then w.disabled_at else $6 end,
    disabled_reason = coalesce(d.reason, w.disabled_reason)
  from decided d
  where w.id = d.id
  returning d.reason`,
);

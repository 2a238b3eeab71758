import type { EventType } from '../../../contract/event.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../lib/log.ts';
import { webhookMessages } from '../../../metrics.ts';
import { completeHeld } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import type { NewJob } from '../../../queue/jobs.ts';
import { OutcomeWriter } from '../../../queue/outcome-writer.ts';
import { recordEvents } from '../../ground/events/record.ts';
import type { MessageState } from './messages.ts';
import type { Attempt } from './send.ts';

/** The outcome of one attempt to deliver a message. */
export interface MessageOutcome {
  webhookId: string;
  projectId: string;
  id: string;
  /** Null if the event was purged. */
  type: EventType | null;
  state: MessageState;
  /** Attempts made, including this one. */
  attempts: number;
  /** This attempt; undefined if nothing was sent. */
  attempt: Attempt | undefined;
  reason: string | null;
  nextAttemptMs: number | null;
  /** The outcome of a replay counts even if the message was accepted before. */
  replay: boolean;
}

/** A job that ended, with the messages that were not accepted. Counts only if the job is still held. */
interface FinishedJob {
  jobId: number;
  leaseId: string;
  outcomes: readonly MessageOutcome[];
  retries: readonly NewJob<'send_webhook'>[];
}

export type WebhookReport = { accepted: MessageOutcome } | { finished: FinishedJob };

// Reports wait only for the batch that is being written. A crash repeats what was accepted since.
const MAX_REPORTS = 500;
// A webhook is disabled after this time without a success …
const DISABLED_AFTER_MS = 5 * 24 * 3_600_000;
// … unless there was no attempt for a while: two failures far apart do not show that it was down in between.
const MAX_GAP_MS = 36 * 3_600_000;
// The time of a webhook's last failure is written at most this often.
const FAILURE_GRAIN_MS = 60_000;

/**
 * Records the outcomes of messages of all webhooks in batches. An acceptance is a fact: it is recorded
 * immediately, whichever worker holds the lease. Disables webhooks that are gone or have failed for days.
 */
export class MessageRecorder {
  readonly #writer: OutcomeWriter<WebhookReport>;

  constructor({
    db,
    clock,
    log,
    onRecorded,
    onUnblocked,
  }: {
    db: Database;
    clock: Clock;
    log: Logger;
    /** Called when jobs have ended, so that more events of their webhooks can be queued. */
    onRecorded: () => void;
    /** Called when sending may continue. */
    onUnblocked: () => void;
  }) {
    this.#writer = new OutcomeWriter({
      async commit(reports) {
        const finished = reports.flatMap((report) => ('finished' in report ? [report.finished] : []));
        const accepted = reports.flatMap((report) => ('accepted' in report ? [report.accepted] : []));
        const outcomes = await db.transaction((tx) => write(tx, accepted, finished, clock.now()));
        for (const { state } of outcomes) webhookMessages.inc({ outcome: state });
        if (finished.length > 0) onRecorded();
      },
      maxReports: MAX_REPORTS,
      log,
      onUnblocked,
    });
  }

  /** While true, nothing may be sent: see OutcomeWriter. */
  get isBlocked(): boolean {
    return this.#writer.isBlocked;
  }

  /** Resolves when the report is committed. */
  report(report: WebhookReport): Promise<void> {
    return this.#writer.report(report);
  }

  close(): void {
    this.#writer.close();
  }
}

async function write(
  tx: Queryable,
  accepted: readonly MessageOutcome[],
  finished: readonly FinishedJob[],
  nowMs: number,
): Promise<readonly MessageOutcome[]> {
  const ended = await completeHeld(tx, finished);
  const held = finished.filter(({ jobId }) => ended.has(jobId));
  await enqueue(
    tx,
    held.flatMap(({ retries }) => retries),
  );
  const outcomes = [...accepted, ...held.flatMap((job) => job.outcomes)];
  await upsert(tx, outcomes);
  const disabled = await updateHealthOf(tx, outcomes, nowMs);
  await recordEvents(
    tx,
    disabled.map(({ id, project_id: projectId, reason }) => ({
      projectId,
      type: 'webhook.disabled',
      details: { level: 'error', log: reason, context: { webhook_id: id } },
    })),
  );
  return outcomes;
}

/** Writes one row for each message. Of one that was sent twice at the same time, the last outcome counts. */
async function upsert(tx: Queryable, outcomes: readonly MessageOutcome[]): Promise<void> {
  const nameOf = ({ webhookId, id }: MessageOutcome) => webhookId + id;
  const known = new Map(outcomes.filter(({ type }) => type !== null).map((one) => [nameOf(one), one]));
  const purged = outcomes.filter(({ type }) => type === null);
  const [replays = [], messages = []] = [true, false].map((isReplay) =>
    [...known.values()].filter(({ replay }) => replay === isReplay),
  );
  await lockMessages(tx, [messages, replays, purged]);
  for (const rows of [messages, replays]) {
    if (rows.length === 0) continue;
    await tx.query(rows === replays ? upsertReplays : upsertMessages, [
      uuidArray(rows.map((row) => row.webhookId)),
      uuidArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.type)),
      textArray(rows.map((row) => row.state)),
      rows.map((row) => row.attempts),
      rows.map((row) => row.attempt?.status ?? null),
      textArray(rows.map((row) => row.reason)),
      rows.map((row) => row.attempt?.durationMs ?? null),
      rows.map((row) => (row.attempt === undefined ? null : new Date(row.attempt.atMs))),
      rows.map((row) => (row.nextAttemptMs === null ? null : new Date(row.nextAttemptMs))),
    ]);
  }
  if (purged.length > 0) {
    await tx.query(failMessages, [
      uuidArray(purged.map(({ webhookId }) => webhookId)),
      uuidArray(purged.map(({ id }) => id)),
      textArray(purged.map(({ reason }) => reason)),
    ]);
  }
}

/** Locks messages that several statements change: each of them locks its own in order, not those of all. */
async function lockMessages(tx: Queryable, parts: readonly (readonly MessageOutcome[])[]): Promise<void> {
  if (parts.filter(({ length }) => length > 0).length < 2) return;
  const all = parts.flat();
  await tx.query(selectForUpdate, [
    uuidArray(all.map(({ webhookId }) => webhookId)),
    uuidArray(all.map(({ id }) => id)),
  ]);
}

interface Disabled {
  id: string;
  project_id: string;
  reason: string;
}

/** Updates since when webhooks have been failing, and returns those that were disabled. */
async function updateHealthOf(
  tx: Queryable,
  outcomes: readonly MessageOutcome[],
  nowMs: number,
): Promise<readonly Disabled[]> {
  const tried = Map.groupBy(
    outcomes.filter(({ attempt }) => attempt !== undefined),
    ({ webhookId }) => webhookId,
  );
  if (tried.size === 0) return [];
  const all = [...tried.values()];
  const rows = await tx.query<Omit<Disabled, 'reason'> & { reason: string | null }>(updateHealth, [
    uuidArray([...tried.keys()]),
    all.map((of) => of.some(({ attempt }) => attempt?.accepted)),
    all.map((of) => of.some(({ attempt }) => attempt?.gone)),
    new Date(nowMs),
    new Date(nowMs - DISABLED_AFTER_MS),
    new Date(nowMs - MAX_GAP_MS),
    new Date(nowMs - FAILURE_GRAIN_MS),
  ]);
  return rows.flatMap(({ reason, ...row }) => (reason === null ? [] : [{ ...row, reason }]));
}

// Primary key.
const selectForUpdate = sql(
  'lock_webhook_messages',
  `select count(*)
  from (
    select m.webhook_id
    from (
      select * from unnest($1::uuid[], $2::uuid[]) as l (webhook_id, id) order by webhook_id, id
    ) l
    cross join lateral (
      select webhook_id from webhook_messages m where m.webhook_id = l.webhook_id and m.id = l.id for update
    ) m
  ) locked`,
);
// Primary key (webhook_id, id), and written in its order, so that two servers cannot deadlock.
const UPSERT = `insert into webhook_messages as m (
    webhook_id, id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at
  )
  select * from unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::int[], $7::text[], $8::int[],
    $9::timestamptz[], $10::timestamptz[]
  ) as o (
    webhook_id, id, type, state, attempts, status, reason, duration_ms, last_attempt_at, next_attempt_at
  )
  order by webhook_id, id
  on conflict (webhook_id, id) do update
  set state = excluded.state, attempts = excluded.attempts, status = excluded.status,
    reason = excluded.reason, duration_ms = excluded.duration_ms,
    last_attempt_at = coalesce(excluded.last_attempt_at, m.last_attempt_at),
    next_attempt_at = excluded.next_attempt_at`;
// An acceptance is final, whatever another run of the job reports later.
const upsertMessages = sql(
  'record_webhook_messages',
  `${UPSERT} where m.state <> 'sent' or excluded.state = 'sent'`,
);
const upsertReplays = sql('record_webhook_replays', UPSERT);
// Primary key. Adds no row for an event that was purged.
const failMessages = sql(
  'fail_webhook_messages',
  `with gone as (
    select m.webhook_id, m.id, purged.reason
    from (
      select *
      from unnest($1::uuid[], $2::uuid[], $3::text[]) as purged (webhook_id, id, reason)
      order by webhook_id, id
    ) purged
    cross join lateral (
      select webhook_id, id
      from webhook_messages m
      where m.webhook_id = purged.webhook_id and m.id = purged.id and m.state = 'retrying'
      for update
    ) m
  )
  update webhook_messages m
  set state = 'failed', reason = gone.reason, next_attempt_at = null
  from gone
  where m.webhook_id = any ($1::uuid[]) and m.webhook_id = gone.webhook_id and m.id = gone.id`,
);
// Primary key. Runs with every batch, so it neither writes nor locks a webhook that is healthy and stays so.
// Returns a reason if this update disables the webhook.
const updateHealth = sql(
  'note_webhook_health',
  `with tried as (
    select * from unnest($1::uuid[], $2::bool[], $3::bool[]) as t (id, accepted, gone)
  ),
  changed as (
    select w.id, disabled_at, accepted, gone,
      case
        when accepted then null
        when failing_since is null or last_failure_at < $6 then $4::timestamptz
        else failing_since
      end as failing_since,
      case when accepted then last_failure_at else $4::timestamptz end as last_failure_at
    from tried
    join webhooks w on w.id = tried.id
    where gone
      or (accepted and failing_since is not null)
      or (not accepted and (failing_since is null or last_failure_at < $7 or failing_since <= $5))
    order by w.id
    for update of w
  ),
  decided as (
    select *,
      case
        when disabled_at is not null then null
        when gone then 'It responded with 410 Gone'
        when not accepted and failing_since <= $5 then 'It has not accepted anything for 5 days'
      end as reason
    from changed
  )
  update webhooks w
  set failing_since = d.failing_since, last_failure_at = d.last_failure_at,
    disabled_at = case when d.reason is null then w.disabled_at else $4 end,
    disabled_reason = coalesce(d.reason, w.disabled_reason)
  from decided d
  where w.id = d.id
  returning w.id, w.project_id, d.reason`,
);

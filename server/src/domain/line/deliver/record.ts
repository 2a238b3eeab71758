import type { EventType } from '../../../contract/event.ts';
import { textArray, uuidArray } from '../../../db/arrays.ts';
import { type Database, type Queryable, sql } from '../../../db/client.ts';
import type { Logger } from '../../../lib/log.ts';
import { deliveries } from '../../../metrics.ts';
import { completeHeld } from '../../../queue/complete.ts';
import { enqueue } from '../../../queue/enqueue.ts';
import { OutcomeWriter } from '../../../queue/outcome-writer.ts';
import { type EventDetails, type NewEvent, recordEvents } from '../../ground/events/record.ts';
import type { AddressKeys } from '../../ground/suppressions/address-keys.ts';
import { type NewSuppression, suppressAddresses } from '../../ground/suppressions/suppress.ts';
import { countDown, type Tally } from '../ledger/finish.ts';
import { removeMarks, type TextRef } from '../sending/text-marks.ts';
import type { DeliveryOutcome, FinishedJob, TargetCounts } from './delivery.ts';
import { receiptJobs } from './follow-up-jobs.ts';

/** The outcome of a delivery, the end of a job, or both. */
type Report = { outcome?: DeliveryOutcome | undefined; finished?: FinishedJob };

// Written at once if nothing was written in the last 50 ms, otherwise every 50 ms or 500 results: a crash
// repeats only what was sent since the last write.
const EVERY_MS = 50;
const MAX_REPORTS = 500;

/**
 * Records the outcomes of deliveries and the ends of their jobs, in batches. An outcome is a fact and is
 * written even if the worker has lost its lease; a final one is never overwritten. That makes the count of
 * final outcomes exact whatever is repeated. The job itself ends only under the lease that it was claimed
 * with.
 */
export type OutcomeRecorder = OutcomeWriter<Report>;

export function createOutcomeRecorder({
  db,
  addressKeys,
  log,
  onUnblocked = () => {},
}: {
  db: Database;
  addressKeys: AddressKeys;
  log: Logger;
  /** Called when deliveries may be sent after a block. */
  onUnblocked?: () => void;
}): OutcomeRecorder {
  return new OutcomeWriter({
    async commit(reports, isRepeat) {
      const outcomes = reports.flatMap(({ outcome }) => outcome ?? []);
      const finished = reports.flatMap((report) => report.finished ?? []);
      const written = await db.transaction((tx) =>
        writeOutcomes({ tx, addressKeys, isRepeat }, outcomes, finished),
      );
      for (const { channel, state } of written) deliveries.inc({ channel, outcome: state });
    },
    everyMs: EVERY_MS,
    maxReports: MAX_REPORTS,
    log,
    onUnblocked,
  });
}

/**
 * Writes outcomes of deliveries and the ends of their jobs in the caller's transaction. Returns the outcomes
 * that changed a delivery. `isRepeat`: they were written before, and may have been committed.
 */
export async function writeOutcomes(
  { tx, addressKeys, isRepeat }: { tx: Queryable; addressKeys: AddressKeys; isRepeat: boolean },
  reported: readonly DeliveryOutcome[],
  finished: readonly FinishedJob[],
): Promise<readonly DeliveryOutcome[]> {
  const outcomes = onePerDelivery(reported);
  const first = outcomes.filter(({ continues }) => !continues);
  const further = outcomes.filter(({ continues }) => continues);
  // The jobs, the deliveries, the suppressions, the broadcasts: the order of locks.
  const held = await endJobs(tx, finished);
  await lockDeliveries(tx, [first, further, marksOf(finished)]);
  const changed = new Set([...(await upsert(tx, first)), ...(await updateSent(tx, further))]);
  const written = outcomes.filter((one) => changed.has(nameOf(one.notificationId, one.channel)));
  // Each attempt removes its own mark, even if two workers report the same delivery. A repeat removes only
  // marks of outcomes that changed a delivery: a mark removed twice is another attempt's, and the text
  // message would be sent a third time.
  const unusedMarks = [
    ...(isRepeat ? written : reported).filter(({ hasUnusedMark }) => hasUnusedMark),
    ...marksOf(isRepeat ? held : finished),
  ];
  if (unusedMarks.length > 0) await removeMarks(tx, unusedMarks);
  await recordEvents(tx, eventsOf(written));
  // Not with the end of the job: a repeat after a crash finds the outcome, and would never enqueue the poll.
  const accepted = written.flatMap((one) => one.accepted ?? []);
  if (accepted.length > 0) await enqueue(tx, receiptJobs(accepted));
  const suppressions = reported.flatMap(suppressionsOf);
  if (suppressions.length > 0) await suppressAddresses({ db: tx, addressKeys }, suppressions);
  await enqueue(
    tx,
    held.flatMap(({ retries, polls = [] }) => [...retries, ...polls]),
  );
  await recordEvents(
    tx,
    held.flatMap(({ events = [] }) => events),
  );
  await countDown(tx, talliesOf(written, held));
  return written;
}

function marksOf(finished: readonly FinishedJob[]): TextRef[] {
  return finished.flatMap(({ unusedMarks = [] }) => unusedMarks);
}

/** Locks deliveries that several statements change: each of them locks its own in order, not those of all. */
async function lockDeliveries(tx: Queryable, parts: readonly (readonly TextRef[])[]): Promise<void> {
  if (parts.filter(({ length }) => length > 0).length < 2) return;
  const all = parts.flat();
  await tx.query(selectForUpdate, [
    uuidArray(all.map(({ userId }) => userId)),
    uuidArray(all.map(({ notificationId }) => notificationId)),
    textArray(all.map(({ channel }) => channel)),
  ]);
}

/**
 * One statement can change a row once. If a delivery is reported twice, by a worker that lost its lease and
 * by the one that has it, the first final outcome counts: otherwise a retry without a job could replace a
 * final state. Outcomes from before a replay do not count.
 */
function onePerDelivery(outcomes: readonly DeliveryOutcome[]): DeliveryOutcome[] {
  const chosen = new Map<string, DeliveryOutcome>();
  for (const outcome of outcomes) {
    const name = nameOf(outcome.notificationId, outcome.channel);
    const before = chosen.get(name);
    const [since = 0, now = 0] = [before?.replay, outcome.replay];
    if (before === undefined || now > since || (now === since && before.state === 'retrying'))
      chosen.set(name, outcome);
  }
  return [...chosen.values()];
}

const nameOf = (notificationId: string, channel: string) => `${notificationId}${channel}`;

/** The changes to the counters of broadcasts. */
function talliesOf(
  written: readonly DeliveryOutcome[],
  ended: readonly FinishedJob[],
): ReadonlyMap<string, Tally> {
  const tallies = new Map<string, { ended: number; attempted: number; failed: DeliveryOutcome[] }>();
  const tallyOf = (broadcastId: string) => {
    const tally = tallies.get(broadcastId) ?? { ended: 0, attempted: 0, failed: [] };
    tallies.set(broadcastId, tally);
    return tally;
  };
  for (const outcome of written) {
    if (outcome.state === 'retrying' || outcome.continues) continue;
    const tally = tallyOf(outcome.broadcastId);
    tally.ended += 1;
    if (outcome.awaited) tally.attempted += 1;
    if (outcome.state === 'failed') tally.failed.push(outcome);
  }
  for (const { deferred } of ended)
    if (deferred !== undefined) tallyOf(deferred.broadcastId).attempted += deferred.deliveries;
  return tallies;
}

function suppressionsOf({ projectId, userId, provider, rejected = [] }: DeliveryOutcome): NewSuppression[] {
  return rejected.map(({ kind, address, reason }) => ({
    projectId,
    kind,
    address,
    reason: 'rejected',
    detail: reason,
    provider,
    userId,
  }));
}

/** Writes the outcomes. Returns the names of the deliveries that changed. */
async function upsert(tx: Queryable, rows: readonly DeliveryOutcome[]): Promise<Set<string>> {
  if (rows.length === 0) return new Set();
  const changed = await tx.query<{ notification_id: string; channel: string }>(upsertDeliveries, [
    uuidArray(rows.map((row) => row.userId)),
    uuidArray(rows.map((row) => row.notificationId)),
    textArray(rows.map((row) => row.channel)),
    uuidArray(rows.map((row) => row.broadcastId)),
    textArray(rows.map((row) => row.state)),
    textArray(rows.map((row) => String(row.attempts))),
    textArray(rows.map((row) => row.integrationId)),
    textArray(rows.map((row) => row.provider)),
    textArray(rows.map((row) => row.providerId)),
    textArray(rows.map((row) => row.code)),
    textArray(rows.map((row) => row.reason)),
    textArray(rows.map((row) => new Date(row.firstAttemptMs).toISOString())),
    textArray(rows.map((row) => row.targets && JSON.stringify(row.targets))),
    rows.map((row) => row.replay ?? 0),
    uuidArray([...new Set(rows.map((row) => row.broadcastId))]),
    textArray(rows.map((row) => row.progress && JSON.stringify(row.progress))),
  ]);
  return new Set(changed.map((row) => nameOf(row.notification_id, row.channel)));
}

/**
 * Writes the outcomes of further targets of deliveries that are `sent`. Returns the names of those that
 * changed.
 */
async function updateSent(tx: Queryable, rows: readonly DeliveryOutcome[]): Promise<Set<string>> {
  if (rows.length === 0) return new Set();
  const changed = await tx.query<{ notification_id: string; channel: string }>(updateSentDeliveries, [
    uuidArray(rows.map((row) => row.userId)),
    uuidArray(rows.map((row) => row.notificationId)),
    textArray(rows.map((row) => row.channel)),
    rows.map((row) => row.replay ?? 0),
    rows.map((row) => row.attempts),
    textArray(rows.map((row) => row.targets && JSON.stringify(row.targets))),
    textArray(rows.map((row) => row.progress && JSON.stringify(row.progress))),
  ]);
  return new Set(changed.map((row) => nameOf(row.notification_id, row.channel)));
}

/**
 * Ends the jobs that are still leased, and returns them. A job may be ended twice under one lease: by a run
 * that still went on when the worker claimed the job once more, and by the run of that claim. The first one
 * counts.
 */
async function endJobs(tx: Queryable, finished: readonly FinishedJob[]): Promise<readonly FinishedJob[]> {
  const ended = new Set(await completeHeld(tx, finished));
  return finished.filter(({ jobId }) => ended.delete(jobId));
}

const EVENT_TYPES = {
  sent: 'delivery.sent',
  failed: 'delivery.failed',
  skipped: 'delivery.skipped',
  retrying: 'delivery.retried',
} as const;

/** A delivery is `sent` once. The outcomes of its further targets are retries. */
function typeOf({ state, continues }: DeliveryOutcome): EventType {
  return continues ? 'delivery.retried' : EVENT_TYPES[state];
}

function eventsOf(outcomes: readonly DeliveryOutcome[]): NewEvent[] {
  const events: NewEvent[] = [];
  for (const group of Map.groupBy(outcomes, (one) => `${one.broadcastId}${typeOf(one)}`).values()) {
    const [first] = group;
    if (first === undefined) continue;
    events.push({
      projectId: first.projectId,
      type: typeOf(first),
      broadcastId: first.broadcastId,
      userIds: group.map((one) => one.userId),
      details: group.map(detailsOf),
    });
  }
  return events;
}

/** The user and the notification are added when the event is read (events/expand.ts). */
function detailsOf(outcome: DeliveryOutcome): EventDetails {
  const { channel, provider, attempts, durationMs, targets } = outcome;
  return {
    ...(outcome.code === null ? {} : { code: outcome.code }),
    ...(outcome.reason === null ? {} : { log: outcome.reason }),
    level: outcome.state === 'failed' ? 'error' : outcome.state === 'retrying' ? 'warn' : 'info',
    context: {
      channel,
      ...(provider === null ? {} : { provider }),
      attempt: attempts,
      duration_ms: durationMs,
    },
    ...(targets === undefined ? {} : { payload: countsWithoutIds(targets) }),
  };
}

/** The providers' ids of the messages identify the recipient, and events outlive users. */
function countsWithoutIds({ accepted, gone, failed }: TargetCounts): Record<string, number> {
  return { accepted, gone, failed };
}

// Primary key.
const selectForUpdate = sql(
  'lock_deliveries',
  `select count(*)
  from (
    select d.user_id
    from (
      select *
      from unnest($1::uuid[], $2::uuid[], $3::text[]) as l (user_id, notification_id, channel)
      order by user_id, notification_id, channel
    ) l
    cross join lateral (
      select user_id
      from deliveries d
      where d.user_id = l.user_id and d.notification_id = l.notification_id and d.channel = l.channel
      for update
    ) d
  ) locked`,
);
// Primary key (user_id, notification_id, channel). A final state is never overwritten, the same attempt is
// not written twice, and outcomes from before a replay are ignored. Only changed rows are returned, so that
// each state has one event and each end is counted once, however often it is reported. If no integration was
// tried this time, the last one is kept. Nothing is written for a broadcast that was deleted meanwhile: its
// deliveries were deleted with it, and these would stay for ever (primary key of broadcasts).
const upsertDeliveries = sql(
  'record_outcomes',
  `with existing as materialized (
      select id from broadcasts where id = any ($15::uuid[])
    )
    insert into deliveries as d (
      user_id, notification_id, channel, broadcast_id, state, attempts, integration_id, provider, provider_id,
      code, reason, first_attempt_at, last_attempt_at, targets, replays, progress
    )
    select user_id, notification_id, channel, broadcast_id, state, attempts, integration_id, provider,
      provider_id, code, reason, first_attempt_at, now(), targets::json, replay, progress::json
    from unnest(
      $1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::int[], $7::uuid[], $8::text[],
      $9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::text[], $14::int[], $16::text[]
    ) as o (
      user_id, notification_id, channel, broadcast_id, state, attempts, integration_id, provider, provider_id,
      code, reason, first_attempt_at, targets, replay, progress
    )
    where broadcast_id in (select id from existing)
    order by user_id, notification_id, channel
    on conflict (user_id, notification_id, channel) do update
      set state = excluded.state, attempts = excluded.attempts,
        integration_id = coalesce(excluded.integration_id, d.integration_id),
        provider = coalesce(excluded.provider, d.provider),
        provider_id = excluded.provider_id, code = excluded.code, reason = excluded.reason,
        last_attempt_at = excluded.last_attempt_at, targets = excluded.targets, progress = excluded.progress
      where d.state = 'retrying' and d.replays = excluded.replays
        and (excluded.state <> 'retrying' or excluded.attempts > d.attempts)
  returning d.notification_id, d.channel`,
);
// Primary key. Only while targets remain. The same attempt is written once, unless no target remains after
// it.
const updateSentDeliveries = sql(
  'record_further_targets',
  `with o as materialized (
    select d.user_id, d.notification_id, d.channel, given.attempts, given.targets, given.progress
    from (
      select *
      from unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::int[], $6::text[], $7::text[])
        as given (user_id, notification_id, channel, replay, attempts, targets, progress)
      order by user_id, notification_id, channel
    ) given
    cross join lateral (
      select user_id, notification_id, channel
      from deliveries d
      where d.user_id = given.user_id and d.notification_id = given.notification_id
        and d.channel = given.channel and d.replays = given.replay
        and d.state = 'sent' and d.progress is not null
        and (given.attempts > d.attempts or given.progress is null)
      for update
    ) d
  )
  update deliveries d
  set attempts = o.attempts, targets = o.targets::json, progress = o.progress::json, last_attempt_at = now()
  from o
  where d.user_id = o.user_id and d.notification_id = o.notification_id and d.channel = o.channel
  returning d.notification_id, d.channel`,
);

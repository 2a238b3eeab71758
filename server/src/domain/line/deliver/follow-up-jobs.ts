import { chunksOf } from '../../../lib/chunks.ts';
import { pollsOf } from '../../../providers/index.ts';
import { BULK, type Job, type NewJob, type Progress } from '../../../queue/jobs.ts';
import type { NewEvent } from '../../ground/events/record.ts';
import { CLOSED_TEXTS, type Closed } from '../../setup/delivery-windows/closed-until.ts';
import type { AcceptedMessage, Concluded, FinishedJob, Remaining } from './delivery.ts';

/** A job as far as its follow-up jobs are made of it. */
type Ended = Pick<Job<'deliver'>, 'projectId' | 'priority' | 'weight' | 'payload'>;

// Deliveries that are deferred to the same second are one job.
const DEFERRAL_GRAIN_MS = 1_000;
// Deliveries that wait for an opening are spread over the minutes after it. No window is shorter than twice
// that.
const SPREAD_MS = 300_000;

/**
 * What is done later for the deliveries that a job leaves to be done. Due now if its broadcast is cancelled:
 * the deliveries are then skipped.
 */
export function followUps(
  job: Ended,
  left: readonly Concluded[],
  { nowMs, isCancelled }: { nowMs: number; isCancelled: boolean },
): Pick<FinishedJob, 'retries' | 'polls' | 'events' | 'unusedMarks'> {
  const remaining = left.flatMap(({ delivery, remaining: one }) =>
    one === undefined ? [] : [{ userId: delivery.userId, ...one }],
  );
  const openings = new Map(
    left.flatMap(({ delivery, closed }) =>
      closed === undefined ? [] : [[delivery.userId, closed] as const],
    ),
  );
  const waiting = windowJobs(job, openings, nowMs);
  const retries = [...retryJobs(job, remaining, nowMs), ...waiting.jobs];
  return {
    retries: isCancelled ? retries.map(atOnce) : retries,
    polls: receiptJobs(left.flatMap(({ accepted = [] }) => accepted)),
    events: waiting.events,
    unusedMarks: left.flatMap(({ unusedMark }) => unusedMark ?? []),
  };
}

function atOnce({ dueAtMs: _later, ...job }: NewJob<'deliver'>): NewJob<'deliver'> {
  return job;
}

/**
 * The jobs that do what a job leaves to be done: one for all deliveries that are due at the same time after
 * as many attempts, and wait for the same. Pure.
 */
export function retryJobs(
  job: Ended,
  remaining: readonly (Remaining & { userId: string })[],
  nowMs: number,
): NewJob<'deliver'>[] {
  const {
    progress: _done,
    awaited: _now,
    closed: _open,
    waits_for: _waited,
    woken: _early,
    user_ids: all,
    ...payload
  } = job.payload;
  const due = remaining.map((one) => dueOf(one, nowMs));
  const groups = Map.groupBy(due, ({ attempt, dueAtMs, waitsFor }) => `${attempt} ${dueAtMs} ${waitsFor}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const progress = Object.fromEntries(group.map((one) => [one.userId, one.progress]));
    return {
      kind: 'deliver',
      projectId: job.projectId,
      priority: job.priority,
      weight: job.weight - all.length + group.length,
      dueAtMs: first.dueAtMs,
      payload: {
        ...payload,
        // Later only if the clock was ahead then: its time to live would be as much longer.
        first_attempt_ms: Math.min(payload.first_attempt_ms, nowMs),
        user_ids: group.map(({ userId }) => userId),
        attempt: first.attempt,
        back: 'begun',
        waits_for: first.waitsFor,
        // The address or the numbers are those that the user has when the job is due.
        ...(payload.channel === 'email' || payload.channel === 'sms' ? {} : { progress }),
      },
    };
  });
}

function dueOf({ userId, attempt, left, ...counts }: Remaining & { userId: string }, nowMs: number) {
  const times = Object.fromEntries(
    Object.entries(left).map(([id, due]) => [
      id,
      'delayMs' in due ? nowMs + due.delayMs : Math.ceil(due.atMs / DEFERRAL_GRAIN_MS) * DEFERRAL_GRAIN_MS,
    ]),
  );
  const progress: Progress = { left: times, ...counts };
  const [waitsFor] = Object.values(left).flatMap((due) => ('atMs' in due ? (due.waitsFor ?? []) : []));
  return { userId, attempt, dueAtMs: Math.min(...Object.values(times)), waitsFor, progress };
}

/**
 * The jobs for the deliveries that wait for a window or for the end of quiet hours, and their events: one for
 * all that wait for the same opening, due some time after it. Their time to live begins then. For deliveries
 * that were attempted before it continues then: otherwise they would be deferred from night to night without
 * end. Pure, apart from `random`.
 */
export function windowJobs(
  { projectId, priority, weight, payload }: Ended,
  /** By user. */
  openings: ReadonlyMap<string, Closed>,
  nowMs: number,
  random: () => number = Math.random,
): { jobs: NewJob<'deliver'>[]; events: NewEvent[] } {
  const jobs: NewJob<'deliver'>[] = [];
  const events: NewEvent[] = [];
  const {
    user_ids: all,
    progress,
    broadcast_id: broadcastId,
    channel,
    back = 'waited',
    traceparent,
  } = payload;
  const groups = Map.groupBy(openings, ([, { untilMs, code }]) => `${untilMs} ${code}`);
  for (const group of groups.values()) {
    const [[, { untilMs, code }]] = group as [[string, Closed]];
    const userIds = group.map(([userId]) => userId);
    const dueAtMs = untilMs + Math.floor(random() * SPREAD_MS);
    const attempted = userIds.flatMap((userId) => {
      const one = progress?.[userId];
      return one === undefined ? [] : [[userId, one] as const];
    });
    jobs.push({
      kind: 'deliver',
      projectId,
      priority,
      weight: weight - all.length + userIds.length,
      dueAtMs,
      payload: {
        broadcast_id: broadcastId,
        channel,
        user_ids: userIds,
        attempt: payload.attempt,
        first_attempt_ms: back === 'begun' ? payload.first_attempt_ms + dueAtMs - nowMs : dueAtMs,
        back,
        closed: code,
        replay: payload.replay,
        traceparent,
        ...(attempted.length === 0 ? {} : { progress: Object.fromEntries(attempted) }),
      },
    });
    events.push({
      projectId,
      type: 'delivery.scheduled',
      broadcastId,
      userIds,
      details: {
        code,
        log: CLOSED_TEXTS[code],
        level: 'info',
        context: { channel },
        payload: { due_at: new Date(dueAtMs).toISOString() },
      },
    });
  }
  return { jobs, events };
}

/** The jobs that later poll for the receipts of messages. Pure. */
export function receiptJobs(accepted: readonly AcceptedMessage[]): NewJob<'poll_receipts'>[] {
  const groups = Map.groupBy(accepted, (one) => `${one.projectId} ${one.integrationId}`);
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    const polls = first && pollsOf(first.provider);
    const [afterMs] = polls?.afterMs ?? [];
    if (first === undefined || polls === undefined || afterMs === undefined) return [];
    const { projectId, integrationId, provider } = first;
    return chunksOf(group, polls.maxIds).map((part): NewJob<'poll_receipts'> => {
      // The earliest of them: a token that was saved since then is not discarded.
      const sentMs = Math.min(...part.map((one) => one.sentMs));
      return {
        kind: 'poll_receipts',
        projectId,
        priority: BULK,
        weight: part.length,
        dueAtMs: sentMs + afterMs,
        payload: {
          integration_id: integrationId,
          provider,
          sent_ms: sentMs,
          round: 0,
          failures: 0,
          sent: part.map(({ providerId: id, broadcastId, userId, tokenId }) => ({
            id,
            broadcast_id: broadcastId,
            user_id: userId,
            token_id: tokenId,
          })),
        },
      };
    });
  });
}

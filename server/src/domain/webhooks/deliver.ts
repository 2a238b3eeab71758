import type { Event, EventType } from '../../contract/event.ts';
import { sql } from '../../db/client.ts';
import { Limiter } from '../../lib/limiter.ts';
import { backoff } from '../../queue/backoff.ts';
import type { Job, NewJob } from '../../queue/jobs.ts';
import type { Handler } from '../../queue/lane.ts';
import type { Context } from '../context.ts';
import { getEvents } from '../events/get.ts';
import { type MessageOutcome, recordMessages } from './record.ts';
import { openSecrets, type SecretRow } from './secret.ts';
import { type Attempt, sendMessage } from './send.ts';

// So many requests are open to one webhook at the same time.
const CONCURRENCY = 8;
// A webhook at which so many requests failed in a row is down: the rest of the batch waits with them, so that a timeout each does not keep
// a slot for minutes.
const FAILURES_IN_A_ROW = 8;
// What has not begun by then waits for the webhook's next turn: one that takes its time over each answer would keep a slot for an hour.
const TURN_MS = 20_000;
// What could not be handed over within a day is given up; it can be replayed.
const LIFETIME_MS = 24 * 3_600_000;

/**
 * Sends the messages of webhooks. The queue takes turns over webhooks, one batch each at a time: a slow one holds up its own messages only.
 */
export function webhookHandler(context: Context): Handler<'webhook'> {
  return {
    slots: 64,
    slotsPerProject: 1,
    gatherBelow: 0,
    maxJobs: 8,
    maxWeight: 200,
    maxProjects: 1,
    run: (jobs, leaseId) => deliver(context, jobs, leaseId),
    giveUp: (job, leaseId) => giveUp(context, job, leaseId),
  };
}

type WebhookJob = Job<'webhook'>;

interface Target extends SecretRow {
  id: string;
  project_id: string;
  url: string;
  disabled_at: Date | null;
}

async function deliver(context: Context, jobs: readonly WebhookJob[], leaseId: string): Promise<void> {
  const [webhook] = await context.db.query<Target>(selectWebhook, [jobs[0]?.payload.webhook_id]);
  const held = { jobIds: jobs.map(({ id }) => id), leaseId };
  if (webhook === undefined) {
    await recordMessages(context, undefined, held, [], []);
    return;
  }
  const ids = [...new Set(jobs.flatMap(({ payload }) => payload.event_ids))];
  const events = new Map((await getEvents(context.db, webhook.project_id, ids)).map((one) => [one.id, one]));
  const send = webhook.disabled_at === null ? sender(context, webhook) : undefined;
  const done = await Promise.all(jobs.map((job) => deliverJob(context, job, events, send)));
  await recordMessages(
    context,
    { id: webhook.id, projectId: webhook.project_id },
    held,
    done.flatMap(({ outcomes }) => outcomes),
    done.flatMap(({ again }) => again),
  );
}

type Send = (event: Event) => Promise<Attempt | 'put off'>;

/** Sends to one webhook, some at a time, until too many have failed in a row or its turn is over. */
function sender(context: Context, webhook: Target): Send {
  const target = { url: webhook.url, secrets: openSecrets(context, webhook.id, webhook) };
  const limiter = new Limiter({ maxCount: CONCURRENCY, maxWeight: CONCURRENCY });
  const endMs = context.clock.now() + TURN_MS;
  let failures = 0;
  return (event) =>
    limiter.run(1, async () => {
      if (failures >= FAILURES_IN_A_ROW || context.clock.now() > endMs) return 'put off';
      const attempt = await sendMessage(context, target, event);
      if (attempt === 'put off') return attempt;
      failures = attempt.gone ? FAILURES_IN_A_ROW : attempt.accepted ? 0 : failures + 1;
      return attempt;
    });
}

/** Sends the events of a job: what became of each, and the job for those that are to be tried again. */
async function deliverJob(
  context: Context,
  job: WebhookJob,
  events: ReadonlyMap<string, Event>,
  send: Send | undefined,
): Promise<{ outcomes: MessageOutcome[]; again: NewJob<'webhook'>[] }> {
  const { payload } = job;
  const results = await Promise.all(
    payload.event_ids.map(async (id) => {
      const event = events.get(id);
      return { id, event, attempt: event && send ? await send(event) : undefined };
    }),
  );
  const nowMs = context.clock.now();
  const wishes = results.flatMap(({ attempt }) =>
    typeof attempt === 'object' && attempt.retryAfterMs !== null ? [attempt.retryAfterMs] : [],
  );
  const pause = backoff(payload.attempt + 1, wishes.length > 0 ? { retryAfterMs: Math.max(...wishes) } : {});
  // What is put off was not tried: it is not said to have been.
  const dueAtMs = nowMs + pause;
  const late = dueAtMs >= payload.since_ms + LIFETIME_MS;
  const outcomes = results.flatMap(({ id, event, attempt }) =>
    outcomeOf({ id, type: event?.type, attempt, late, sending: send !== undefined, job, dueAtMs }),
  );
  const ended = new Set(outcomes.filter(({ state }) => state !== 'retrying').map(({ id }) => id));
  const left = payload.event_ids.filter((id) => !ended.has(id));
  if (left.length === 0) return { outcomes, again: [] };
  const tried = results.some(({ attempt }) => typeof attempt === 'object');
  const next = { ...payload, event_ids: left, attempt: payload.attempt + (tried ? 1 : 0) };
  return { outcomes, again: [webhookJob(next, dueAtMs)] };
}

function outcomeOf({
  id,
  type,
  attempt,
  late,
  sending,
  job: { payload },
  dueAtMs,
}: {
  id: string;
  type: EventType | undefined;
  attempt: Attempt | 'put off' | undefined;
  late: boolean;
  sending: boolean;
  job: WebhookJob;
  dueAtMs: number;
}): MessageOutcome[] {
  const { replay = false } = payload;
  const attempts = payload.attempt;
  const untried = { id, attempts, attempt: undefined, nextAttemptMs: null, replay };
  // An event that is past its retention: nothing is known of it any more.
  if (type === undefined) return [{ ...untried, type: null, state: 'failed', reason: 'the event is gone' }];
  if (attempt === undefined || attempt === 'put off') {
    if (!sending) return [{ ...untried, type, state: 'failed', reason: 'the webhook was disabled' }];
    return late
      ? [{ ...untried, type, state: 'failed', reason: 'the webhook did not answer for a day' }]
      : [];
  }
  const state = attempt.accepted ? 'sent' : late || attempt.gone ? 'failed' : 'retrying';
  const nextAttemptMs = state === 'retrying' ? dueAtMs : null;
  return [
    { id, type, state, attempts: attempts + 1, attempt, reason: attempt.reason, nextAttemptMs, replay },
  ];
}

/** A job that sends these events to a webhook. */
export function webhookJob(payload: Job<'webhook'>['payload'], dueAtMs?: number): NewJob<'webhook'> {
  return {
    kind: 'webhook',
    // Whose turn it is: the queue takes turns over what stands here.
    projectId: payload.webhook_id,
    priority: 1,
    weight: payload.event_ids.length,
    payload,
    ...(dueAtMs === undefined ? {} : { dueAtMs }),
  };
}

async function giveUp(context: Context, job: WebhookJob, leaseId: string): Promise<void> {
  const { webhook_id: id, event_ids: ids, attempt: attempts, replay = false } = job.payload;
  const [webhook] = await context.db.query<Target>(selectWebhook, [id]);
  const outcomes = ids.map(
    (eventId): MessageOutcome => ({
      id: eventId,
      type: null,
      state: 'failed',
      attempts,
      attempt: undefined,
      reason: 'internal error',
      nextAttemptMs: null,
      replay,
    }),
  );
  await recordMessages(
    context,
    webhook && { id, projectId: webhook.project_id },
    { jobIds: [job.id], leaseId },
    outcomes,
    [],
  );
}

// Primary key.
const selectWebhook = sql(
  'webhook_to_send_to',
  `select id, project_id, url, disabled_at, sealed_secret, sealed_former_secret, former_secret_until
  from webhooks
  where id = $1 and deleted_at is null`,
);

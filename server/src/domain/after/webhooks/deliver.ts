import type { Event } from '../../../contract/event.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { allEnded } from '../../../lib/all-ended.ts';
import { CannotOpen } from '../../../lib/seal.ts';
import { isTracing, traced } from '../../../lib/tracing.ts';
import { backoff } from '../../../queue/backoff.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import type { Handler } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { Context } from '../../context.ts';
import { getEvents } from '../../ground/events/get.ts';
import { type Deferral, type Endpoint, Endpoints } from './endpoints.ts';
import { webhookJob } from './jobs.ts';
import type { MessageOutcome, MessageRecorder } from './record.ts';
import { openSecrets, type SecretRow, unreadableSecret } from './secrets.ts';
import { type Attempt, messageSender } from './send.ts';

// A batch starts no message after this time: a webhook with slow responses would keep a slot for an hour.
const BATCH_MS = 20_000;
// A message that could not be delivered within a day has failed. It can be replayed.
const LIFETIME_MS = 24 * 3_600_000;

const SLOTS = 64;
const MAX_WEIGHT = 200;
// The next batch is sent while one is recorded. They share the webhook's concurrency limit (endpoints.ts).
const BATCHES_PER_WEBHOOK = 3;

/**
 * Sends the messages of webhooks. The queue is fair over webhooks, so a slow one delays only its own
 * messages. A batch that waits for one that hangs frees its slot.
 */
export function webhookHandler(context: Context, recorder: MessageRecorder): Handler<'send_webhook'> {
  const endpoints = new Endpoints(context);
  return {
    work: 'bulk',
    slots: SLOTS,
    slotsPerPartition: BATCHES_PER_WEBHOOK,
    gatherBelow: 0,
    beyond: { maxWeight: 3 * SLOTS * MAX_WEIGHT, silentMs: 1_000, silentPerPartition: BATCHES_PER_WEBHOOK },
    maxJobs: 8,
    maxWeight: MAX_WEIGHT,
    maxPartitions: 1,
    isBlocked: () => recorder.isBlocked,
    async run(jobs, leaseId, heartbeat) {
      await deliver({ context, recorder, leaseId, heartbeat }, endpoints, jobs);
      return [];
    },
    discard: (job, leaseId, error) => discard(context, recorder, job, { leaseId, error }),
  };
}

type WebhookJob = Job<'send_webhook'>;

interface Run {
  context: Context;
  recorder: MessageRecorder;
  leaseId: string;
  /** Called after each attempt. */
  heartbeat: () => void;
}

interface Webhook extends SecretRow {
  id: string;
  project_id: string;
  url: string;
  disabled_at: Date | null;
  updated_at: Date;
}

/** The input of a batch. */
interface Batch extends Run {
  webhook: Webhook;
  events: ReadonlyMap<string, Event>;
  /** Messages that an earlier run of a job sent. */
  sent: ReadonlySet<string>;
  /** Missing if the webhook is disabled. */
  send: ((event: Event) => Promise<Attempt | Deferral>) | undefined;
}

async function deliver(run: Run, endpoints: Endpoints, jobs: readonly WebhookJob[]): Promise<void> {
  const { context, recorder, leaseId } = run;
  const [webhook] = await context.db.query<Webhook>(selectWebhook, [jobs[0]?.payload.webhook_id]);
  if (webhook === undefined) {
    await Promise.all(
      jobs.map(({ id: jobId }) =>
        recorder.report({ finished: { jobId, leaseId, outcomes: [], retries: [] } }),
      ),
    );
    return;
  }
  const ids = [...new Set(jobs.flatMap(({ payload }) => payload.event_ids))];
  const [found, sent] = await Promise.all([
    getEvents(context.db, webhook.project_id, ids),
    loadSent(context.db, webhook.id, jobs),
  ]);
  const events = new Map(found.map((event) => [event.id, event]));
  const send = webhook.disabled_at === null ? sender(run, webhook, endpoints.of(webhook)) : undefined;
  const batch = { ...run, webhook, events, sent, send };
  await allEnded(jobs.map((job) => deliverJob(batch, job)));
}

/** Returns a function that sends an event to the webhook, or defers it if the webhook is down. */
function sender({ context, recorder }: Run, webhook: Webhook, endpoint: Endpoint): Batch['send'] {
  const secrets = secretsOf(context, webhook);
  if ('unreadable' in secrets) return async () => unsigned(secrets.unreadable, context.clock.now());
  const send = messageSender(context, { url: webhook.url, secrets });
  const endMs = context.clock.now() + BATCH_MS;
  const mayStart = () => context.clock.now() <= endMs && !recorder.isBlocked;
  const sendOne = isTracing() ? (event: Event) => sendTraced(webhook, send, event) : send;
  return (event) => endpoint.send(() => sendOne(event), mayStart);
}

/** Sends a message as a trace of its own: an event has many causes, and comes minutes later. */
function sendTraced(
  { id, project_id: projectId }: Webhook,
  send: ReturnType<typeof messageSender>,
  event: Event,
): ReturnType<ReturnType<typeof messageSender>> {
  const attributes = {
    'belfry.project.id': projectId,
    'belfry.webhook.id': id,
    'belfry.event.id': event.id,
    'belfry.event.type': event.type,
  };
  return traced('send webhook', { attributes }, async (span) => {
    const attempt = await send(event);
    if (attempt === 'interrupted') span?.fail(attempt);
    else if (!attempt.accepted) span?.fail(String(attempt.status ?? 'unreachable'));
    return attempt;
  });
}

/** The secrets that sign messages, or why they cannot be read. */
function secretsOf(context: Context, webhook: Webhook): string[] | { unreadable: string } {
  try {
    return openSecrets(context, webhook.id, webhook);
  } catch (error) {
    if (error instanceof CannotOpen) return { unreadable: unreadableSecret(error.keyId) };
    throw error;
  }
}

/** An attempt that ended before the request: later this server, or another one, may have the key. */
function unsigned(reason: string, atMs: number): Attempt {
  return { accepted: false, gone: false, status: null, reason, retryAfterMs: null, durationMs: 0, atMs };
}

type Result = { id: string; event: Event | undefined; attempt: Attempt | Deferral | undefined };

/** Sends the events of a job and records the outcomes. Writes a job for those that are retried. */
async function deliverJob(batch: Batch, job: WebhookJob): Promise<void> {
  const { context, recorder, leaseId, sent, events, send, heartbeat } = batch;
  const { payload } = job;
  const results: Result[] = [];
  const one = async (id: string) => {
    const event = events.get(id);
    const attempt = event && (await send?.(event));
    heartbeat();
    if (event !== undefined && attempt !== undefined && 'accepted' in attempt && attempt.accepted)
      await recorder.report({ accepted: acceptedOf(batch, job, event, attempt) });
    else results.push({ id, event, attempt });
  };
  await allEnded(payload.event_ids.filter((id) => !sent.has(id)).map(one));
  const dueAtMs = dueAt(job, results, context.clock.now());
  const late = dueAtMs >= payload.since_ms + LIFETIME_MS;
  const outcomes = results.flatMap((result) => outcomeOf(batch, job, result, { late, dueAtMs }));
  const ended = new Set(outcomes.filter(({ state }) => state !== 'retrying').map(({ id }) => id));
  const left = results.map(({ id }) => id).filter((id) => !ended.has(id));
  const tried = results.some(({ attempt }) => attempt !== undefined && 'accepted' in attempt);
  const next = { ...payload, event_ids: left, attempt: payload.attempt + (tried ? 1 : 0) };
  const retries = left.length === 0 ? [] : [webhookJob(batch.webhook.project_id, next, dueAtMs)];
  await recorder.report({ finished: { jobId: job.id, leaseId, outcomes, retries } });
}

/** When the rest of a job is retried: after a backoff, and not before the webhook may get messages. */
function dueAt({ payload }: WebhookJob, results: readonly Result[], nowMs: number): number {
  const attempts = results.flatMap(({ attempt }) => attempt ?? []);
  const retryAfter = attempts.flatMap((one) =>
    'accepted' in one && one.retryAfterMs !== null ? [one.retryAfterMs] : [],
  );
  const deferred = attempts.flatMap((one) => ('deferredUntilMs' in one ? [one.deferredUntilMs] : []));
  if (attempts.length > 0 && deferred.length === attempts.length) return Math.max(...deferred);
  const pauseMs = backoff(
    payload.attempt + 1,
    retryAfter.length > 0 ? { retryAfterMs: Math.max(...retryAfter) } : {},
  );
  return Math.max(nowMs + pauseMs, ...deferred);
}

function acceptedOf(
  { webhook }: Batch,
  { payload }: WebhookJob,
  event: Event,
  attempt: Attempt,
): MessageOutcome {
  return {
    ...{ webhookId: webhook.id, projectId: webhook.project_id, id: event.id, type: event.type },
    ...{ state: 'sent', attempts: payload.attempt + 1, attempt, reason: null, nextAttemptMs: null },
    replay: payload.replay ?? false,
  };
}

const EXPIRED = 'expired: not delivered within a day, because the webhook failed or did not respond';

/** The outcome of a message that was not accepted; none if it was deferred and has not expired. */
function outcomeOf(
  { webhook, send }: Batch,
  { payload }: WebhookJob,
  { id, event, attempt }: Result,
  { late, dueAtMs }: { late: boolean; dueAtMs: number },
): MessageOutcome[] {
  const { attempt: attempts, replay = false } = payload;
  const of = { webhookId: webhook.id, projectId: webhook.project_id, id, replay };
  const untried = { ...of, attempts, attempt: undefined, nextAttemptMs: null };
  // The event was purged after its retention.
  if (event === undefined) return [{ ...untried, type: null, state: 'failed', reason: 'the event is gone' }];
  const { type } = event;
  if (send === undefined) return [{ ...untried, type, state: 'failed', reason: 'the webhook was disabled' }];
  if (attempt === undefined || 'deferredUntilMs' in attempt)
    return late ? [{ ...untried, type, state: 'failed', reason: EXPIRED }] : [];
  const state = late || attempt.gone ? 'failed' : 'retrying';
  const nextAttemptMs = state === 'retrying' ? dueAtMs : null;
  return [{ ...of, type, state, attempts: attempts + 1, attempt, reason: attempt.reason, nextAttemptMs }];
}

/** The messages that an earlier run of these jobs sent: it crashed, or its worker lost the lease. */
async function loadSent(db: Queryable, webhookId: string, jobs: readonly WebhookJob[]): Promise<Set<string>> {
  const started = jobs.filter(({ attempt }) => attempt > 1);
  if (started.length === 0) return new Set();
  const wanted = started.flatMap(({ payload: { event_ids, since_ms, replay = false } }) =>
    event_ids.map((id) => ({ id, since: replay ? new Date(since_ms) : null })),
  );
  const rows = await db.query<{ id: string }>(selectSent, [
    webhookId,
    uuidArray(wanted.map(({ id }) => id)),
    wanted.map(({ since }) => since),
  ]);
  return new Set(rows.map(({ id }) => id));
}

async function discard(
  { db }: Context,
  recorder: MessageRecorder,
  job: WebhookJob,
  { leaseId, error }: { leaseId: string; error: unknown },
): Promise<void> {
  const reason = `${discardReason(job, error)}. Replay the message when that is corrected`;
  const { webhook_id: webhookId, event_ids: ids, attempt: attempts, replay = false } = job.payload;
  const [webhook] = await db.query<Webhook>(selectWebhook, [webhookId]);
  const outcomes = ids.map(
    (id): MessageOutcome => ({
      ...{ webhookId, projectId: webhook?.project_id ?? '', id, type: null, state: 'failed', attempts },
      ...{ attempt: undefined, reason, nextAttemptMs: null, replay },
    }),
  );
  await recorder.report({ finished: { jobId: job.id, leaseId, outcomes, retries: [] } });
}

// Primary key.
const selectWebhook = sql(
  'webhook_to_send_to',
  `select id, project_id, url, disabled_at, updated_at, sealed_secret, sealed_former_secret,
    former_secret_until
  from webhooks
  where id = $1 and deleted_at is null`,
);
// Primary key (webhook_id, id). A replay counts only what was sent after it was requested.
const selectSent = sql(
  'webhook_messages_sent',
  `select m.id
  from unnest($2::uuid[], $3::timestamptz[]) as wanted (id, since)
  cross join lateral (
    select id, last_attempt_at
    from webhook_messages
    where webhook_id = $1 and id = wanted.id and state = 'sent'
    limit 1
  ) m
  where wanted.since is null or m.last_attempt_at >= wanted.since`,
);

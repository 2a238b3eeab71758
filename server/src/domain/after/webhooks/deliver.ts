import type { Event } from '../../../contract/event.ts';
import { uuidArray } from '../../../db/arrays.ts';
import { type Queryable, sql } from '../../../db/client.ts';
import { CannotOpen } from '../../../lib/seal.ts';
import { backoff } from '../../../queue/backoff.ts';
import type { Job, NewJob } from '../../../queue/jobs.ts';
import type { Handler } from '../../../queue/lane.ts';
import type { Context } from '../../context.ts';
import { getEvents } from '../../ground/events/get.ts';
import { type Endpoint, Endpoints, type PutOff } from './endpoints.ts';
import type { MessageOutcome, MessageRecorder } from './record.ts';
import { openSecrets, type SecretRow } from './secret.ts';
import { type Attempt, messageSender } from './send.ts';
import { unreadableSecret } from './unreadable.ts';

// What has not begun by then waits for the webhook's next turn: one that takes its time over each response
// would keep a slot for an hour.
const TURN_MS = 20_000;
// What could not be handed over within a day has failed; it can be replayed.
const LIFETIME_MS = 24 * 3_600_000;

const SLOTS = 64;
const MAX_WEIGHT = 200;
// While one batch is recorded the next is sent. All of them share the webhook's requests (endpoints.ts).
const BATCHES_PER_WEBHOOK = 3;

/**
 * Sends the messages of webhooks. The queue takes turns over webhooks, so a slow one holds up its own
 * messages only; a batch that waits for one that hangs gives up its slot.
 */
export function webhookHandler(context: Context, recorder: MessageRecorder): Handler<'webhook'> {
  const endpoints = new Endpoints(context);
  return {
    slots: SLOTS,
    slotsPerProject: BATCHES_PER_WEBHOOK,
    gatherBelow: 0,
    beyond: { maxWeight: 3 * SLOTS * MAX_WEIGHT, silentMs: 1_000, silentPerProject: BATCHES_PER_WEBHOOK },
    maxJobs: 8,
    maxWeight: MAX_WEIGHT,
    maxProjects: 1,
    isBlocked: () => recorder.isBlocked,
    run: (jobs, leaseId, progress) => deliver({ context, recorder, leaseId, progress }, endpoints, jobs),
    giveUp: (job, leaseId) => giveUp(context, recorder, job, leaseId),
  };
}

type WebhookJob = Job<'webhook'>;

interface Run {
  context: Context;
  recorder: MessageRecorder;
  leaseId: string;
  /** To be called for each message that was tried. */
  progress: () => void;
}

interface Webhook extends SecretRow {
  id: string;
  project_id: string;
  url: string;
  disabled_at: Date | null;
  updated_at: Date;
}

/** What a batch works with. */
interface Batch extends Run {
  webhook: Webhook;
  events: ReadonlyMap<string, Event>;
  /** Messages that an earlier run of a job has sent. */
  sent: ReadonlySet<string>;
  /** Missing if the webhook is disabled. */
  send: ((event: Event) => Promise<Attempt | PutOff>) | undefined;
}

async function deliver(run: Run, endpoints: Endpoints, jobs: readonly WebhookJob[]): Promise<void> {
  const { context, recorder, leaseId, progress } = run;
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
  const batch = { ...run, progress, webhook, events, sent, send };
  const results = await Promise.allSettled(jobs.map((job) => deliverJob(batch, job)));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

/** Sends to one webhook, as far as it takes messages and its turn lasts. */
function sender({ context, recorder }: Run, webhook: Webhook, endpoint: Endpoint): Batch['send'] {
  const secrets = secretsOf(context, webhook);
  if ('unreadable' in secrets) return async () => unsigned(secrets.unreadable, context.clock.now());
  const send = messageSender(context, { url: webhook.url, secrets });
  const endMs = context.clock.now() + TURN_MS;
  const mayStart = () => context.clock.now() <= endMs && !recorder.isBlocked;
  return (event) => endpoint.send(() => send(event), mayStart);
}

/** What messages are signed with, or why that cannot be read here. */
function secretsOf(context: Context, webhook: Webhook): string[] | { unreadable: string } {
  try {
    return openSecrets(context, webhook.id, webhook);
  } catch (error) {
    if (error instanceof CannotOpen) return { unreadable: unreadableSecret(error.keyId) };
    throw error;
  }
}

/**
 * An attempt that ended before anything was sent. Later the key may be there, or another server that has it
 * takes its turn.
 */
function unsigned(reason: string, atMs: number): Attempt {
  return { accepted: false, gone: false, status: null, reason, retryAfterMs: null, durationMs: 0, atMs };
}

type Result = { id: string; event: Event | undefined; attempt: Attempt | PutOff | undefined };

/**
 * Sends the events of a job and records what became of each; those that are to be tried again become a job.
 */
async function deliverJob(batch: Batch, job: WebhookJob): Promise<void> {
  const { context, recorder, leaseId, sent, events, send, progress } = batch;
  const { payload } = job;
  const results: Result[] = [];
  const one = async (id: string) => {
    const event = events.get(id);
    const attempt = event && (await send?.(event));
    progress();
    if (event !== undefined && attempt !== undefined && 'accepted' in attempt && attempt.accepted)
      await recorder.report({ accepted: acceptedOf(batch, job, event, attempt) });
    else results.push({ id, event, attempt });
  };
  const all = await Promise.allSettled(payload.event_ids.filter((id) => !sent.has(id)).map(one));
  const failed = all.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  const dueAtMs = dueAt(job, results, context.clock.now());
  const late = dueAtMs >= payload.since_ms + LIFETIME_MS;
  const outcomes = results.flatMap((result) => outcomeOf(batch, job, result, { late, dueAtMs }));
  const ended = new Set(outcomes.filter(({ state }) => state !== 'retrying').map(({ id }) => id));
  const left = results.map(({ id }) => id).filter((id) => !ended.has(id));
  const tried = results.some(({ attempt }) => attempt !== undefined && 'accepted' in attempt);
  const next = { ...payload, event_ids: left, attempt: payload.attempt + (tried ? 1 : 0) };
  const retries = left.length === 0 ? [] : [webhookJob(next, dueAtMs)];
  await recorder.report({ finished: { jobId: job.id, leaseId, outcomes, retries } });
}

/**
 * When what is left of a job is tried again: after a pause of its own, and not before the webhook takes
 * messages again.
 */
function dueAt({ payload }: WebhookJob, results: readonly Result[], nowMs: number): number {
  const attempts = results.flatMap(({ attempt }) => attempt ?? []);
  const wishes = attempts.flatMap((one) =>
    'accepted' in one && one.retryAfterMs !== null ? [one.retryAfterMs] : [],
  );
  const putOff = attempts.flatMap((one) => ('putOffUntilMs' in one ? [one.putOffUntilMs] : []));
  if (attempts.length > 0 && putOff.length === attempts.length) return Math.max(...putOff);
  const pauseMs = backoff(
    payload.attempt + 1,
    wishes.length > 0 ? { retryAfterMs: Math.max(...wishes) } : {},
  );
  return Math.max(nowMs + pauseMs, ...putOff);
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

/** What became of a message that was not accepted; nothing if it was put off and has time left. */
function outcomeOf(
  { webhook, send }: Batch,
  { payload }: WebhookJob,
  { id, event, attempt }: Result,
  { late, dueAtMs }: { late: boolean; dueAtMs: number },
): MessageOutcome[] {
  const { attempt: attempts, replay = false } = payload;
  const of = { webhookId: webhook.id, projectId: webhook.project_id, id, replay };
  const untried = { ...of, attempts, attempt: undefined, nextAttemptMs: null };
  // An event that is past its retention: nothing is known of it any more.
  if (event === undefined) return [{ ...untried, type: null, state: 'failed', reason: 'the event is gone' }];
  const { type } = event;
  if (send === undefined) return [{ ...untried, type, state: 'failed', reason: 'the webhook was disabled' }];
  if (attempt === undefined || 'putOffUntilMs' in attempt)
    return late
      ? [{ ...untried, type, state: 'failed', reason: 'the webhook did not answer for a day' }]
      : [];
  const state = late || attempt.gone ? 'failed' : 'retrying';
  const nextAttemptMs = state === 'retrying' ? dueAtMs : null;
  return [{ ...of, type, state, attempts: attempts + 1, attempt, reason: attempt.reason, nextAttemptMs }];
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

/**
 * The messages of these jobs that were sent since, if a job was begun before: it ended with a crash, or
 * another worker has lost its lease.
 */
async function loadSent(db: Queryable, webhookId: string, jobs: readonly WebhookJob[]): Promise<Set<string>> {
  const begun = jobs.filter(({ attempt }) => attempt > 1);
  if (begun.length === 0) return new Set();
  const wanted = begun.flatMap(({ payload: { event_ids, since_ms, replay = false } }) =>
    event_ids.map((id) => ({ id, since: replay ? new Date(since_ms) : null })),
  );
  const rows = await db.query<{ id: string }>(selectSent, [
    webhookId,
    uuidArray(wanted.map(({ id }) => id)),
    wanted.map(({ since }) => since),
  ]);
  return new Set(rows.map(({ id }) => id));
}

async function giveUp(
  { db }: Context,
  recorder: MessageRecorder,
  job: WebhookJob,
  leaseId: string,
): Promise<void> {
  const { webhook_id: webhookId, event_ids: ids, attempt: attempts, replay = false } = job.payload;
  const [webhook] = await db.query<Webhook>(selectWebhook, [webhookId]);
  const outcomes = ids.map(
    (id): MessageOutcome => ({
      ...{ webhookId, projectId: webhook?.project_id ?? '', id, type: null, state: 'failed', attempts },
      ...{ attempt: undefined, reason: 'internal error', nextAttemptMs: null, replay },
    }),
  );
  await recorder.report({ finished: { jobId: job.id, leaseId, outcomes, retries: [] } });
}

// Primary key.
const selectWebhook = sql(
  'webhook_to_send_to',
  `select id, project_id, url, disabled_at, updated_at, sealed_secret, sealed_former_secret, former_secret_until
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

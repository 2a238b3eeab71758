import { notificationId } from '../../lib/ids.ts';
import type { Outcome, Override } from '../../providers/provider.ts';
import { backoff } from '../../queue/backoff.ts';
import type { Job, NewJob } from '../../queue/jobs.ts';
import type { Handler } from '../../queue/lane.ts';
import type { Context } from '../context.ts';
import { unsubscribeUrl } from '../preferences/unsubscribe-link.ts';
import { type Loaded, type LoadedBroadcast, loadDeliveries } from './load.ts';
import type { DeliveryOutcome, DeliveryState, OutcomeRecorder } from './record-outcomes.ts';
import { referenceOf } from './reference.ts';
import { emailHeaders, finishEmail } from './render/email.ts';
import { notificationRecord } from './render/record.ts';
import type { Senders } from './senders.ts';
import { showInInbox } from './show-in-inbox.ts';
import { nameOf, type Unwanted } from './still-wanted.ts';
import { withoutAddress } from './without-address.ts';

// An e-mail that could not be handed over within a day is no news any more.
const EMAIL_TTL_MS = 24 * 3_600_000;

/**
 * Brings broadcasts to their users over one channel: load, render, send, and report each outcome as it comes. A job that runs twice sends
 * only to those for whom no final outcome was written.
 */
export function deliverHandler(
  context: Context,
  engine: { senders: Senders; recorder: OutcomeRecorder },
): Handler<'deliver'> {
  return {
    // A batch waits for its provider most of the time. One project's provider can hang in all its slots and the others still have theirs.
    slots: 32,
    slotsPerProject: 4,
    gatherBelow: 0,
    maxJobs: 100,
    maxWeight: 200,
    maxProjects: 1,
    run: (jobs, leaseId) => deliver(context, engine, jobs, leaseId),
    giveUp: (job, leaseId) => giveUp(engine.recorder, job, leaseId),
  };
}

type Engine = { senders: Senders; recorder: OutcomeRecorder };

async function deliver(
  context: Context,
  engine: Engine,
  jobs: readonly Job<'deliver'>[],
  leaseId: string,
): Promise<void> {
  const loaded = await loadDeliveries(context, jobs);
  await allEnded(jobs.map((job) => deliverJob(context, engine, job, leaseId, loaded)));
}

/** Waits for all, whatever becomes of some; then throws what the first that failed threw. Who is told may begin again at once. */
async function allEnded(work: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

async function deliverJob(
  context: Context,
  engine: Engine,
  job: Job<'deliver'>,
  leaseId: string,
  loaded: Loaded,
): Promise<void> {
  const { payload } = job;
  if (payload.channel === 'in_app') await showTo(context, job, loaded);
  const retries: { userId: string; delayMs: number }[] = [];
  // One wait for all of the job that the provider named no time for: they come back as one batch.
  const ownDelayMs = backoff(payload.attempt + 1);
  const deliverTo = async (userId: string) => {
    const id = notificationId(payload.broadcast_id, userId);
    if (loaded.finals.has(id + payload.channel)) return;
    const startedMs = context.clock.now();
    const outcome = await sendTo(context, engine, job, loaded, userId, id);
    const delayMs =
      outcome.kind === 'retry' && outcome.retryAfterMs !== undefined
        ? backoff(payload.attempt + 1, { retryAfterMs: outcome.retryAfterMs })
        : ownDelayMs;
    const tooLate = context.clock.now() + delayMs > payload.first_attempt_ms + EMAIL_TTL_MS;
    const retrying = outcome.kind === 'retry' && !tooLate;
    if (retrying) retries.push({ userId, delayMs });
    await engine.recorder.report({
      outcome: {
        projectId: job.projectId,
        broadcastId: payload.broadcast_id,
        userId,
        notificationId: id,
        channel: payload.channel,
        state: stateOf(outcome, retrying),
        attempts: payload.attempt + 1,
        ...means(context, loaded, payload.channel),
        ...words(outcome, tooLate, loaded.users.get(userId)?.email),
        firstAttemptMs: payload.first_attempt_ms,
        durationMs: Math.max(0, context.clock.now() - startedMs),
      },
    });
  };
  await allEnded(payload.user_ids.map(deliverTo));
  await engine.recorder.report({
    finished: { jobId: job.id, leaseId, retries: retryJobs(job, retries, context.clock.now()) },
  });
}

/** Shows the job's notifications in the inboxes, all that are wanted by one statement. */
async function showTo(context: Context, job: Job<'deliver'>, loaded: Loaded): Promise<void> {
  const { broadcast_id: broadcastId, channel, user_ids } = job.payload;
  const userIds = user_ids.filter(
    (userId) =>
      !loaded.unwanted.has(nameOf(broadcastId, channel, userId)) &&
      !loaded.finals.has(notificationId(broadcastId, userId) + channel),
  );
  await showInInbox(context, { projectId: job.projectId, broadcastId, userIds });
}

/** Over what a channel is delivered; the inbox is our own, and has the brand's name. */
function means(
  { config }: Context,
  { integration }: Loaded,
  channel: string,
): Pick<DeliveryOutcome, 'integrationId' | 'provider'> {
  if (channel === 'in_app') return { integrationId: null, provider: config.BRAND };
  return { integrationId: integration?.id ?? null, provider: integration?.provider ?? null };
}

/** How an attempt ended: as the provider says, or not begun because it is not wanted any more. */
type Result = Outcome | ({ kind: 'skipped' } & Unwanted);

function stateOf(result: Result, retrying: boolean): DeliveryState {
  if (result.kind === 'sent' || result.kind === 'skipped') return result.kind;
  return retrying ? 'retrying' : 'failed';
}

async function sendTo(
  context: Context,
  engine: Engine,
  job: Job<'deliver'>,
  loaded: Loaded,
  userId: string,
  id: string,
): Promise<Result> {
  const { broadcast_id: broadcastId, channel } = job.payload;
  const unwanted = loaded.unwanted.get(nameOf(broadcastId, channel, userId));
  if (unwanted !== undefined) return { kind: 'skipped', ...unwanted };
  if (channel === 'in_app') return { kind: 'sent' }; // shown before
  const broadcast = loaded.broadcasts.get(broadcastId);
  const user = loaded.users.get(userId);
  if (broadcast?.email === undefined || user === undefined || user.email === null) {
    return { kind: 'rejected', scope: 'address', reason: 'the user has no e-mail address any more' };
  }
  if (loaded.integration === undefined) {
    return {
      kind: 'rejected',
      scope: 'config',
      reason: 'the project has no integration for e-mail any more',
    };
  }
  const { prepared, texts } = broadcast.email;
  const unsubscribe = unsubscribeUrl(context.config, loaded.project, {
    userId,
    category: broadcast.category,
    channel: 'email',
  });
  const name = [user.first_name, user.last_name].filter(Boolean).join(' ');
  return engine.senders.sendEmail(loaded.integration, {
    deliveryId: id,
    reference: referenceOf({ broadcastId, userId }),
    to: { email: user.email, ...(name === '' ? {} : { name }) },
    ...finishEmail(prepared, { unsubscribeUrl: unsubscribe }),
    headers: emailHeaders({ notificationId: id, brand: context.config.BRAND, unsubscribeUrl: unsubscribe }),
    date: new Date(job.payload.first_attempt_ms),
    notification: () => notificationRecord(id, broadcast, texts, user),
    signing: { header: `X-${context.config.BRAND.toUpperCase()}-SIGNATURE`, key: loaded.project.apiSecret },
    ...overrideFor(broadcast, loaded.integration.provider),
  });
}

/** What the broadcast says for the provider alone. */
function overrideFor({ overrides }: LoadedBroadcast, provider: string): { override?: Override } {
  const { providers = {} } = overrides;
  const override = Object.entries(providers).find(([name]) => name === provider)?.[1];
  return override === undefined ? {} : { override };
}

/** The outcome in the words that are kept and shown: what a provider says is text from outside. */
function words(
  outcome: Result,
  tooLate: boolean,
  email: string | null | undefined,
): Pick<DeliveryOutcome, 'providerId' | 'code' | 'reason'> {
  if (outcome.kind === 'sent') return { providerId: clean(outcome.providerId), code: null, reason: null };
  if (outcome.kind === 'skipped') {
    return { providerId: null, code: outcome.code, reason: clean(outcome.reason) };
  }
  const late = outcome.kind === 'retry' && tooLate ? 'gave up after a day: ' : '';
  return {
    providerId: null,
    code: clean(outcome.code),
    reason: clean(withoutAddress(late + outcome.reason, email)),
  };
}

function clean(text: string | undefined): string | null {
  return text === undefined
    ? null
    : text
        .toWellFormed()
        .replace(/\p{Cc}+/gu, ' ')
        .slice(0, 500);
}

function retryJobs(
  job: Job<'deliver'>,
  retries: readonly { userId: string; delayMs: number }[],
  nowMs: number,
): NewJob<'deliver'>[] {
  return [...Map.groupBy(retries, ({ delayMs }) => delayMs)].map(([delayMs, group]) => ({
    kind: 'deliver',
    projectId: job.projectId,
    priority: job.priority,
    weight: job.weight - job.payload.user_ids.length + group.length,
    dueAtMs: nowMs + delayMs,
    payload: {
      ...job.payload,
      user_ids: group.map(({ userId }) => userId),
      attempt: job.payload.attempt + 1,
    },
  }));
}

/** A job that an error of ours stops again and again: its deliveries end as failed rather than never. */
async function giveUp(recorder: OutcomeRecorder, job: Job<'deliver'>, leaseId: string): Promise<void> {
  const { payload } = job;
  const failed = payload.user_ids.map(
    (userId): Promise<void> =>
      recorder.report({
        outcome: {
          projectId: job.projectId,
          broadcastId: payload.broadcast_id,
          userId,
          notificationId: notificationId(payload.broadcast_id, userId),
          channel: payload.channel,
          state: 'failed',
          attempts: payload.attempt,
          integrationId: null,
          provider: null,
          providerId: null,
          code: 'internal_error',
          reason: 'internal error',
          firstAttemptMs: payload.first_attempt_ms,
          durationMs: 0,
        },
      }),
  );
  await Promise.all([...failed, recorder.report({ finished: { jobId: job.id, leaseId, retries: [] } })]);
}

import { getHeapStatistics } from 'node:v8';
import { allEnded } from '../../../lib/all-ended.ts';
import { TemplateError } from '../../../lib/template.ts';
import { isTracing, traced } from '../../../lib/tracing.ts';
import { backoff } from '../../../queue/backoff.ts';
import { discardReason } from '../../../queue/discard-reason.ts';
import type { Handler } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { LineContext } from '../context/context.ts';
import { prepareTemplate } from '../rendering/message.ts';
import { address } from './address.ts';
import { conclude, concludeDiscarded } from './conclude.ts';
import { decide } from './decide.ts';
import type { Addressed, Batch, Collected, Concluded, DeliveryOutcome, FinishedJob } from './delivery.ts';
import { followUps } from './follow-up-jobs.ts';
import { load } from './load.ts';
import type { OutcomeRecorder } from './record.ts';
import { type SendDeps, send } from './send.ts';
import { showInInbox } from './show-in-inbox.ts';

// A weight of one is 4,096 characters of text, which are inflated, parsed and rendered into several parts of
// a message. With a heap of 400 MB two or three contents of 10 MiB are then at work; from 2 GB on this does
// not limit what fills the slots.
const HEAP_PER_WEIGHT = 96 * 1024;

/** What delivering needs besides the context. */
export type DeliverDeps = SendDeps & { recorder: OutcomeRecorder };

/**
 * Delivers broadcasts to their users over one channel. Each delivery passes through the same steps; their
 * values are described in delivery.ts. A job that runs twice sends only to users whose final outcome was not
 * recorded.
 */
export function deliverHandler(context: LineContext, deps: DeliverDeps): Handler<'deliver'> {
  const { recorder } = deps;
  return {
    work: 'both',
    // A batch waits for its provider most of the time. If one project's providers hang in all its slots, the
    // others still have theirs, and after a second so do its other channels.
    slots: 32,
    slotsPerPartition: 4,
    gatherBelow: 0,
    // Three times what the slots hold: jobs at work are in memory.
    beyond: { maxWeight: 3 * 32 * 200, silentMs: 1_000, silentPerPartition: 16 },
    maxRunningWeight: getHeapStatistics().heap_size_limit / HEAP_PER_WEIGHT,
    maxJobs: 100,
    maxWeight: 200,
    maxPartitions: 1,
    isBlocked: () => recorder.isBlocked,
    async run(jobs, leaseId, heartbeat) {
      const batch = await load(context, jobs);
      const decided = await decide(context, batch);
      const addressed = await address(context, batch, decided);
      const byJob = Map.groupBy(addressed, ({ delivery }) => delivery.job);
      const work = { context, deps, batch, leaseId, heartbeat };
      const deliver = isTracing() ? deliverTraced : deliverJob;
      await allEnded(jobs.map((job) => deliver(work, job, byJob.get(job) ?? [])));
      return []; // retries are scheduled
    },
    discard: (job, leaseId, error) => discard(recorder, job, leaseId, error),
  };
}

interface Work {
  context: LineContext;
  deps: DeliverDeps;
  batch: Batch;
  leaseId: string;
  /** Called after each delivery that was tried. */
  heartbeat: () => void;
}

/** One span for the job, whatever the number of its users. Each message to a provider has one below it. */
function deliverTraced(work: Work, job: Job<'deliver'>, addressed: readonly Addressed[]): Promise<void> {
  const { broadcast_id: broadcastId, channel, user_ids: userIds, attempt, traceparent: parent } = job.payload;
  const attributes = {
    'belfry.project.id': job.projectId,
    'belfry.broadcast.id': broadcastId,
    'belfry.channel': channel,
    'belfry.attempt': attempt + 1,
    'messaging.batch.message_count': userIds.length,
  };
  return traced(`deliver ${channel}`, { kind: 'consumer', parent, attributes }, () =>
    deliverJob(work, job, addressed),
  );
}

async function deliverJob(work: Work, job: Job<'deliver'>, addressed: readonly Addressed[]): Promise<void> {
  const inbox = addressed.filter(({ kind }) => kind === 'inbox');
  if (inbox.length > 0)
    await showInInbox(work.context, {
      projectId: job.projectId,
      broadcastId: job.payload.broadcast_id,
      userIds: inbox.map(({ delivery }) => delivery.userId),
    });
  // One wait for all deliveries of the job whose provider names no time: they come back as one job.
  const delayMs = backoff(job.payload.attempt + 1);
  const { recorder } = work.deps;
  const [only] = addressed;
  if (only !== undefined && addressed.length === 1) {
    const { concluded, outcome } = await deliverOne(work, only, delayMs);
    return recordBoth(recorder, outcome, () => endOf(work, job, [concluded]));
  }
  const all: Concluded[] = [];
  await allEnded(
    addressed.map(async (one) => {
      const { concluded, outcome } = await deliverOne(work, one, delayMs);
      if (outcome !== undefined) await recorder.report({ outcome });
      all.push(concluded);
    }),
  );
  await recorder.report({ finished: endOf(work, job, all) });
}

/**
 * Records the outcome of the only delivery of a job together with the end of the job, by one transaction. If
 * the end cannot be written, the outcome is: the job runs again, and its message is not sent again.
 */
async function recordBoth(
  recorder: OutcomeRecorder,
  outcome: DeliveryOutcome | undefined,
  endOfJob: () => FinishedJob,
): Promise<void> {
  try {
    await recorder.report({ outcome, finished: endOfJob() });
  } catch (error) {
    if (outcome !== undefined) await recorder.report({ outcome });
    throw error;
  }
}

/** The steps of one delivery, from its targets on. Returns also the outcome to record, if there is one. */
async function deliverOne(
  { context, deps, batch, heartbeat }: Work,
  addressed: Addressed,
  delayMs: number,
): Promise<{ concluded: Concluded; outcome: DeliveryOutcome | undefined }> {
  const { clock, config } = context;
  const startedMs = clock.now();
  const collected = await collect(context, batch, addressed);
  const results = collected.kind === 'targets' ? await send(context, deps, collected, delayMs) : [];
  const nowMs = clock.now();
  const concluded = conclude(collected, results, { brand: config.BRAND, sentMs: startedMs, nowMs });
  if (collected.kind !== 'defer') heartbeat();
  const durationMs = Math.max(0, nowMs - startedMs);
  return { concluded, outcome: concluded.outcome && { ...concluded.outcome, durationMs } };
}

/** Collects what the messages of a delivery are rendered from. It fails if its template does. */
async function collect(
  { config, clock }: LineContext,
  { project, categories }: Batch,
  addressed: Addressed,
): Promise<Collected> {
  if (addressed.kind !== 'targets') return addressed;
  const { delivery } = addressed;
  const { broadcast, user, channel, notificationId, dueAtMs, expiresAtMs } = delivery;
  const { template, category, critical } = broadcast;
  let texts = broadcast.texts.get(channel);
  if (template !== undefined && user !== undefined)
    try {
      texts = await prepareTemplate({ config, project, template, category, critical, channel, user });
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      const reason = `The template cannot be rendered: ${error.message}`;
      return { delivery, kind: 'fail', code: 'template_failed', reason };
    }
  if (texts === undefined || user === undefined) throw new Error('a delivery that was not loaded');
  const loaded = { config, project, tracking: categories.tracking, broadcast, user, texts };
  const times = { nowMs: clock.now(), dueAtMs, expiresAtMs };
  return { ...addressed, content: { ...loaded, channel, notificationId, ...times } };
}

/** The end of a job. What remains of its deliveries becomes new jobs. */
function endOf(
  { context, leaseId }: Work,
  job: Job<'deliver'>,
  concluded: readonly Concluded[],
): FinishedJob {
  const { awaited, broadcast_id: broadcastId } = job.payload;
  const left = concluded.filter(comesBack);
  const deferred = awaited ? { broadcastId, deliveries: left.filter(isDeferred).length } : undefined;
  const end = { jobId: job.id, leaseId, deferred };
  if (left.length === 0) return { ...end, retries: [] };
  const isCancelled = context.cancelled.has(broadcastId);
  return { ...end, ...followUps(job, left, { nowMs: context.clock.now(), isCancelled }) };
}

function comesBack({ remaining, closed }: Concluded): boolean {
  return remaining !== undefined || closed !== undefined;
}

/**
 * Whether the end of the job counts as the first attempt of a delivery that comes back. If it was sent, now
 * or before a crash, that outcome has counted.
 */
function isDeferred({ delivery, outcome }: Concluded): boolean {
  return !delivery.wasSent && outcome?.state !== 'sent';
}

/** Ends a job that an error of ours stops each time it runs. */
async function discard(
  recorder: OutcomeRecorder,
  job: Job<'deliver'>,
  leaseId: string,
  error: unknown,
): Promise<void> {
  const outcomes = concludeDiscarded(job, discardReason(job, error)).map((outcome) =>
    recorder.report({ outcome }),
  );
  const ended = recorder.report({ finished: { jobId: job.id, leaseId, retries: [] } });
  await Promise.all([...outcomes, ended]);
}

import { getHeapStatistics } from 'node:v8';
import { notificationId } from '../../../lib/ids.ts';
import { backoff } from '../../../queue/backoff.ts';
import type { Handler } from '../../../queue/handler.ts';
import type { Job } from '../../../queue/jobs.ts';
import type { LineContext } from '../context/context.ts';
import { createPreparation } from '../rendering/channel-texts.ts';
import { nameOf } from '../routing/still-wanted.ts';
import { again, type LeftOver } from './again.ts';
import type { Engine } from './attempt.ts';
import { cameTo } from './conclude.ts';
import { type Batch, deliverOne } from './deliver-one.ts';
import { loadDeliveries } from './load.ts';
import { receiptJobs, type TakenMessage } from './poll-jobs.ts';
import type { OutcomeRecorder } from './record-outcomes.ts';
import { showInInbox } from './show-in-inbox.ts';
import type { Marked } from './text-marks.ts';
import { waitForWindow } from './wait-for-window.ts';
import type { DeliveryOutcome } from './write-outcomes.ts';

// A weight of one is 4,096 characters of text, which are inflated, parsed and rendered into several parts of
// a message. With a heap of 400 MB two or three contents of 10 MiB are then at work; from 2 GB on this is no
// limit to what fills the slots.
const HEAP_PER_WEIGHT = 96 * 1024;

/**
 * Brings broadcasts to their users over one channel: load, render, send to every target, and report each
 * outcome as it comes. A job that runs twice sends only to those for whom no final outcome was written.
 */
export function deliverHandler(
  context: LineContext,
  { recorder, ...engine }: Engine & { recorder: OutcomeRecorder },
): Handler<'deliver'> {
  const prepare = createPreparation();
  return {
    // A batch waits for its provider most of the time. One project's providers can hang in all its slots and
    // the others still have theirs, and so have its other channels after a second.
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
    async run(jobs, leaseId, progress) {
      const loaded = await loadDeliveries(context, prepare, jobs);
      const isThere = ({ payload }: Job<'deliver'>) => loaded.broadcasts.has(payload.broadcast_id);
      const batch: BatchAtWork = { context, engine, loaded, recorder, progress };
      await allEnded(
        jobs.map((job) =>
          isThere(job) ? deliverJob(batch, job, leaseId) : endOfGone(recorder, job, leaseId),
        ),
      );
    },
    discard: (job, leaseId) => discard(recorder, job, leaseId),
  };
}

/**
 * Waits for all, whatever becomes of some; then throws what the first that failed threw. Who is told may
 * begin again at once.
 */
async function allEnded(work: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

/**
 * Ends a job whose broadcast was deleted since, as too old to be kept: with it went its deliveries, and
 * nothing is to be written of them.
 */
function endOfGone(recorder: OutcomeRecorder, { id }: Job<'deliver'>, leaseId: string): Promise<void> {
  return recorder.report({ finished: { jobId: id, leaseId, retries: [] } });
}

interface BatchAtWork extends Batch {
  recorder: OutcomeRecorder;
  /** Is told of each delivery that was tried. */
  progress: () => void;
}

async function deliverJob(batch: BatchAtWork, job: Job<'deliver'>, leaseId: string): Promise<void> {
  const { context, loaded, recorder } = batch;
  const { broadcast_id: broadcastId, channel, user_ids, attempt } = job.payload;
  if (channel === 'in_app') await showTo(batch, job);
  const left: LeftOver[] = [];
  const untried: Marked[] = [];
  const taken: TakenMessage[] = [];
  // One wait for all of the job that the provider named no time for: they come back as one batch.
  const ownDelayMs = backoff(attempt + 1);
  const openings = new Map<string, number>();
  // What comes back and was sent, now or before a crash: its first attempt was counted with that outcome.
  let sentWithMore = 0;
  const deliverTo = async (userId: string) => {
    const id = notificationId(broadcastId, userId);
    if (loaded.finals.has(id + channel)) return;
    const wasSent = loaded.begun.get(id + channel)?.sent === true;
    const openingMs = loaded.closed.get(nameOf(broadcastId, channel, userId));
    if (openingMs !== undefined) {
      openings.set(userId, openingMs);
      if (wasSent) sentWithMore += 1;
      return;
    }
    const startedMs = context.clock.now();
    const made = await deliverOne(batch, { job, userId, id, ownDelayMs });
    batch.progress();
    taken.push(...(made.taken ?? []));
    if (made.again !== undefined) left.push({ userId, ...made.again });
    if (made.again !== undefined && (wasSent || made.outcome?.state === 'sent')) sentWithMore += 1;
    if (made.untried !== undefined) untried.push(made.untried);
    if (made.outcome === undefined) return;
    const durationMs = Math.max(0, context.clock.now() - startedMs);
    await recorder.report({ outcome: { ...about(job, userId), ...made.outcome, durationMs } });
  };
  await allEnded(user_ids.map(deliverTo));
  const nowMs = context.clock.now();
  const waiting = waitForWindow(job, openings, nowMs);
  const retries = [...again(job, left, nowMs), ...waiting.jobs];
  const deferred = job.payload.awaited
    ? { broadcastId, deliveries: left.length + openings.size - sentWithMore }
    : undefined;
  const polls = receiptJobs(taken);
  await recorder.report({
    finished: { jobId: job.id, leaseId, retries, deferred, polls, events: waiting.events, untried },
  });
}

/** Shows the job's notifications in the inboxes, all that are wanted by one statement. */
async function showTo({ context, loaded }: Batch, job: Job<'deliver'>): Promise<void> {
  const { broadcast_id: broadcastId, channel, user_ids } = job.payload;
  const userIds = user_ids.filter(
    (userId) =>
      !loaded.unwanted.has(nameOf(broadcastId, channel, userId)) &&
      !loaded.finals.has(notificationId(broadcastId, userId) + channel),
  );
  await showInInbox(context, { projectId: job.projectId, broadcastId, userIds });
}

type About = Pick<
  DeliveryOutcome,
  | 'projectId'
  | 'broadcastId'
  | 'userId'
  | 'notificationId'
  | 'channel'
  | 'replay'
  | 'firstAttemptMs'
  | 'awaited'
>;

/** Which delivery an outcome is of. */
function about({ projectId, payload }: Job<'deliver'>, userId: string): About {
  const { broadcast_id: broadcastId, channel, first_attempt_ms: firstAttemptMs, replay, awaited } = payload;
  const id = notificationId(broadcastId, userId);
  return { projectId, broadcastId, userId, notificationId: id, channel, firstAttemptMs, replay, awaited };
}

/**
 * A job that an error of ours stops again and again: its deliveries end as failed rather than never, unless
 * somebody has taken them.
 */
async function discard(recorder: OutcomeRecorder, job: Job<'deliver'>, leaseId: string): Promise<void> {
  const { user_ids, attempt, progress } = job.payload;
  const ended = user_ids.map((userId): Promise<void> => {
    const { providerId = null, targets } = cameTo(progress?.[userId]);
    const outcome: DeliveryOutcome = {
      ...about(job, userId),
      state: (progress?.[userId]?.accepted ?? 0) > 0 ? 'sent' : 'failed',
      attempts: attempt,
      integrationId: null,
      provider: null,
      providerId,
      targets,
      continues: (progress?.[userId]?.accepted ?? 0) > 0,
      code: 'internal_error',
      reason: 'internal error',
      durationMs: 0,
    };
    return recorder.report({ outcome });
  });
  await Promise.all([...ended, recorder.report({ finished: { jobId: job.id, leaseId, retries: [] } })]);
}

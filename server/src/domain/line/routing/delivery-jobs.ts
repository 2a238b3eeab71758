import { type NewJob, priorityFor } from '../../../queue/jobs.ts';

/** A broadcast as far as its jobs are made of it. */
export interface JobsOf {
  id: string;
  projectId: string;
  /** What its texts add to the weight of its jobs. */
  textWeight: number;
  /** Users of the page that the jobs are a part of: what is large comes after what is small. */
  recipients: number;
}

// A chunk of recipients on one channel is one job: small enough that its outcomes are soon written down,
// large enough that the queue's cost vanishes beside the sending.
const RECIPIENTS_PER_DELIVERY = 100;
// A delivery reads and renders the texts, a fan-out hands them on as they are stored; but its batches are
// smaller to begin with.
const FEWER_TEXTS = 32;

/**
 * The jobs that deliver a broadcast to these users over a channel, counted as due since `dueAtMs`; they wait
 * until then where `later` says so. The broadcast awaits them unless they are due later or a `replay`.
 */
export function deliveryJobs(
  broadcast: JobsOf,
  channel: string,
  userIds: readonly string[],
  { dueAtMs, later, replay }: { dueAtMs: number; later: boolean; replay?: number },
): NewJob<'deliver'>[] {
  const jobs: NewJob<'deliver'>[] = [];
  for (let start = 0; start < userIds.length; start += RECIPIENTS_PER_DELIVERY) {
    const chunk = userIds.slice(start, start + RECIPIENTS_PER_DELIVERY);
    jobs.push({
      kind: 'deliver',
      projectId: broadcast.projectId,
      priority: priorityFor(broadcast.recipients),
      weight: chunk.length + Math.floor(broadcast.textWeight / FEWER_TEXTS),
      ...(later ? { dueAtMs } : {}),
      payload: {
        broadcast_id: broadcast.id,
        channel,
        user_ids: chunk,
        attempt: 0,
        first_attempt_ms: dueAtMs,
        ...(later || replay !== undefined ? {} : { awaited: true }),
        ...(replay === undefined ? {} : { replay }),
      },
    });
  }
  return jobs;
}

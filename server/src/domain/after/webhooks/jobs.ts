import { type EventType, typesOf } from '../../../contract/event.ts';
import type { Job, NewJob } from '../../../queue/jobs.ts';
import { eventId } from '../../ground/events/expand.ts';
import { numbersOf } from '../../ground/events/stored-types.ts';

// The first send of a job's events shares a query and a report.
const EVENTS_PER_JOB = 50;

/** A webhook that the relay has locked. */
export interface ClaimedWebhook {
  id: string;
  project_id: string;
  event_types: string[];
}

/** Events to send to a webhook. */
export interface EventBatch {
  webhook: ClaimedWebhook;
  eventIds: string[];
  isReplay: boolean;
}

/** About the number of events in a batch: a row of events has up to 1000, and is not divided. */
export const MAX_EVENTS = 2_000;

/** Returns a function that lists the events of a row that a webhook is subscribed to. */
export function eventFilter(
  webhooks: readonly ClaimedWebhook[],
): (webhookId: string, row: { id: string; type: string; size: number }) => string[] {
  const types = new Map<string, readonly EventType[] | undefined>(
    webhooks.map(({ id, event_types: filters }) => [id, typesOf(filters)]),
  );
  return (webhookId, row) => {
    const { from, to } = numbersOf(row, types.get(webhookId));
    return Array.from({ length: to - from }, (_, index) => eventId(row.id, from + index));
  };
}

/** The jobs that send a batch of events. */
export function webhookJobs(
  { webhook, eventIds, isReplay }: EventBatch,
  nowMs: number,
): NewJob<'send_webhook'>[] {
  const count = Math.ceil(eventIds.length / EVENTS_PER_JOB);
  return Array.from({ length: count }, (_, index) =>
    webhookJob(webhook.project_id, {
      webhook_id: webhook.id,
      event_ids: eventIds.slice(index * EVENTS_PER_JOB, (index + 1) * EVENTS_PER_JOB),
      attempt: 0,
      since_ms: nowMs,
      ...(isReplay ? { replay: true } : {}),
    }),
  );
}

/** A job that sends these events. The queue is fair over webhooks. */
export function webhookJob(
  projectId: string,
  payload: Job<'send_webhook'>['payload'],
  dueAtMs?: number,
): NewJob<'send_webhook'> {
  return {
    kind: 'send_webhook',
    projectId,
    partitionKey: payload.webhook_id,
    priority: 1,
    weight: payload.event_ids.length,
    payload,
    dueAtMs,
  };
}

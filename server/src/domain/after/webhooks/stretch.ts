import { type EventType, typesOf } from '../../../contract/event.ts';
import { eventId } from '../../ground/events/expand.ts';
import { numbersOf } from '../../ground/events/stored-types.ts';

/** A webhook that the pump has locked. */
export interface ClaimedWebhook {
  id: string;
  project_id: string;
  event_types: string[];
}

/** Events that are to be sent to a webhook. */
export interface Stretch {
  webhookId: string;
  eventIds: string[];
  replay: boolean;
}

/** About so many events make a stretch: a row of events stands for up to 1000 and is taken whole. */
export const MAX_EVENTS = 2_000;

/** Tells for a webhook which events of a row it wants. */
export function wantedBy(
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

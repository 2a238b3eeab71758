import { typesOf } from '../../contract/event.ts';

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

/** The types that each of these webhooks wants, as the text of an array; null for all. */
export function typeArrays(webhooks: readonly ClaimedWebhook[]): (string | null)[] {
  return webhooks.map(({ event_types: filters }) => {
    const types = typesOf(filters);
    return types === undefined ? null : `{${types.join(',')}}`;
  });
}

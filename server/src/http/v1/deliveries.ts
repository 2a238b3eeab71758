import type { Static } from 'typebox';
import type { DeliveryRecord } from '../../contract/delivery.ts';
import type { Notification } from '../../contract/notification.ts';
import type { LegacyDelivery } from '../../contract/v1/notification.ts';

type Shown = Pick<Static<typeof Notification>, 'title' | 'status' | 'seen_at' | 'read_at'>;

/** A notification of v2 as JSON text, with its recipient and its deliveries. */
export function deliveredJson(
  text: string,
  {
    recipient,
    sentAt,
    deliveries,
  }: { recipient: string; sentAt: Date; deliveries: readonly DeliveryRecord[] },
): string {
  const { title, status, ...times } = JSON.parse(text) as Shown;
  const shown = deliveries.map((delivery) => legacyDelivery(delivery, { title, sentAt }));
  // Published clients do not know this status. It comes before the texts.
  const ofV1 = status === 'snoozed' ? text.replace('"snoozed"', `"${statusAwake(times)}"`) : text;
  return `${ofV1.slice(0, -1)},"recipient":${recipient},"deliveries":${JSON.stringify(shown)}}`;
}

/** The status of a notification if it is not snoozed. */
function statusAwake({ seen_at, read_at }: Pick<Shown, 'seen_at' | 'read_at'>): Shown['status'] {
  if (read_at !== null) return 'read';
  return seen_at === null ? 'unseen' : 'unread';
}

/** Returns a delivery as v1 shows it. */
function legacyDelivery(
  delivery: DeliveryRecord,
  { title, sentAt }: { title: string; sentAt: Date },
): LegacyDelivery {
  const { id, channel, due_at, first_attempt_at, last_attempt_at } = delivery;
  return {
    id,
    title,
    channel,
    scheduled_at: due_at ?? first_attempt_at ?? last_attempt_at ?? sentAt.toISOString(),
    status: statusOf(delivery),
  };
}

function statusOf({ state, receipt }: DeliveryRecord): LegacyDelivery['status'] {
  switch (state) {
    case 'retrying':
      return 'processing';
    case 'sent':
      return receipt === null ? 'sent' : RECEIVED[receipt];
    default:
      return state;
  }
}

const RECEIVED = {
  delivered: 'delivered',
  complained: 'delivered',
  bounced: 'failed',
  dropped: 'dropped',
} as const;

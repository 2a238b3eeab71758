import type { Delivery } from '../../contract/delivery.ts';
import type { LegacyDelivery } from '../../contract/v1/notification.ts';

/** Returns a delivery as v1 shows it. */
export function legacyDelivery(
  delivery: Delivery,
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

function statusOf({ state, receipt }: Delivery): LegacyDelivery['status'] {
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

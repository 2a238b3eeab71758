import type { EventDetails } from '../../ground/events/record.ts';

/**
 * The details of `delivery.sent` for notifications that the inbox shows at once. Its provider is the brand,
 * as the inbox is our own.
 */
export function inboxSentDetails(brand: string): EventDetails {
  return { level: 'info', context: { channel: 'in_app', provider: brand, attempt: 1 } };
}

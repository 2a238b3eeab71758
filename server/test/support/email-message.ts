import { createSecretKey } from 'node:crypto';
import type { EmailMessage, NotificationRecord } from '../../src/providers/provider.ts';

const at = new Date('2026-07-01T12:00:00.000Z');

/** A notification as the project's own mailer receives it. */
export const notificationRecord: NotificationRecord = {
  id: '0197a3c4-5b6e-7f01-8a2b-3c4d5e6f7081',
  title: 'Hello',
  content: 'It is <b>here</b>.',
  actionUrl: 'https://shop.example/orders/1',
  category: 'orders',
  topic: 'orders/1',
  customAttributes: { order: 1 },
  overrides: { channels: { email: { title: 'Hello' } } },
  updatedAt: at,
  recipient: {
    id: '0197a3c4-0000-7f01-8a2b-3c4d5e6f7081',
    externalId: '42',
    email: 'ada@example.com',
    firstName: 'Ada',
    lastName: 'L',
    locale: 'en-GB',
    customAttributes: { plan: 'pro' },
    phoneNumbers: ['+1 5005550001'],
    createdAt: at,
    updatedAt: at,
    lastSeenAt: null,
    lastNotifiedAt: at,
  },
};

/** An e-mail with these changes. */
export function emailMessage(changes: Partial<EmailMessage> = {}): EmailMessage {
  return {
    deliveryId: notificationRecord.id,
    reference: 'AZejxFtufwGKKzxNXm9wgQGXo8QAAH8Biis8TV5vcIE',
    to: { email: 'ada@example.com', name: 'Ada L' },
    subject: 'Hello',
    html: '<p>It is <b>here</b>.</p>',
    text: 'It is here.',
    headers: {
      'Auto-Submitted': 'auto-generated',
      'List-Unsubscribe': '<https://notify.example/unsubscribe/x>',
      'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
    },
    date: at,
    critical: false,
    notification: () => notificationRecord,
    signing: { header: 'X-BELFRY-SIGNATURE', keys: [createSecretKey(Buffer.from('canary-project'))] },
    ...changes,
  };
}

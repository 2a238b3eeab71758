import type { NotificationContent } from '../../src/providers/provider.ts';

/** A notification as channels receive it, with a value in every member. */
export function notificationContent(members: Partial<NotificationContent> = {}): NotificationContent {
  return {
    deliveryId: '0198c0de-0000-7000-8000-000000000001',
    reference: 'AZjA3gAAcACAAAAAAAAAAQGYwN4AAHAAgAAAAAAAAAo',
    notificationId: '0198c0de-0000-7000-8000-00000000000a',
    title: 'Your order has shipped',
    content: 'It arrives on Monday.',
    text: 'It arrives on Monday.',
    actionUrl: 'https://shop.example.com/orders/42?from=news&step=1',
    actionLabel: 'Open',
    category: 'orders',
    topic: 'order-42',
    customAttributes: { order: { id: 42 } },
    expiresAt: new Date('2026-07-02T12:00:00Z'),
    ...members,
  };
}

/** A notification with only a title. */
export function bareContent(members: Partial<NotificationContent> = {}): NotificationContent {
  return notificationContent({
    content: null,
    text: '',
    actionUrl: null,
    category: null,
    topic: null,
    customAttributes: null,
    ...members,
  });
}

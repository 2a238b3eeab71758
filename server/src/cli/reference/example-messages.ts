import { createSecretKey } from 'node:crypto';
import type { EmailMessage, MessageOf, NotificationContent } from '../../providers/provider.ts';

const id = '0197a3c4-5b6e-7a01-8513-7708190a1b2c';
const expiresAt = new Date('2026-07-03T12:00:00Z');
const reference = 'AZejxFtuegGbLD1OX2BxggGXo8QKG3wtjj9KW2x9jp8';

const content: NotificationContent = {
  deliveryId: id,
  reference,
  notificationId: id,
  title: 'Your order has shipped',
  content: 'It arrives on <b>Monday</b>.',
  text: 'It arrives on Monday.',
  actionUrl: 'https://shop.example/orders/42',
  actionLabel: 'Open',
  category: 'orders',
  topic: 'order-42',
  customAttributes: { order: { id: 42 } },
  expiresAt,
};

const email: EmailMessage = {
  deliveryId: id,
  reference,
  to: { email: 'ada@example.com', name: 'Ada Lovelace' },
  subject: content.title,
  html: '<p>It arrives on <b>Monday</b>.</p>',
  text: content.text,
  headers: {
    'List-Unsubscribe': '<https://notify.example/unsubscribe/AQGXo8QKG3wtjj9KW2x9jp8>',
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  },
  date: new Date('2026-07-02T12:00:00Z'),
  critical: false,
  notification: () => ({
    id,
    title: content.title,
    content: content.content,
    actionUrl: content.actionUrl,
    category: content.category,
    topic: content.topic,
    customAttributes: content.customAttributes,
    overrides: null,
    updatedAt: new Date('2026-07-02T12:00:00Z'),
    recipient: {
      id: '0197a3c4-0a1b-7c2d-8e3f-4a5b6c7d8e9f',
      externalId: '42',
      email: 'ada@example.com',
      firstName: 'Ada',
      lastName: 'Lovelace',
      locale: 'en-GB',
      customAttributes: { plan: 'pro' },
      phoneNumbers: ['+14155550100'],
      createdAt: new Date('2026-01-31T12:00:00Z'),
      updatedAt: new Date('2026-01-31T12:00:00Z'),
      lastSeenAt: null,
      lastNotifiedAt: null,
    },
  }),
  signing: { header: 'x-belfry-signature', keys: [createSecretKey(Buffer.from('example'))] },
};

/** The notification of the reference pages, as each channel gets it. */
export const EXAMPLE_MESSAGES: { readonly [Channel in keyof MessageOf]: MessageOf[Channel] } = {
  email,
  sms: { ...content, to: '+12025550143' },
  mobile_push: {
    ...content,
    token: { deviceToken: 'dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx6l1nY7vQK0pD2sEw3tLm5oZ8cRjT' },
    badge: { unread: 3, unseen: 5 },
  },
  web_push: {
    ...content,
    endpoint: 'https://push.example/send/abc',
    keys: { auth: '', p256dh: '' },
  },
  slack: { ...content, to: { channelId: 'C0123456789', accessToken: 'xoxb-…' } },
  teams: { ...content, webhookUrl: 'https://example.webhook.office.com/webhookb2/xxxxxxxx' },
};

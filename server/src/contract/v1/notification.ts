import { type Static, Type } from 'typebox';
import { Channel } from '../channel.ts';
import { exampleId, exampleTime, FreeObject, Id, nullable, oneOf, Timestamp } from '../common.ts';
import { Notification } from '../notification.ts';
import { numberedPage, pageNumber, perPage } from './pages.ts';

/** A time in v1: ISO 8601, or seconds since 1970 with LEGACY_TIMESTAMPS=unix. */
const LegacyTime = Type.Union([Timestamp, Type.Integer()]);
const NullableLegacyTime = nullable(LegacyTime);

const flag = (description: string) => Type.Optional(nullable(Type.Boolean({ description })));

/** Names, separated by commas or in several parameters. */
const names = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | string[]>({
      type: ['string', 'array'],
      format: 'text',
      items: { type: 'string', format: 'text' },
      description: `${description} Several are separated by commas, or in several parameters.`,
    }),
  );
const CATEGORIES =
  'Only notifications of one of these categories. `uncategorized` selects those without a category.';
const TOPICS = 'Only notifications under one of these topics.';

const selection = {
  read: flag('Only notifications that are read, or with `false` unread.'),
  seen: flag('Only notifications that were seen, or with `false` unseen.'),
  categories: names(CATEGORIES),
  category: names('The same as `categories`.'),
  topics: names(TOPICS),
  topic: names('The same as `topics`.'),
};
const filter = {
  ...selection,
  'categories[]': names('The same as `categories`.'),
  'topics[]': names('The same as `topics`.'),
};
const archived = flag('Only notifications that are archived, or with `false` not archived.');

/** Selects the notifications of a bulk operation. */
export const LegacyNotificationFilter = Type.Object({ ...filter, archived });
export type LegacyNotificationFilter = Static<typeof LegacyNotificationFilter>;

/** The same in a body, which may be missing. */
export const LegacyNotificationSelection = nullable(
  Type.Object(
    { notification: Type.Optional(nullable(Type.Object({ ...selection, archived }))) },
    {
      title: 'NotificationSelection',
      description: 'Filters may also be in the body. One in the query takes precedence.',
      examples: [{ notification: { categories: ['orders'] } }],
    },
  ),
);

export const LegacyNotificationQuery = Type.Object({
  page: pageNumber,
  per_page: perPage(15),
  ...filter,
  archived: flag('Archived notifications. If omitted, or with `false`, those that are not archived.'),
});

const content = {
  title: Type.String(),
  content: nullable(Type.String()),
  action_url: nullable(Type.String()),
  category: nullable(Type.String()),
  topic: nullable(Type.String()),
  custom_attributes: nullable(FreeObject),
};

const recipient = {
  id: Id,
  external_id: nullable(Type.String()),
  email: nullable(Type.String()),
  first_name: nullable(Type.String()),
  last_name: nullable(Type.String()),
  custom_attributes: FreeObject,
};

const exampleRecipient = {
  id: '0197a3c4-5b6e-7f02-9c3d-4e5f60718293',
  external_id: '42',
  email: 'ada@example.com',
  first_name: 'Ada',
  last_name: null,
  custom_attributes: {},
};

/** A message in a user's inbox. */
const LegacyNotification = Type.Object(
  {
    id: Id,
    ...content,
    recipient: Type.Object(recipient, { title: 'Recipient' }),
    sent_at: LegacyTime,
    seen_at: NullableLegacyTime,
    read_at: NullableLegacyTime,
    archived_at: NullableLegacyTime,
  },
  {
    title: 'Notification',
    examples: [
      {
        id: exampleId,
        title: 'Your order is on its way',
        content: 'It arrives <b>tomorrow</b>.',
        action_url: 'https://shop.example/orders/1042',
        category: 'orders',
        topic: null,
        custom_attributes: null,
        recipient: exampleRecipient,
        sent_at: exampleTime,
        seen_at: null,
        read_at: null,
        archived_at: null,
      },
    ],
  },
);

export const WrappedNotification = Type.Object(
  { notification: LegacyNotification },
  { title: 'NotificationResponse' },
);

const pages = numberedPage('notifications');

export const LegacyNotificationPage = Type.Object(
  {
    ...pages,
    unseen_count: Type.Integer({ description: 'The unseen notifications on all pages.' }),
    unread_count: Type.Integer({ description: 'The unread notifications on all pages.' }),
    notifications: Type.Array(LegacyNotification),
  },
  { title: 'NotificationList' },
);

/** A notification on one channel, with its outcome. */
export const LegacyDelivery = Type.Object(
  {
    id: Type.String(),
    title: nullable(Type.String()),
    channel: Channel,
    scheduled_at: Timestamp,
    status: oneOf(['processing', 'skipped', 'dropped', 'scheduled', 'sent', 'failed', 'delivered']),
  },
  { title: 'Delivery' },
);
export type LegacyDelivery = Static<typeof LegacyDelivery>;

/** A notification with its deliveries. Its times are always ISO 8601. */
const DeliveredNotification = Type.Object(
  {
    ...Notification.properties,
    status: oneOf(['unseen', 'unread', 'read', 'archived'], {
      description: '`unread` means seen but not read. An archived notification is `archived`, read or not.',
    }),
    recipient: Type.Object({
      user: Type.Object({ ...recipient, phone_numbers: Type.Array(Type.String()) }),
    }),
    deliveries: Type.Array(LegacyDelivery),
  },
  { title: 'DeliveredNotification' },
);

export const DeliveredNotificationPage = Type.Object(
  { ...pages, notifications: Type.Array(DeliveredNotification) },
  { title: 'DeliveredNotificationList' },
);

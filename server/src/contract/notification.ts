import { type Static, Type } from 'typebox';
import {
  described,
  exampleId,
  exampleTime,
  FreeObject,
  Id,
  nullable,
  oneOf,
  page,
  pageQuery,
  storedString,
  Timestamp,
} from './common.ts';

const filter = {
  category: Type.Optional(
    storedString({
      maxLength: 255,
      description: 'Only notifications of this category. `uncategorized` selects those without one.',
    }),
  ),
  topic: Type.Optional(storedString({ maxLength: 255, description: 'Only notifications of this topic.' })),
};

/** Selects the notifications of a bulk operation. */
export const NotificationFilter = Type.Object(filter);
export type NotificationFilter = Static<typeof NotificationFilter>;

export const NotificationListQuery = Type.Object({
  ...pageQuery,
  status: Type.Optional(
    oneOf(['unread', 'read', 'archived', 'snoozed'], {
      description:
        'Only notifications that are unread (seen or not), read, archived or snoozed. If omitted, all that ' +
        'are neither archived nor snoozed.',
    }),
  ),
  ...filter,
});

const names = (description: string) =>
  Type.Optional(Type.Array(storedString({ maxLength: 255 }), { maxItems: 100, description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

/** Selects notifications of several categories and topics. */
const several = {
  categories: names('Only notifications of these categories. `uncategorized` selects those without one.'),
  topics: names('Only notifications of these topics.'),
};
export const SeveralFilter = Type.Object(several, { title: 'NotificationFilter' });
export type SeveralFilter = Static<typeof SeveralFilter>;

/** Selects the notifications of an inbox by their state, categories and topics. */
export const InboxFilter = Type.Object({
  status: NotificationListQuery.properties.status,
  read: flag('`true` selects those that are read, and `false` those that are not.'),
  seen: flag('`true` selects those that are seen, and `false` those that are not.'),
  archived: flag('`true` selects those that are archived. Otherwise only those that are not are listed.'),
  ...several,
});
export type InboxFilter = Static<typeof InboxFilter>;

/** Until when a notification is snoozed. */
export const Snooze = Type.Object(
  {
    until: nullable(
      Type.String({
        format: 'date-time',
        description: 'When it returns: within the next 400 days. `null` returns it now.',
        examples: ['2026-02-28T08:00:00Z'],
      }),
    ),
  },
  { title: 'Snooze', additionalProperties: false },
);
export type Snooze = Static<typeof Snooze>;

/** A message in a user's inbox. */
export const Notification = Type.Object(
  {
    id: Id,
    user_id: Id,
    status: oneOf(['unseen', 'unread', 'read', 'archived', 'snoozed'], {
      description:
        '`unread` means seen but not read. An archived notification is `archived`, and a snoozed one ' +
        '`snoozed`, read or not.',
    }),
    title: Type.String(),
    content: nullable(Type.String()),
    action_url: nullable(Type.String()),
    category: nullable(Type.String()),
    topic: nullable(Type.String()),
    custom_attributes: nullable(FreeObject),
    created_at: Timestamp,
    updated_at: Timestamp,
    sent_at: nullable(Timestamp),
    seen_at: nullable(Timestamp),
    read_at: nullable(Timestamp),
    archived_at: nullable(Timestamp),
    discarded_at: nullable(Timestamp),
    snoozed_until: nullable(described(Timestamp, 'When it returns to the inbox.')),
  },
  {
    title: 'Notification',
    examples: [
      {
        id: exampleId,
        user_id: '0197a3c4-5b6e-7f02-9c3d-4e5f60718293',
        status: 'unseen',
        title: 'Your order is on its way',
        content: 'It arrives <b>tomorrow</b>.',
        action_url: 'https://shop.example/orders/1042',
        category: 'orders',
        topic: null,
        custom_attributes: null,
        created_at: exampleTime,
        updated_at: exampleTime,
        sent_at: exampleTime,
        seen_at: null,
        read_at: null,
        archived_at: null,
        discarded_at: null,
        snoozed_until: null,
      },
    ],
  },
);

export const NotificationPage = page(Notification);

export const UnreadCount = Type.Object(
  {
    count: Type.Integer({
      minimum: 0,
      description:
        'How many notifications are neither read, archived nor snoozed. 5,000 means 5,000 or more.',
    }),
  },
  { title: 'UnreadCount' },
);

export const UnseenCount = Type.Object(
  {
    count: Type.Integer({
      minimum: 0,
      description:
        'How many notifications are neither seen, read, archived nor snoozed. 5,000 means 5,000 or more.',
    }),
  },
  { title: 'UnseenCount' },
);

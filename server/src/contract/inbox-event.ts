import { Type } from 'typebox';
import { described, Id, nullable, oneOf, Timestamp } from './common.ts';
import { Notification } from './notification.ts';

/** A change of an inbox, for GraphQL subscriptions. */
export const InboxEvent = Type.Object(
  {
    id: described(Id, 'A unique id.'),
    name: oneOf(
      [
        'new',
        'read',
        'unread',
        'seen',
        'archived',
        'unarchived',
        'delete',
        'snoozed',
        'read_all',
        'seen_all',
        'archive_all',
        'resync',
      ],
      {
        description:
          'What happened to the notification, or to all of the user. `resync`: many changed at once, so ' +
          'fetch the list again.',
      },
    ),
    timestamp: Timestamp,
    notification_id: nullable(
      described(Id, 'The notification; null if the event is about all notifications of the user.'),
    ),
    client_id: nullable(
      Type.String({ description: 'The `X-<BRAND>-CLIENT-ID` of the request that made the change.' }),
    ),
    notification: nullable(Notification),
  },
  { title: 'InboxEvent' },
);

import type { Event, Notification } from './generated/types.ts';

/** Something that happened to the notifications of a user. */
export interface NotificationEvent {
  id: string;
  name:
    | 'notifications/new'
    | 'notifications/read'
    | 'notifications/unread'
    | 'notifications/seen'
    | 'notifications/archived'
    | 'notifications/unarchived'
    | 'notifications/delete'
    | 'notifications/read/all'
    | 'notifications/seen/all'
    | 'notifications/archive/all';
  timestamp: string;
  data: {
    /** The notification, or, where the name ends in `/all`, the user. */
    id: string;
    /** The `clientId` of the client that made the change. */
    client_id?: string;
    /**
     * The notification as it is now. It is left out where there is nothing new to it, and where its text is
     * very large: get it by its id then.
     */
    notification?: Notification;
  };
}

/** Too much was missed to be told: fetch anew what you show, and go on listening. */
export interface ResyncEvent {
  name: 'resync';
}

/** The events of each stream. The API description has no place for those of the inbox. */
interface StreamedEvents {
  streamEvents: Event;
  streamNotifications: NotificationEvent;
}

/** The events of a stream, by its operationId. */
export type EventOf<OperationId extends keyof StreamedEvents> = StreamedEvents[OperationId] | ResyncEvent;

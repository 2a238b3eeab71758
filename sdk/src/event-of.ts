import type { Event, InboxIntegrationConfig, Notification } from './generated/types.ts';

/** A change of the notifications of a user. */
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
    | 'notifications/snoozed'
    | 'notifications/read/all'
    | 'notifications/seen/all'
    | 'notifications/archive/all';
  timestamp: string;
  data: {
    /** The id of the notification; of the user if the name ends in `/all`. */
    id: string;
    /** The `clientId` of the client that made the change. */
    client_id?: string;
    /**
     * The notification as it is now. Missing if nothing in it changed, or if its text is very large: then get
     * it by its id.
     */
    notification?: Notification;
  };
}

/** The config of the inbox was saved. It is not repeated after a reconnection. */
export interface InboxThemeEvent {
  id: string;
  name: 'inbox/theme';
  timestamp: string;
  data: InboxIntegrationConfig;
}

/** Some missed events are no longer available: list again what you show, and continue with the stream. */
export interface ResyncEvent {
  name: 'resync';
}

/** The events of each stream. The API description has no place for those of the inbox. */
interface StreamedEvents {
  streamEvents: Event;
  streamNotifications: NotificationEvent | InboxThemeEvent;
}

/** The events of a stream, by its operationId. */
export type EventOf<OperationId extends keyof StreamedEvents> = StreamedEvents[OperationId] | ResyncEvent;

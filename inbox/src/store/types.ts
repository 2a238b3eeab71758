import type { Notification as StoredNotification } from '@belfry/sdk';

/** A notification of the user. */
export type Notification = Omit<StoredNotification, 'status'> & {
  status: StoredNotification['status'] | 'snoozed';
  /** When a snoozed notification returns. */
  snoozed_until?: string | null;
};

/** Selects the notifications of a list; without a status, all that are neither archived nor snoozed. */
export interface InboxFilter {
  status?: 'unread' | 'read' | 'archived' | 'snoozed' | undefined;
  /** `uncategorized` selects those without one. */
  category?: string | undefined;
  topic?: string | undefined;
}

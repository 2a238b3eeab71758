import type { enDetails } from './en-details.ts';

export const en = {
  title: 'Notifications',
  bell: 'Notifications, {count} new',
  all: 'All',
  unread: 'Unread',
  snoozed: 'Snoozed',
  archived: 'Archive',
  markAllRead: 'Mark all as read',
  archiveAll: 'Archive all',
  preferences: 'Preferences',
  close: 'Close',
  markRead: 'Mark as read',
  markUnread: 'Mark as unread',
  archive: 'Archive',
  unarchive: 'Move to inbox',
  more: 'More actions',
  until: 'Until {time}',
  loading: 'Loading …',
  arrived: 'New notification: {title}',
};

/** The texts of a list. `{name}` is replaced by a value. */
export type ListMessages = Record<keyof typeof en, string>;
/** The texts of the inbox. */
export type Messages = ListMessages & Record<keyof typeof enDetails, string>;

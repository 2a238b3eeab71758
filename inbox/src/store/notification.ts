import type { InboxFilter, Notification } from './types.ts';

/** The members of a notification that a user changes. */
export type Change = Partial<
  Pick<Notification, 'seen_at' | 'read_at' | 'archived_at' | 'discarded_at' | 'snoozed_until'>
>;

/**
 * Returns the notification with its changes and the status that follows from them. If nothing changes, it is
 * the same object, so that it is not rendered again.
 */
export function changed(notification: Notification, change: Change = {}): Notification {
  const names = Object.keys(change) as (keyof Change)[];
  if (names.every((name) => change[name] === notification[name])) return notification;
  const after = { ...notification, ...change };
  return { ...after, status: statusOf(after) };
}

function statusOf({ archived_at, snoozed_until, read_at, seen_at }: Notification): Notification['status'] {
  if (archived_at !== null) return 'archived';
  if (snoozed_until) return 'snoozed';
  if (read_at !== null) return 'read';
  return seen_at === null ? 'unseen' : 'unread';
}

/** The changes that the actions of a user make, at a time. */
export const CHANGES = {
  read: ({ seen_at }: Notification, at: string): Change => ({ read_at: at, seen_at: seen_at ?? at }),
  unread: ({ seen_at }: Notification, at: string): Change => ({ read_at: null, seen_at: seen_at ?? at }),
  seen: ({ seen_at }: Notification, at: string): Change => ({ seen_at: seen_at ?? at }),
  archived: (_: Notification, at: string): Change => ({ archived_at: at, snoozed_until: null }),
  unarchived: (): Change => ({ archived_at: null }),
  delete: (_: Notification, at: string): Change => ({ discarded_at: at }),
};

export type ChangeName = keyof typeof CHANGES;

export const isUnread = ({ status }: Notification): boolean => status === 'unseen' || status === 'unread';

/** Returns whether a list with this filter shows the notification. */
export function isListed(notification: Notification, { status, category, topic }: InboxFilter): boolean {
  const { status: own, discarded_at } = notification;
  if (discarded_at !== null) return false;
  if (category && notification.category !== (category === 'uncategorized' ? null : category)) return false;
  if (topic && notification.topic !== topic) return false;
  if (status === 'unread') return isUnread(notification);
  return status === undefined ? own !== 'archived' && own !== 'snoozed' : own === status;
}

/** The order of a list by arrival, newest first: negative if `a` stands above `b`. */
export function compareArrival(a: Notification, b: Notification): number {
  return arrival(b) - arrival(a) || (a.id < b.id ? 1 : -1);
}

/** When a notification arrived, by the clock of the server. */
export const arrival = ({ sent_at, created_at }: Notification): number => Date.parse(sent_at ?? created_at);

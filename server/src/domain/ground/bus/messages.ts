/** The columns of a broadcast that its notifications show, packed as they are stored (lib/packed-json.ts). */
export interface BroadcastContent {
  category: string | null;
  topic: string | null;
  message: Buffer;
  inApp: Buffer | null;
}

/**
 * What one part of the server tells the others, on this node and on the rest, after the commit that made it
 * true.
 */
export type RealtimeMessage =
  | NotificationsNew
  | NotificationsNewElsewhere
  | NotificationChanged
  | { type: 'token_discarded'; userId: string; tokenId: string }
  /** Nothing is delivered to the user any more: what is open to them is closed. */
  | { type: 'user_deleted'; userId: string }
  /** A deleted user is back. */
  | { type: 'user_restored'; userId: string }
  /** Identities, as caches spell them, that mean another user now, or nobody. */
  | { type: 'identities_changed'; keys: readonly string[] }
  /** Tokens revoked, integrations saved, limits changed: what is cached of the project is out of date. */
  | { type: 'project_changed'; projectId: string }
  /** No place is left in this rate window: who holds some that it does not need gives them back. */
  | { type: 'rate_limit_short'; name: string; nodeId: string }
  | MessagesMissing
  | MessagesMissed;

/** A broadcast's notifications stand in the inboxes of these users. */
export interface NotificationsNew {
  type: 'new';
  projectId: string;
  broadcastId: string;
  userIds: readonly string[];
  /**
   * The page of recipients that is meant (broadcast_users.page); all of the broadcast's where it is left out.
   */
  page?: number;
  /**
   * Only these of the broadcast's users: the list has to be sent along to other nodes, whatever its length.
   */
  only?: true;
  /** `sent_at` of the notifications, by the database's clock. */
  sentAtMs: number;
  /**
   * What is said, where the publisher has it at hand; spares this node a query, and is not sent to the
   * others.
   */
  content?: BroadcastContent;
}

/** Messages for a part of a broadcast's users, each of which fits into one to other nodes. */
export function newToThese(
  message: Omit<NotificationsNew, 'type' | 'userIds' | 'page' | 'only'>,
  userIds: readonly string[],
): NotificationsNew[] {
  const messages: NotificationsNew[] = [];
  for (let start = 0; start < userIds.length; start += MAX_ONLY_USERS)
    messages.push({
      type: 'new',
      ...message,
      userIds: userIds.slice(start, start + MAX_ONLY_USERS),
      only: true,
    });
  return messages;
}

// 39 bytes each, of 7,900 (wire.ts).
const MAX_ONLY_USERS = 100;

/** The same from another node, where the list was too long to send along: it stands in broadcast_users. */
export interface NotificationsNewElsewhere extends Omit<NotificationsNew, 'type' | 'userIds' | 'content'> {
  type: 'new_elsewhere';
}

/** A user changed one notification (`id` is its id) or all of them (`id` is the user's id). */
export interface NotificationChanged {
  type: 'changed';
  userId: string;
  name: ChangeName;
  id: string;
  /** `updated_at` of the notification (of all that were changed), by the database's clock. */
  atMs: number;
  /** The client that asked for it, so that it can skip its own echo. */
  clientId?: string;
}

export type ChangeName =
  | 'read'
  | 'unread'
  | 'seen'
  | 'archived'
  | 'unarchived'
  | 'delete'
  | 'read/all'
  | 'seen/all'
  | 'archive/all';

/**
 * The link to the other nodes is down: what they publish does not arrive here. Made by the bus, for this node
 * alone.
 */
export interface MessagesMissing {
  type: 'missing';
  /** The last time, by the database's clock, at which the link was known to work. */
  sinceMs: number;
}

/**
 * The link is back, or another node lost what it had to say: drop what is cached, and look into the database.
 */
export interface MessagesMissed {
  type: 'missed';
  /**
   * Notifications that came or changed after this time may have gone by. `undefined`: none can have, only
   * cached settings.
   */
  sinceMs: number | undefined;
}

/**
 * Carries messages to every node. Publishing never fails and never waits: what is lost is found again in the
 * database.
 */
export interface Bus {
  publish(message: RealtimeMessage): void;
  /** Calls `handler` for every message from now on; the answer ends that. */
  subscribe(handler: (message: RealtimeMessage) => void): () => void;
}

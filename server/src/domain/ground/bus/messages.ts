import { chunksOf } from '../../../lib/chunks.ts';
import type { JobKind } from '../../../queue/jobs.ts';

/**
 * The columns of a broadcast that its notifications show, compressed as they are stored (lib/packed-json.ts).
 */
export interface BroadcastContent {
  category: string | null;
  topic: string | null;
  message: Buffer;
  inApp: Buffer | null;
}

/**
 * A message between the parts of the server, on this node and on all others. It is published after the commit
 * of the change that it announces.
 */
export type RealtimeMessage =
  | NotificationsNew
  | NotificationsNewElsewhere
  | NotificationChanged
  /** Some of the user's notifications changed, too many for a message each: inboxes fetch their lists. */
  | { type: 'many_changed'; userId: string }
  | { type: 'token_discarded'; userId: string; tokenId: string }
  /** Close the user's connections: nothing is delivered to a deleted user. */
  | { type: 'user_deleted'; userId: string }
  /** A deleted user was restored. */
  | { type: 'user_restored'; userId: string }
  /** Cache keys of identities that now belong to another user, or to no user. */
  | { type: 'identities_changed'; keys: readonly string[] }
  /** Drop what is cached of the project: tokens were revoked, integrations saved or limits changed. */
  | { type: 'project_changed'; projectId: string }
  | AppearanceChanged
  /** Messages of this broadcast that wait are not sent any more. */
  | { type: 'broadcast_cancelled'; broadcastId: string }
  /** Jobs of this kind are ready: other nodes may have capacity for them. */
  | { type: 'jobs'; kind: JobKind; nodeId: string }
  /** No permits are left in this rate window: nodes return those that they reserved and do not need. */
  | { type: 'rate_limit_short'; name: string; nodeId: string }
  /** A pause of an integration began, was extended or ended: nodes read it from the database. */
  | { type: 'pause_changed'; projectId: string; integrationId: string; host: string; nodeId: string }
  /** A cell was added. Only on the bus of the default cell. */
  | { type: 'cells_changed' }
  /** The project is about to switch to another cell: keep its requests for a moment. */
  | { type: 'project_moving'; projectId: string; apiKey: string }
  /** It does not switch yet. */
  | { type: 'project_stays'; projectId: string; apiKey: string }
  /** It lives in this cell now. Its connections have to be opened again. */
  | { type: 'project_moved'; projectId: string; apiKey: string; cell: string }
  | MessagesMissing
  | MessagesMissed;

/** The config of the inbox of a user was saved; without `userId`, that of the project. */
export interface AppearanceChanged {
  type: 'appearance_changed';
  projectId: string;
  userId?: string;
}

/** A broadcast's notifications were added to the inboxes of these users. */
export interface NotificationsNew {
  type: 'new';
  projectId: string;
  broadcastId: string;
  userIds: readonly string[];
  /**
   * The page of recipients (broadcast_users.page); if left out, all recipients of the broadcast.
   */
  page?: number;
  /**
   * Only some users of the broadcast: the list is always sent to other nodes, whatever its length.
   */
  only?: true;
  /** `sent_at` of the notifications: unix milliseconds of the database's clock. */
  sentAtMs: number;
  /**
   * The content, if the publisher has it. It saves a query, and is sent to other nodes over NATS only.
   */
  content?: BroadcastContent;
}

/** Splits a message for some users of a broadcast into messages that each fit into one NOTIFY. */
export function newToThese(
  message: Omit<NotificationsNew, 'type' | 'userIds' | 'page' | 'only'>,
  userIds: readonly string[],
): NotificationsNew[] {
  return chunksOf(userIds, MAX_ONLY_USERS).map((chunk) => ({
    type: 'new',
    ...message,
    userIds: chunk,
    only: true,
  }));
}

// 39 bytes each, of the 7,900 of a NOTIFY (wire.ts).
const MAX_ONLY_USERS = 100;

/** `NotificationsNew` of another node, without its list of users: it was too long, read broadcast_users. */
export interface NotificationsNewElsewhere extends Omit<NotificationsNew, 'type' | 'userIds' | 'content'> {
  type: 'new_elsewhere';
}

/** A user changed one notification (`id` is its id) or all of them (`id` is the user's id). */
export interface NotificationChanged {
  type: 'changed';
  userId: string;
  name: ChangeName;
  id: string;
  /** `updated_at` of the changed notifications: unix milliseconds of the database's clock. */
  atMs: number;
  /** The client that made the change, so that it can ignore this message. */
  clientId?: string;
}

export type ChangeName =
  | 'read'
  | 'unread'
  | 'seen'
  | 'archived'
  | 'unarchived'
  | 'delete'
  | 'snoozed'
  | 'read/all'
  | 'seen/all'
  | 'archive/all';

/**
 * The connection to other nodes is down and their messages do not arrive. Published by the bus on this node.
 */
export interface MessagesMissing {
  type: 'missing';
  /** When the connection last worked: unix milliseconds of the database's clock. */
  sinceMs: number;
}

/**
 * Messages were lost: drop caches and read the database. Published when the connection is back, and by a node
 * that could not send its messages.
 */
export interface MessagesMissed {
  type: 'missed';
  /**
   * Notifications created or changed after this time may have been missed. Undefined if only settings may
   * have been.
   */
  sinceMs: number | undefined;
  /** They were committed before this time: a client for which the database was read since has missed none. */
  untilMs?: number | undefined;
}

/**
 * Carries messages to every node. Publishing never fails and never waits: subscribers recover lost messages
 * from the database.
 */
export interface Bus {
  publish(message: RealtimeMessage): void;
  /** Calls `handler` for every message from now on. Returns a function that ends the subscription. */
  subscribe(handler: (message: RealtimeMessage) => void): () => void;
}

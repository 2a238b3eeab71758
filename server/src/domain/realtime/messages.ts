/** What one part of the server tells the others, on this node and on the rest, after the commit that made it true. */
export type RealtimeMessage =
  | NotificationsNew
  | NotificationChanged
  | { type: 'token_discarded'; userId: string; tokenId: string }
  /** Tokens revoked, integrations saved, limits changed: what is cached of the project is out of date. */
  | { type: 'project_changed'; projectId: string };

/** A broadcast's notifications stand in the inboxes of these users. */
export interface NotificationsNew {
  type: 'new';
  projectId: string;
  broadcastId: string;
  userIds: readonly string[];
  /** `sent_at` of the notifications, by the database's clock. */
  sentAtMs: number;
}

/** A user changed one notification (`id` is its id) or all of them (`id` is the user's id). */
export interface NotificationChanged {
  type: 'changed';
  userId: string;
  name: 'read' | 'unread' | 'seen' | 'archived' | 'unarchived' | 'delete' | 'read/all' | 'seen/all' | 'archive/all';
  id: string;
  /** `updated_at` of the notification, by the database's clock. */
  atMs: number;
  /** The client that asked for it, so that it can skip its own echo. */
  clientId?: string;
}

/** Carries messages to every node. Publishing never fails and never waits: what is lost is found again in the database. */
export interface Bus {
  publish(message: RealtimeMessage): void;
  /** Calls `handler` for every message from now on; the answer ends that. */
  subscribe(handler: (message: RealtimeMessage) => void): () => void;
}

// biome-ignore-all lint/performance/noBarrelFile: the entry of the package, without side effects
export { type BulkFilter, createInbox, type Inbox, type InboxOptions, type InboxSnapshot } from './inbox.ts';
export type { ListSnapshot, NotificationList, Page } from './list.ts';
export type { Connection, Transport } from './transport.ts';
export type { InboxFilter, Notification } from './types.ts';

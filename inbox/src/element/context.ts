import type { Messages } from '../locales/en.ts';
import type { Inbox } from '../store/inbox.ts';
import type { Notification } from '../store/types.ts';
import type { Times } from './time.ts';

/** What the parts of an inbox share. */
export interface Context {
  inbox: Inbox;
  messages: Messages;
  times: Times;
  locale: string;
  /** The label of a category. */
  categoryLabel(key: string): string | undefined;
  /** Called when the user follows a link. Returns false if the page handles it. */
  onFollow(notification: Notification, url: string, action?: string): boolean;
  /** Opens the menu of a notification at a button. */
  openMenu(notification: Notification, anchor: HTMLElement): void;
}

/** Waits for an action of the store, whose failure is in its snapshot. */
export function run(action: Promise<unknown>): void {
  action.catch(() => {});
}

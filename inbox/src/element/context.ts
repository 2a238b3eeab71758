import type { ListMessages, Messages } from '../locales/en.ts';
import type { Inbox } from '../store/inbox.ts';
import type { Notification } from '../store/types.ts';
import type { Times } from './time.ts';

/** What the parts of an inbox share. */
export interface Context {
  inbox: Inbox;
  messages: ListMessages;
  times: Times;
  /** The labels of the categories by their keys, as soon as the details are loaded. */
  categories(): ReadonlyMap<string, string> | undefined;
  /** Called when the user follows a link. Returns false if the page handles it, which excludes new tabs. */
  onFollow(notification: Notification, url: string, action: string | undefined, opensTab: boolean): boolean;
  /** Opens the menu of a notification at a button. */
  openMenu(notification: Notification, anchor: HTMLElement): void;
}

/** The same with the texts and labels of what is loaded beside the list. */
export interface DetailsContext extends Context {
  messages: Messages;
  categories(): ReadonlyMap<string, string>;
}

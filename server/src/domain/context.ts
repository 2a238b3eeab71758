import type { LineContext } from './line/context/context.ts';
import type { BroadcastContents } from './line/notifications/contents.ts';

/** What the domain works with, made once in open.ts. */
export interface Context extends LineContext {
  /** The texts of recent broadcasts, as inboxes show them. */
  readonly contents: BroadcastContents;
}

import type { InboxSnapshot } from '../store/inbox.ts';
import type { Notification } from '../store/types.ts';

/** The events of `<belfry-inbox>`. They bubble, also out of shadow trees. */
export interface BelfryInboxEvents {
  /**
   * The user follows a link. `preventDefault()` keeps it closed; it is not `cancelable` if a middle or Ctrl
   * click opens a new tab. `action` is the label of a button.
   */
  'belfry-click': CustomEvent<{ notification: Notification; url: string; action?: string }>;
  'belfry-new': CustomEvent<{ notification: Notification }>;
  'belfry-change': CustomEvent<InboxSnapshot['counts']>;
  'belfry-open': CustomEvent<object>;
  'belfry-close': CustomEvent<object>;
  'belfry-error': CustomEvent<{ error: Error }>;
}

/** An element with these events. */
export interface BelfryInboxTarget {
  addEventListener<Name extends keyof BelfryInboxEvents>(
    name: Name,
    listener: (event: BelfryInboxEvents[Name]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
}

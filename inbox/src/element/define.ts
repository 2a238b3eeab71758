import { BelfryInbox } from './belfry-inbox.ts';
import type { BelfryInboxEvents } from './events.ts';

export { BelfryInbox, type BelfryInboxEvents };

// Two copies of this package on a page share the first one's element. On a server nothing is defined.
if (globalThis.customElements?.get('belfry-inbox') === undefined)
  globalThis.customElements?.define('belfry-inbox', BelfryInbox);

declare global {
  interface HTMLElementTagNameMap {
    'belfry-inbox': BelfryInbox;
  }
}

import { LRUCache } from 'lru-cache';
import type { Recipient } from '../../contract/broadcast.ts';

// About 20 MB of recipients with names and a few attributes. What does not fit, or was accepted by another node, is read from the database.
const MAX_RECIPIENTS = 50_000;
const TTL_MS = 10_000;

/** Recipients that this process has just accepted, and so need not be read and parsed again for their fan-out. */
export class FreshRecipients {
  readonly #recent = new LRUCache<string, readonly Recipient[]>({
    maxSize: MAX_RECIPIENTS,
    sizeCalculation: (recipients) => recipients.length + 1,
    ttl: TTL_MS,
  });

  put(broadcastId: string, recipients: readonly Recipient[]): void {
    this.#recent.set(broadcastId, recipients);
  }

  /** Those that are at hand, once: a fan-out that is tried again reads the database. */
  take(broadcastIds: readonly string[]): Map<string, readonly Recipient[]> {
    const taken = new Map<string, readonly Recipient[]>();
    for (const id of broadcastIds) {
      const recipients = this.#recent.get(id);
      if (recipients === undefined) continue;
      this.#recent.delete(id);
      taken.set(id, recipients);
    }
    return taken;
  }
}

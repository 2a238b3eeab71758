import { LRUCache } from 'lru-cache';
import type { Recipient } from '../../contract/broadcast.ts';

/** What a fan-out works with, and its row holds. */
export interface FreshBroadcast {
  projectId: string;
  category: string | null;
  topic: string | null;
  /** Packed, as it is stored. */
  message: Buffer;
  inApp: Buffer | null;
  recipients: readonly Recipient[];
}

// About 20 MB of recipients with names and a few attributes. What does not fit, or was accepted by another node, is read from the database.
const MAX_RECIPIENTS = 50_000;
// So many bytes of text weigh as much as a recipient.
const BYTES_PER_RECIPIENT = 400;
const TTL_MS = 10_000;

/** Broadcasts that this process has just accepted, and so need not be read and parsed again for their fan-out. */
export class FreshRecipients {
  readonly #recent = new LRUCache<string, FreshBroadcast>({
    maxSize: MAX_RECIPIENTS,
    sizeCalculation: ({ message, inApp, recipients }) =>
      1 + recipients.length + Math.floor((message.length + (inApp?.length ?? 0)) / BYTES_PER_RECIPIENT),
    ttl: TTL_MS,
  });

  put(broadcastId: string, broadcast: FreshBroadcast): void {
    this.#recent.set(broadcastId, broadcast);
  }

  /** Those that are at hand, once: a fan-out that is tried again reads the database. */
  take(broadcastIds: readonly string[]): Map<string, FreshBroadcast> {
    const taken = new Map<string, FreshBroadcast>();
    for (const id of broadcastIds) {
      const broadcast = this.#recent.get(id);
      if (broadcast === undefined) continue;
      this.#recent.delete(id);
      taken.set(id, broadcast);
    }
    return taken;
  }
}

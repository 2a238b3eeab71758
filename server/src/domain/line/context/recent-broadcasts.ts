import type { Recipient } from '../../../contract/broadcast.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';

/** The part of a broadcast's row that a fan-out works with. */
export interface RecentBroadcast {
  projectId: string;
  content: BroadcastContent;
  recipients: readonly Recipient[];
  template: Buffer | null;
}

// About 20 MB of JSON. The others, and those that another node has accepted, are read from the database.
const MAX_RECIPIENTS = 50_000;
// The bytes of text, or of a recipient with a name and a few attributes, that count as a recipient.
const BYTES_PER_RECIPIENT = 400;
const TTL_MS = 10_000;

/**
 * Broadcasts that this process has just accepted, so that their fan-out need not read and parse them. The
 * oldest are kept, because they are fanned out first. While it is full, newer ones are not kept.
 */
export class RecentBroadcasts {
  readonly #nowMs: () => number;
  readonly #kept = new Map<string, { broadcast: RecentBroadcast; weight: number; untilMs: number }>();
  #weight = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** `characters` is the size of its recipients as JSON. */
  put(broadcastId: string, broadcast: RecentBroadcast, characters: number): void {
    const nowMs = this.#nowMs();
    this.#dropExpired(nowMs);
    const weight = weightOf(broadcast, characters);
    if (this.#weight + weight > MAX_RECIPIENTS) return;
    this.#weight += weight;
    this.#kept.set(broadcastId, { broadcast, weight, untilMs: nowMs + TTL_MS });
  }

  /** Returns and removes those that are kept: a retried fan-out reads the database. */
  take(broadcastIds: readonly string[]): Map<string, RecentBroadcast> {
    const taken = new Map<string, RecentBroadcast>();
    for (const id of broadcastIds) {
      const kept = this.#kept.get(id);
      if (kept !== undefined) taken.set(id, kept.broadcast);
      this.remove(id);
    }
    return taken;
  }

  remove(broadcastId: string): void {
    this.#weight -= this.#kept.get(broadcastId)?.weight ?? 0;
    this.#kept.delete(broadcastId);
  }

  #dropExpired(nowMs: number): void {
    for (const [id, { untilMs }] of this.#kept) {
      if (untilMs > nowMs) return; // later ones expire later
      this.remove(id);
    }
  }
}

function weightOf({ content: { message, inApp }, recipients }: RecentBroadcast, characters: number): number {
  const texts = message.length + (inApp?.length ?? 0);
  const size = Math.max(recipients.length, Math.floor(characters / BYTES_PER_RECIPIENT));
  return 1 + size + Math.floor(texts / BYTES_PER_RECIPIENT);
}

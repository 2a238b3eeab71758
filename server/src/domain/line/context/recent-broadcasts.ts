import type { Recipient } from '../../../contract/broadcast.ts';
import type { BroadcastContent } from '../../ground/bus/messages.ts';

/** The part of a broadcast's row that a fan-out works with. */
export interface RecentBroadcast {
  projectId: string;
  content: BroadcastContent;
  recipients: readonly Recipient[];
  template: Buffer | null;
}

// About 20 MB of recipients with names and a few attributes. The others, and those that another node has
// accepted, are read from the database.
const MAX_RECIPIENTS = 50_000;
// The bytes of text that weigh as much as a recipient.
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

  put(broadcastId: string, broadcast: RecentBroadcast): void {
    const nowMs = this.#nowMs();
    this.#dropExpired(nowMs);
    const weight = weightOf(broadcast);
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

function weightOf({ content: { message, inApp }, recipients }: RecentBroadcast): number {
  return 1 + recipients.length + Math.floor((message.length + (inApp?.length ?? 0)) / BYTES_PER_RECIPIENT);
}

import type { Recipient } from '../../../contract/broadcast.ts';

/** The part of a broadcast's row that a fan-out works with. */
export interface FreshBroadcast {
  projectId: string;
  category: string | null;
  topic: string | null;
  /** Packed, as it is stored. */
  message: Buffer;
  inApp: Buffer | null;
  recipients: readonly Recipient[];
}

// About 20 MB of recipients with names and a few attributes. The others, and those that another node has
// accepted, are read from the database.
const MAX_RECIPIENTS = 50_000;
// The bytes of text that weigh as much as a recipient.
const BYTES_PER_RECIPIENT = 400;
const TTL_MS = 10_000;

/**
 * Broadcasts that this process has just accepted, so that their fan-out need not read and parse them. The
 * oldest are kept, because they are fanned out first. When the fan-out is behind, the others become garbage
 * while they are young, which costs the collector least.
 */
export class FreshRecipients {
  readonly #nowMs: () => number;
  readonly #kept = new Map<string, { broadcast: FreshBroadcast; weight: number; untilMs: number }>();
  #weight = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  put(broadcastId: string, broadcast: FreshBroadcast): void {
    const nowMs = this.#nowMs();
    this.#dropExpired(nowMs);
    const weight = weightOf(broadcast);
    if (this.#weight + weight > MAX_RECIPIENTS) return;
    this.#weight += weight;
    this.#kept.set(broadcastId, { broadcast, weight, untilMs: nowMs + TTL_MS });
  }

  /** Returns and removes those that are kept: a retried fan-out reads the database. */
  take(broadcastIds: readonly string[]): Map<string, FreshBroadcast> {
    const taken = new Map<string, FreshBroadcast>();
    for (const id of broadcastIds) {
      const kept = this.#kept.get(id);
      if (kept === undefined) continue;
      this.#drop(id, kept.weight);
      taken.set(id, kept.broadcast);
    }
    return taken;
  }

  #dropExpired(nowMs: number): void {
    for (const [id, { weight, untilMs }] of this.#kept) {
      if (untilMs > nowMs) return; // later ones expire later
      this.#drop(id, weight);
    }
  }

  #drop(broadcastId: string, weight: number): void {
    this.#kept.delete(broadcastId);
    this.#weight -= weight;
  }
}

function weightOf({ message, inApp, recipients }: FreshBroadcast): number {
  return 1 + recipients.length + Math.floor((message.length + (inApp?.length ?? 0)) / BYTES_PER_RECIPIENT);
}

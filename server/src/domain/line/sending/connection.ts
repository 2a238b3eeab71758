import { hash } from 'node:crypto';
import type { Clock } from '../../../lib/clock.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { delivering } from '../../../providers/index.ts';
import type { Message, Provider, Sender, SenderDeps, SendOutcome } from '../../../providers/provider.ts';
import type { OpenedIntegration } from '../../setup/integrations/cache.ts';
import type { RateLimit } from './rate-limiter.ts';

export interface ConnectionDeps extends SenderDeps {
  clock: Clock;
  /** How long messages wait for room while the provider responds to nothing. */
  patienceMs?: number;
}

// Characters in flight over one integration. A message of 10 MiB takes some 40 MB while it is sent, and
// rendering it blocks the process for 0.2 s: a whole batch at once would take all memory.
const MAX_CHARACTERS_IN_FLIGHT = 48 * 1024 * 1024;
// If all room is taken and no response came for this long, messages that wait for room are deferred.
const PATIENCE_MS = 5_000;
// The most messages in flight to a downstream host that has not responded for PATIENCE_MS. Each of them keeps
// a batch of the queue waiting.
const MAX_UNANSWERED = 4;
// Messages are deferred by this time or up to twice as much: by then the responses came, or timed out.
// Messages that are deferred within a second get the same time, so that they stay one job.
const STALLED_DEFERRAL_MS = 15_000;
const SAME_STALL_MS = 1_000;
// A longer destination (an address) is identified by its hash.
const LONGEST_KEY = 60;

/** An integration at work: its sender, and limits on what is in flight over it. */
export class ChannelConnection {
  readonly integration: OpenedIntegration;
  readonly provider: Provider;
  readonly #sender: Sender<Message>;
  readonly #limiter: Limiter;
  readonly #limits: readonly RateLimit[];
  readonly #clock: Clock;
  readonly #patienceMs: number;
  /** The messages in flight by downstream host, and the time of its last response. */
  readonly #inFlight = new Map<string, { count: number; silentSinceMs: number }>();
  /** Runs while messages wait for room; each response restarts it. */
  #patience: NodeJS.Timeout | undefined;
  #stalled = false;
  /** The time that the last deferred messages got, and when the first of them got it. */
  #deferral: { untilMs: number; sinceMs: number } | undefined;
  #usedAtMs: number;
  #closed = false;

  /** Connects an integration. Throws if its provider does not send on the channel. */
  constructor(deps: ConnectionDeps, channel: Provider['channel'], integration: OpenedIntegration) {
    const { projectId, id, version, config } = integration;
    const found = delivering.get(integration.provider);
    if (found?.channel !== channel) throw new Error(`${integration.provider} does not send ${channel}`);
    // A provider of some channel: it is only given messages that were rendered for that channel.
    const provider = found as unknown as Provider;
    this.integration = integration;
    this.provider = provider;
    this.#sender = provider.connect(config, deps);
    this.#limiter = new Limiter({ maxCount: this.#sender.concurrency, maxWeight: MAX_CHARACTERS_IN_FLIGHT });
    const rates = provider.rates?.integration?.(config) ?? [];
    this.#limits = rates.length === 0 ? [] : [{ key: `${projectId}:${id}:${version}`, rates }];
    this.#clock = deps.clock;
    this.#patienceMs = deps.patienceMs ?? PATIENCE_MS;
    this.#usedAtMs = performance.now();
  }

  /** A connection with a newer config has replaced this one, or the server stops. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** Whether nothing is in flight and nothing was sent for `durationMs`. */
  isIdle(durationMs: number): boolean {
    return !this.#limiter.busy && performance.now() - this.#usedAtMs > durationMs;
  }

  /**
   * Whether the downstream host or the destination, which have limits of their own, depend on the message.
   */
  get isRoutedByMessage(): boolean {
    return this.provider.downstreamHost !== undefined || this.provider.rates?.destination !== undefined;
  }

  /** The rate limits of the integration and, across the project's integrations, of the destination. */
  limitsOf(message: Message | undefined): readonly RateLimit[] {
    const destination = this.provider.rates?.destination;
    if (destination === undefined || message === undefined) return this.#limits;
    const named = destination.key(message);
    const key = named.length <= LONGEST_KEY ? named : hash('sha256', named, 'base64url');
    const { projectId } = this.integration;
    return [...this.#limits, { key: `${projectId}:${this.provider.name}:${key}`, rates: destination.rates }];
  }

  /**
   * Waits for room for one message; `release` gives it back. Resolves with `stalled` if the provider does not
   * respond to what is in flight, and with `closed` if the connection is closed.
   */
  async acquire(host: string, weight: number): Promise<'acquired' | 'stalled' | 'closed'> {
    const limiter = this.#limiter;
    if (!this.#closed && !this.#isHanging(host) && !(this.#stalled && !limiter.hasRoom(weight))) {
      const acquired = limiter.acquire(weight);
      if (limiter.waiting > 0) this.#patience ??= setTimeout(() => this.#endPatience(), this.#patienceMs);
      if (await acquired) return 'acquired';
    }
    return this.#closed ? 'closed' : 'stalled';
  }

  release(weight: number): void {
    this.#limiter.release(weight);
  }

  async send(host: string, message: Message): Promise<SendOutcome> {
    const inFlight = this.#inFlight.get(host) ?? { count: 0, silentSinceMs: performance.now() };
    if (inFlight.count === 0) this.#inFlight.set(host, inFlight);
    inFlight.count += 1;
    try {
      return await this.#sender.send(message);
    } finally {
      inFlight.count -= 1;
      if (inFlight.count === 0) this.#inFlight.delete(host);
      inFlight.silentSinceMs = performance.now();
      this.#usedAtMs = inFlight.silentSinceMs;
      this.#stalled = false;
      this.#patience?.refresh();
    }
  }

  /** Until when messages are deferred while the connection is stalled. */
  stalledUntilMs(): number {
    const nowMs = performance.now();
    if (this.#deferral === undefined || nowMs - this.#deferral.sinceMs >= SAME_STALL_MS) {
      const deferMs = Math.round(STALLED_DEFERRAL_MS * (1 + Math.random()));
      this.#deferral = { untilMs: this.#clock.now() + deferMs, sinceMs: nowMs };
    }
    return this.#deferral.untilMs;
  }

  /** Lets no more messages through. Those in flight have `graceMs` to finish. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#patience);
    this.#limiter.rejectWaiting();
    await this.#sender.close(options);
  }

  #endPatience(): void {
    this.#patience = undefined;
    this.#stalled = this.#limiter.waiting > 0;
    this.#limiter.rejectWaiting();
  }

  #isHanging(host: string): boolean {
    const inFlight = this.#inFlight.size === 0 ? undefined : this.#inFlight.get(host);
    if (inFlight === undefined || inFlight.count < MAX_UNANSWERED) return false;
    return performance.now() - inFlight.silentSinceMs >= this.#patienceMs;
  }
}

import { hash } from 'node:crypto';
import type { Clock } from '../../../lib/clock.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { delivering } from '../../../providers/index.ts';
import type { MessageOf, Provider, Sender, SenderDeps, SendOutcome } from '../../../providers/provider.ts';
import type { OpenedIntegration } from '../../setup/integrations/of-project.ts';
import type { Limit } from './rates.ts';

export interface LineDeps extends SenderDeps {
  clock: Clock;
  /** How long those who stand behind sends without an answer wait for one to come. */
  patienceMs?: number;
}

// What is on its way over one integration has this much text. A message of 10 MiB takes some 40 MB while it
// is sent, and 0.2 s to be made, in which nothing else happens: all of a batch at once would take the memory
// of the whole server.
const MAX_CHARACTERS_IN_FLIGHT = 48 * 1024 * 1024;
// So long without any answer, while all places are taken, and those who wait for one are sent away.
const PATIENCE_MS = 5_000;
// So many may be under way to one party that has answered none of them for as long; each keeps a batch of the
// queue waiting.
const MAX_UNANSWERED = 4;
// They come back after this time or up to twice as much: by then the answers are there, or have timed out.
// Those who are sent away within a second come back together: they are one job, which would otherwise come
// back as many.
const STALLED_HOLD_MS = 15_000;
const SAME_STALL_MS = 1_000;
// A longer name of a destination (an address) is known by its hash.
const LONGEST_KEY = 60;

type Message = MessageOf[keyof MessageOf];

/** An integration at work: its sender, and bounds on what is under way over it. */
export class Line {
  readonly integration: OpenedIntegration;
  readonly provider: Provider;
  readonly #sender: Sender<Message>;
  readonly #limiter: Limiter;
  readonly #limits: readonly Limit[];
  readonly #clock: Clock;
  readonly #patienceMs: number;
  /** What is under way, by party, and since when no answer came. */
  readonly #flights = new Map<string, { count: number; silentSinceMs: number }>();
  /** Runs while somebody waits, from the last answer on; when it is over, nobody waits until the next. */
  #patience: NodeJS.Timeout | undefined;
  #stalled = false;
  /** When who was sent away last comes back, and since when that is told. */
  #again: { untilMs: number; toldMs: number } | undefined;
  #usedAtMs: number;
  #retired = false;

  constructor(deps: LineDeps, provider: Provider, integration: OpenedIntegration) {
    const { projectId, id, version, config } = integration;
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

  /** Another has taken its place, with a newer config, or the server stops. */
  get isRetired(): boolean {
    return this.#retired;
  }

  /** Nothing is on its way, and nothing was sent for so long. */
  isIdle(sinceMs: number): boolean {
    return !this.#limiter.busy && performance.now() - this.#usedAtMs > sinceMs;
  }

  /**
   * How often may be sent: over the integration, and to the destination; that is the same whatever
   * integration of the project it is.
   */
  limitsOf(message: Message | undefined): readonly Limit[] {
    const destination = this.provider.rates?.destination;
    if (destination === undefined || message === undefined) return this.#limits;
    const name = destination.key(message);
    const key = name.length > LONGEST_KEY ? hash('sha256', name, 'base64url') : name;
    const { projectId } = this.integration;
    return [...this.#limits, { key: `${projectId}:${this.provider.name}:${key}`, rates: destination.rates }];
  }

  /**
   * Runs `attempt` when there is room for it, or `sentAway` where what is under way gets no answers, or the
   * line is retired.
   */
  whenThereIsRoom<Result>(
    { party, weight }: { party: string; weight: number },
    attempt: () => Promise<Result>,
    sentAway: () => Result,
  ): Promise<Result> {
    const limiter = this.#limiter;
    if (this.#retired || this.#isHanging(party) || (this.#stalled && !limiter.hasRoom(weight)))
      return Promise.resolve(sentAway());
    const result = limiter.run(weight, attempt, sentAway);
    if (limiter.waiting > 0) {
      this.#patience ??= setTimeout(() => {
        this.#patience = undefined;
        this.#stalled = limiter.waiting > 0;
        limiter.sendAway();
      }, this.#patienceMs);
    }
    return result;
  }

  /** Sends, and notes that it is under way and that it has ended. */
  async send(party: string, message: Message): Promise<SendOutcome> {
    const flight = this.#flights.get(party) ?? { count: 0, silentSinceMs: performance.now() };
    if (flight.count === 0) this.#flights.set(party, flight);
    flight.count += 1;
    try {
      return await this.#sender.send(message);
    } finally {
      flight.count -= 1;
      if (flight.count === 0) this.#flights.delete(party);
      flight.silentSinceMs = performance.now();
      this.#usedAtMs = flight.silentSinceMs;
      this.#stalled = false;
      this.#patience?.refresh();
    }
  }

  /** When who was sent away comes back. */
  askAgainMs(): number {
    const toldMs = performance.now();
    if (this.#again === undefined || toldMs - this.#again.toldMs >= SAME_STALL_MS) {
      const holdMs = Math.round(STALLED_HOLD_MS * (1 + Math.random()));
      this.#again = { untilMs: this.#clock.now() + holdMs, toldMs };
    }
    return this.#again.untilMs;
  }

  /** Lets nothing more through; who waits is to look for another, and what is on its way gets `graceMs`. */
  async close(options: { graceMs?: number } = {}): Promise<void> {
    this.#retired = true;
    clearTimeout(this.#patience);
    this.#limiter.sendAway();
    await this.#sender.close(options);
  }

  #isHanging(party: string): boolean {
    const flight = this.#flights.size === 0 ? undefined : this.#flights.get(party);
    if (flight === undefined || flight.count < MAX_UNANSWERED) return false;
    return performance.now() - flight.silentSinceMs >= this.#patienceMs;
  }
}

/** A line of the integration's provider. Throws where that does not send on the channel. */
export function openLine(deps: LineDeps, channel: keyof MessageOf, integration: OpenedIntegration): Line {
  const found = delivering.get(integration.provider);
  if (found?.channel !== channel) throw new Error(`${integration.provider} does not send ${channel}`);
  // One of some channel: it is only given messages that were made for that channel.
  return new Line(deps, found as unknown as Provider, integration);
}

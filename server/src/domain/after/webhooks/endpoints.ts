import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { backoff } from '../../../queue/backoff.ts';
import type { Attempt } from './send.ts';

// Requests in flight to one webhook from this server. More could overload a small receiver.
const CONCURRENCY = 8;
// After this many failures in a row a webhook is down. Its messages are deferred, so that not each of them
// waits for a timeout.
const FAILURES_IN_A_ROW = 8;
// If all requests have been in flight for this long without a response, the webhook hangs. Messages that wait
// for a permit are deferred.
const PATIENCE_MS = 5_000;
const HANGING_PAUSE_MS = 15_000;
// A webhook that is down gets a probe after a pause: up to 1 s, 5 s, 30 s, and then at least every minute.
const MAX_PAUSE_MS = 60_000;
const WHILE_PROBING_MS = 5_000;
// Evicts the least recently used; 500 bytes each.
const MAX_ENDPOINTS = 10_000;

/** The message was not sent, and may be sent from then on. */
export interface Deferral {
  deferredUntilMs: number;
}

/** The webhooks that this server sends to: how many requests are in flight, and whether each responds. */
export class Endpoints {
  readonly #clock: Clock;
  readonly #endpoints = new LRUCache<string, Endpoint>(cacheLimit(MAX_ENDPOINTS));

  constructor({ clock }: { clock: Clock }) {
    this.#clock = clock;
  }

  /** The state of a webhook. Saving or enabling the webhook resets it. */
  of({ id, updated_at: savedAt }: { id: string; updated_at: Date }): Endpoint {
    const key = `${id} ${savedAt.getTime()}`;
    const known = this.#endpoints.get(key);
    if (known !== undefined) return known;
    const endpoint = new Endpoint(this.#clock);
    this.#endpoints.set(key, endpoint);
    return endpoint;
  }
}

/** One webhook. While it is down, it gets one request per pause, however many messages wait. */
export class Endpoint {
  readonly #clock: Clock;
  readonly #limiter = new Limiter({ maxCount: CONCURRENCY, maxWeight: CONCURRENCY });
  #open = 0;
  #failures = 0;
  #pauses = 0;
  #pausedUntilMs = 0;
  #isProbing = false;
  /** When the last response arrived, or the first request after a time without any started. */
  #respondedMs = 0;
  #patience: NodeJS.Timeout | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends when there is a permit, unless the webhook is down or `mayStart` returns false by then. */
  async send(
    attempt: () => Promise<Attempt | 'interrupted'>,
    mayStart: () => boolean,
  ): Promise<Attempt | Deferral> {
    const down = this.#down();
    if (down !== undefined) return down;
    const result = this.#limiter.run(
      1,
      async () => this.#down() ?? (mayStart() ? this.#attempt(attempt) : this.#later()),
      () => this.#down() ?? this.#later(),
    );
    if (this.#limiter.waiting > 0) this.#patience ??= setTimeout(() => this.#afterPatience(), PATIENCE_MS);
    return result;
  }

  /** Until when nothing is sent to it, or undefined if it is up as far as we know. */
  #down(): Deferral | undefined {
    const nowMs = this.#clock.now();
    if (this.#isPaused(nowMs)) return { deferredUntilMs: this.#pausedUntilMs };
    if (this.#isHanging()) return { deferredUntilMs: nowMs + HANGING_PAUSE_MS };
    return this.#isProbing ? { deferredUntilMs: nowMs + WHILE_PROBING_MS } : undefined;
  }

  /** An end that is further away than any pause is long means that the clock was set back: no pause. */
  #isPaused(nowMs: number): boolean {
    return nowMs < this.#pausedUntilMs && nowMs >= this.#pausedUntilMs - MAX_PAUSE_MS;
  }

  #isHanging(): boolean {
    return this.#open >= CONCURRENCY && performance.now() - this.#respondedMs >= PATIENCE_MS;
  }

  #later(): Deferral {
    return { deferredUntilMs: this.#clock.now() + backoff(1) };
  }

  /** Defers the messages that wait behind hanging requests. After a response they continue to wait. */
  #afterPatience(): void {
    this.#patience = undefined;
    if (this.#isHanging()) this.#limiter.rejectWaiting();
    else if (this.#limiter.waiting > 0) this.#patience = setTimeout(() => this.#afterPatience(), PATIENCE_MS);
  }

  async #attempt(attempt: () => Promise<Attempt | 'interrupted'>): Promise<Attempt | Deferral> {
    const isProbe = this.#failures >= FAILURES_IN_A_ROW;
    if (isProbe) this.#isProbing = true;
    if (this.#open === 0) this.#respondedMs = performance.now();
    this.#open += 1;
    try {
      const result = await attempt();
      if (result === 'interrupted') return this.#later();
      this.#note(result);
      return result;
    } finally {
      this.#open -= 1;
      this.#respondedMs = performance.now();
      if (isProbe) this.#isProbing = false;
    }
  }

  #note({ accepted, gone }: Attempt): void {
    if (accepted) {
      this.#failures = 0;
      this.#pauses = 0;
      this.#pausedUntilMs = 0;
      return;
    }
    this.#failures = gone ? FAILURES_IN_A_ROW : this.#failures + 1;
    // Requests that were in flight when the pause started do not extend it.
    const nowMs = this.#clock.now();
    if (this.#failures < FAILURES_IN_A_ROW || this.#isPaused(nowMs)) return;
    this.#pauses += 1;
    this.#pausedUntilMs = nowMs + Math.min(backoff(this.#pauses), MAX_PAUSE_MS);
  }
}

import { LRUCache } from 'lru-cache';
import { cacheLimit } from '../../../lib/cache-limit.ts';
import type { Clock } from '../../../lib/clock.ts';
import { Limiter } from '../../../lib/limiter.ts';
import { backoff } from '../../../queue/backoff.ts';
import type { Attempt } from './send.ts';

// Requests open to one webhook at the same time, from this server. More are hard on a small receiver.
const CONCURRENCY = 8;
// A webhook at which so many requests failed in a row is down. Its messages are put off, so that they do not
// wait for a timeout each.
const FAILURES_IN_A_ROW = 8;
// One at which all requests have been open for so long without any response is hanging. What waits for a
// permit is put off.
const PATIENCE_MS = 5_000;
const HANGING_HOLD_MS = 15_000;
// A webhook that is down gets one request after a pause: up to 1 s, 5 s, 30 s, and then every minute at the
// latest.
const LONGEST_PAUSE_MS = 60_000;
const WHILE_PROBING_MS = 5_000;
// Of others the state is forgotten, those that were not used for longest first. 500 bytes each.
const MAX_ENDPOINTS = 10_000;

/** Not tried, and to be tried from then on. */
export interface PutOff {
  putOffUntilMs: number;
}

/** The webhooks that this server sends to: how many requests are open, and whether each of them responds. */
export class Endpoints {
  readonly #clock: Clock;
  readonly #endpoints = new LRUCache<string, Endpoint>(cacheLimit(MAX_ENDPOINTS));

  constructor({ clock }: { clock: Clock }) {
    this.#clock = clock;
  }

  /** What was learned of a webhook before it was saved again, or enabled, no longer counts. */
  of({ id, updated_at: savedAt }: { id: string; updated_at: Date }): Endpoint {
    const key = `${id} ${savedAt.getTime()}`;
    const known = this.#endpoints.get(key);
    if (known !== undefined) return known;
    const endpoint = new Endpoint(this.#clock);
    this.#endpoints.set(key, endpoint);
    return endpoint;
  }
}

/** One webhook. A dead one costs a request after each pause, whatever waits for it. */
export class Endpoint {
  readonly #clock: Clock;
  readonly #limiter = new Limiter({ maxCount: CONCURRENCY, maxWeight: CONCURRENCY });
  #open = 0;
  #failures = 0;
  #pauses = 0;
  #pausedUntilMs = 0;
  #isProbing = false;
  /** When the last response came, or the first request after a while began. */
  #respondedMs = 0;
  #patience: NodeJS.Timeout | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends when there is a permit, unless the webhook is down or `mayStart` returns false by then. */
  async send(
    attempt: () => Promise<Attempt | 'put off'>,
    mayStart: () => boolean,
  ): Promise<Attempt | PutOff> {
    const down = this.#down();
    if (down !== undefined) return down;
    const result = this.#limiter.run(
      1,
      async () => this.#down() ?? (mayStart() ? this.#attempt(attempt) : this.#nextTurn()),
      () => this.#down() ?? this.#nextTurn(),
    );
    if (this.#limiter.waiting > 0) this.#patience ??= setTimeout(() => this.#afterPatience(), PATIENCE_MS);
    return result;
  }

  /** Until when nothing is sent to it; undefined if it responds, as far as is known. */
  #down(): PutOff | undefined {
    const nowMs = this.#clock.now();
    if (nowMs < this.#pausedUntilMs) return { putOffUntilMs: this.#pausedUntilMs };
    if (this.#isHanging()) return { putOffUntilMs: nowMs + HANGING_HOLD_MS };
    return this.#isProbing ? { putOffUntilMs: nowMs + WHILE_PROBING_MS } : undefined;
  }

  #isHanging(): boolean {
    return this.#open >= CONCURRENCY && performance.now() - this.#respondedMs >= PATIENCE_MS;
  }

  #nextTurn(): PutOff {
    return { putOffUntilMs: this.#clock.now() + backoff(1) };
  }

  /**
   * Everyone who waits behind requests that hang is put off; where responses came meanwhile they go on
   * waiting.
   */
  #afterPatience(): void {
    this.#patience = undefined;
    if (this.#isHanging()) this.#limiter.sendAway();
    else if (this.#limiter.waiting > 0) this.#patience = setTimeout(() => this.#afterPatience(), PATIENCE_MS);
  }

  async #attempt(attempt: () => Promise<Attempt | 'put off'>): Promise<Attempt | PutOff> {
    const isProbe = this.#failures >= FAILURES_IN_A_ROW;
    if (isProbe) this.#isProbing = true;
    if (this.#open === 0) this.#respondedMs = performance.now();
    this.#open += 1;
    try {
      const result = await attempt();
      if (result === 'put off') return this.#nextTurn();
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
    // Those that were open when it was paused say nothing new.
    if (this.#failures < FAILURES_IN_A_ROW || this.#clock.now() < this.#pausedUntilMs) return;
    this.#pauses += 1;
    this.#pausedUntilMs = this.#clock.now() + Math.min(backoff(this.#pauses), LONGEST_PAUSE_MS);
  }
}

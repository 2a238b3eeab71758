/** The result of a request for a permit. */
export interface Taken {
  allowed: boolean;
  remaining: number;
  /** The time until a permit is available (if rejected), or until the next one becomes available. */
  resetSeconds: number;
}

const BUCKET_MS = 1_000;
// A minute. The current second is incomplete, so a caller that waits 60 s is admitted.
const BUCKETS = 60;

/**
 * Counts the events of the last minute, per second. Admits at most the limit in any 59 seconds, and a permit
 * becomes available again after at most 60: a fixed window would admit twice the limit around its edge. Its
 * memory does not depend on the limit.
 */
export class SlidingWindow {
  readonly #counts = new Uint32Array(BUCKETS);
  #total = 0;
  #second = 0;

  /** Acquires a permit if there is one. */
  take(limit: number, nowMs: number): Taken {
    this.#advance(Math.floor(nowMs / BUCKET_MS));
    const allowed = this.#total < limit;
    if (allowed) {
      const bucket = this.#second % BUCKETS;
      this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
      this.#total += 1;
    }
    return { allowed, remaining: Math.max(0, limit - this.#total), resetSeconds: this.#untilFree() };
  }

  /** Returns the rejection if no permit is left, without acquiring one; otherwise undefined. */
  refusal(limit: number, nowMs: number): Taken | undefined {
    this.#advance(Math.floor(nowMs / BUCKET_MS));
    if (this.#total < limit) return undefined;
    return { allowed: false, remaining: 0, resetSeconds: this.#untilFree() };
  }

  #advance(second: number): void {
    // If the clock went back, events count in the newest second. If it went back by a minute or more, the
    // window is reset, because otherwise no permit would become available until the clock catches up.
    const passed = second - this.#second;
    if (passed <= 0 && passed > -BUCKETS) return;
    if (Math.abs(passed) >= BUCKETS) {
      this.#counts.fill(0);
      this.#total = 0;
    } else {
      for (let next = this.#second + 1; next <= second; next += 1) {
        this.#total -= this.#counts[next % BUCKETS] ?? 0;
        this.#counts[next % BUCKETS] = 0;
      }
    }
    this.#second = second;
  }

  #untilFree(): number {
    for (let age = BUCKETS - 1; age >= 0; age -= 1) {
      if ((this.#counts[(this.#second - age + BUCKETS) % BUCKETS] ?? 0) > 0) return BUCKETS - age;
    }
    return 0;
  }
}

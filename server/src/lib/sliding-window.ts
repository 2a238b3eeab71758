/** Whether a place was taken, and what is left. */
export interface Taken {
  allowed: boolean;
  remaining: number;
  /** Until a place is free (when refused), or until the next one falls free. */
  resetSeconds: number;
}

const BUCKET_MS = 1_000;
// A minute, of which the last second is under way: whoever waits 60 s is let through.
const BUCKETS = 60;

/**
 * Counts what happened in the last minute, by the second. Never more than the limit is allowed in any 59
 * seconds, and a place is free again after 60 at the latest: a fixed window would let twice as many through
 * around its edge. It takes the same memory whatever the limit.
 */
export class SlidingWindow {
  readonly #counts = new Uint32Array(BUCKETS);
  #total = 0;
  #second = 0;

  /** Takes one place if there is one. */
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

  /** Says that no place is left, and when one will be; undefined where there is one. Takes none. */
  refusal(limit: number, nowMs: number): Taken | undefined {
    this.#advance(Math.floor(nowMs / BUCKET_MS));
    if (this.#total < limit) return undefined;
    return { allowed: false, remaining: 0, resetSeconds: this.#untilFree() };
  }

  #advance(second: number): void {
    // A clock that went back counts on in the newest second; one that went back by more than a minute begins
    // anew, or nothing would fall free until it is where it was.
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

const RESTORED_AFTER_MS = 600_000;

/**
 * Limits the connections to a server by the messages that are sent at the same time. A server that allows
 * fewer gets half as many, until ten minutes later.
 */
export class ConnectionLimit {
  readonly #most: number;
  readonly #now: () => number;
  readonly #waiting: ((isReleased: boolean) => void)[] = [];
  #allowed: number;
  #active = 0;
  #loweredAtMs = 0;

  constructor(most: number, now: () => number) {
    this.#most = most;
    this.#allowed = most;
    this.#now = now;
  }

  /**
   * Resolves as soon as a message may be sent, with the number allowed by then. Then call `release`. Resolves
   * with undefined if `rejectWaiting` was called meanwhile.
   */
  async acquire(): Promise<number | undefined> {
    if (this.#allowed < this.#most && this.#now() - this.#loweredAtMs >= RESTORED_AFTER_MS)
      this.#allowed = this.#most;
    if (this.#active < this.#allowed) this.#active += 1;
    else if (!(await new Promise<boolean>((resolve) => this.#waiting.push(resolve)))) return undefined;
    return this.#allowed;
  }

  release(): void {
    this.#active -= 1;
    while (this.#active < this.#allowed) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#active += 1;
      next(true);
    }
  }

  /** Lets none of the messages wait that wait now. */
  rejectWaiting(): void {
    for (const next of this.#waiting.splice(0)) next(false);
  }

  /**
   * Halves the limit, because `allowed` messages at once were too many. Returns whether it has done so: many
   * messages fail for the same reason at the same time.
   */
  lower(allowed: number): boolean {
    this.#loweredAtMs = this.#now();
    if (allowed !== this.#allowed || allowed === 1) return false;
    this.#allowed = Math.floor(allowed / 2);
    return true;
  }
}

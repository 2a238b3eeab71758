/** Limits the work in flight. Work beyond the limit waits, first come first served. */
export class Limiter {
  readonly #maxCount: number;
  readonly #maxWeight: number;
  readonly #waiting: { weight: number; end: (hasRoom: boolean) => void }[] = [];
  #count = 0;
  #weight = 0;

  /** One piece of work may always start, whatever its weight. */
  constructor(options: { maxCount: number; maxWeight: number }) {
    this.#maxCount = options.maxCount;
    this.#maxWeight = options.maxWeight;
  }

  /** Whether any work is in flight. */
  get busy(): boolean {
    return this.#count > 0;
  }

  /** Whether work of this weight would start at once. */
  hasRoom(weight: number): boolean {
    return this.#waiting.length === 0 && this.#fits(weight);
  }

  /** The number of pieces of work that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs the work as soon as there is room, or `onRejected` if `rejectWaiting` is called before. */
  async run<Result, Rejected = never>(
    weight: number,
    work: () => Promise<Result>,
    onRejected?: () => Rejected,
  ): Promise<Result | Rejected> {
    if (!(await this.acquire(weight)) && onRejected !== undefined) return onRejected();
    try {
      return await work();
    } finally {
      this.release(weight);
    }
  }

  /**
   * Resolves with true as soon as there is room; the caller must `release` it. Resolves with false if
   * `rejectWaiting` is called before.
   */
  acquire(weight: number): Promise<boolean> {
    if (this.hasRoom(weight)) {
      this.#begin(weight);
      return Promise.resolve(true);
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ weight, end: resolve });
    return promise;
  }

  release(weight: number): void {
    this.#count -= 1;
    this.#weight -= weight;
    this.#startNext();
  }

  /** Rejects everything that waits for room. */
  rejectWaiting(): void {
    for (const { end } of this.#waiting.splice(0)) end(false);
  }

  #begin(weight: number): void {
    this.#count += 1;
    this.#weight += weight;
  }

  #fits(weight: number): boolean {
    return this.#count === 0 || (this.#count < this.#maxCount && this.#weight + weight <= this.#maxWeight);
  }

  #startNext(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || !this.#fits(next.weight)) return;
      this.#waiting.shift();
      this.#begin(next.weight);
      next.end(true);
    }
  }
}

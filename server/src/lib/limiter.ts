/** Lets only so much work go on at the same time; what comes beyond that waits its turn. */
export class Limiter {
  readonly #maxCount: number;
  readonly #maxWeight: number;
  readonly #waiting: { weight: number; end: (hasTurn: boolean) => void }[] = [];
  #count = 0;
  #weight = 0;

  /** However heavy it is, a single piece of work may always go on. */
  constructor(options: { maxCount: number; maxWeight: number }) {
    this.#maxCount = options.maxCount;
    this.#maxWeight = options.maxWeight;
  }

  /** Work that goes on or waits. */
  get busy(): boolean {
    return this.#count > 0;
  }

  /** Whether work of this weight would begin at once. */
  hasRoom(weight: number): boolean {
    return this.#waiting.length === 0 && this.#fits(weight);
  }

  /** What waits for its turn. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Does the work when its turn has come; answers what it answers, or what `away` answers where it is sent
   * away before.
   */
  async run<Result, Away = never>(
    weight: number,
    work: () => Promise<Result>,
    away?: () => Away,
  ): Promise<Result | Away> {
    if (!this.hasRoom(weight)) {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      this.#waiting.push({ weight, end: resolve });
      if (!(await promise) && away !== undefined) return away();
    } else this.#begin(weight);
    try {
      return await work();
    } finally {
      this.#count -= 1;
      this.#weight -= weight;
      this.#startNext();
    }
  }

  /** Sends away all that wait. Each of them was given an `away`. */
  sendAway(): void {
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

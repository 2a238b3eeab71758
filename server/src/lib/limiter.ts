/** Lets only so much work go on at the same time; what comes beyond that waits its turn. */
export class Limiter {
  readonly #maxCount: number;
  readonly #maxWeight: number;
  readonly #waiting: { weight: number; start: () => void }[] = [];
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

  /** Does the work when its turn has come; answers what it answers. */
  async run<Result>(weight: number, work: () => Promise<Result>): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ weight, start: resolve });
    this.#startNext();
    await promise;
    try {
      return await work();
    } finally {
      this.#count -= 1;
      this.#weight -= weight;
      this.#startNext();
    }
  }

  #startNext(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const fits = this.#count < this.#maxCount && this.#weight + next.weight <= this.#maxWeight;
      if (this.#count > 0 && !fits) return;
      this.#waiting.shift();
      this.#count += 1;
      this.#weight += next.weight;
      next.start();
    }
  }
}

import type { Rate } from '../../../providers/provider.ts';

const FIRST_CELLS = 4;

/** The times at which something is done under some limits, in their order, as far back as the limits look. */
export class Times {
  readonly #rates: readonly Rate[];
  readonly #most: number;
  /** A ring; it grows with what is done, up to the largest of the limits. */
  #cells = new Float64Array(FIRST_CELLS);
  #first = 0;
  #count = 0;

  constructor(rates: readonly Rate[]) {
    this.#rates = rates;
    this.#most = Math.max(1, ...rates.map(({ limit }) => limit));
  }

  /** The first time from now on, and from the last one on, that is within all of the limits. */
  next(nowMs: number): number {
    if (this.#count === 0) return nowMs;
    let atMs = Math.max(nowMs, this.#at(this.#count - 1));
    for (const { limit, windowMs } of this.#rates) {
      if (this.#count >= limit) atMs = Math.max(atMs, this.#at(this.#count - limit) + windowMs);
    }
    return atMs;
  }

  /** Notes one, not before what `next` answered. */
  add(atMs: number): void {
    if (this.#count === this.#most) {
      this.#first = (this.#first + 1) % this.#cells.length;
      this.#count -= 1;
    }
    if (this.#count === this.#cells.length) this.#grow();
    this.#cells[(this.#first + this.#count) % this.#cells.length] = atMs;
    this.#count += 1;
  }

  /** The last one. */
  get lastMs(): number {
    return this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#at(this.#count - 1);
  }

  /** What it takes of memory, in bytes. */
  get bytes(): number {
    return this.#cells.byteLength;
  }

  #at(index: number): number {
    return this.#cells[(this.#first + index) % this.#cells.length] ?? 0;
  }

  #grow(): void {
    const cells = new Float64Array(Math.min(this.#cells.length * 2, Math.max(this.#most, FIRST_CELLS)));
    for (let index = 0; index < this.#count; index += 1) cells[index] = this.#at(index);
    this.#cells = cells;
    this.#first = 0;
  }
}

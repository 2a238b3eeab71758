/** Collects items and writes them in batches at intervals, outside the requests that note them. */
export class PeriodicWriter<Item> {
  readonly #write: (items: Item[]) => Promise<void>;
  readonly #timer: NodeJS.Timeout;
  #noted = new Set<Item>();
  #flushing: Promise<void> = Promise.resolve();

  /** `write` must not reject. */
  constructor(everyMs: number, write: (items: Item[]) => Promise<void>) {
    this.#write = write;
    this.#timer = setInterval(() => void this.flush(), everyMs);
    this.#timer.unref();
  }

  note(item: Item): void {
    this.#noted.add(item);
  }

  /** Writes what was noted, after a write that is in flight. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(async () => {
      const items = [...this.#noted];
      this.#noted = new Set();
      if (items.length > 0) await this.#write(items);
    });
    return this.#flushing;
  }

  /** Flushes and stops. */
  close(): Promise<void> {
    clearInterval(this.#timer);
    return this.flush();
  }
}

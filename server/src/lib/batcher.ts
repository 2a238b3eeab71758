/**
 * Groups single items into batches without delay. While fewer than `concurrency` batches run, an item starts
 * a batch at the end of the current turn of the event loop, together with all items of that turn. Otherwise
 * items queue until a batch ends, and for one more turn: its results let clients send their next requests,
 * which form one batch with those in the queue. Batches therefore grow with the load.
 */
export class Batcher<Item, Result> {
  readonly #run: (items: Item[]) => Promise<Result[]>;
  readonly #concurrency: number;
  readonly #maxItems: number;
  readonly #maxWeight: number;
  readonly #weigh: (item: Item) => number;
  readonly #lingerMs: number;
  readonly #everyMs: number;
  readonly #gatherBelow: number;
  readonly #splitAfter: (error: unknown) => boolean;
  readonly #after: Gathering | undefined;
  #queue: Entry<Item, Result>[] = [];
  #running = 0;
  /** The number of running batches that weigh less than `gatherBelow`. */
  #light = 0;
  #scheduled = false;
  #linger: NodeJS.Timeout | undefined;
  #startedMs = Number.NEGATIVE_INFINITY;
  readonly #gathered: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];

  /**
   * `run` resolves with one result per item, in order. If it rejects, every item of the batch rejects with
   * that error.
   */
  constructor(options: {
    run: (items: Item[]) => Promise<Result[]>;
    concurrency: number;
    maxItems: number;
    maxWeight?: number;
    weigh?: (item: Item) => number;
    /** Delays the start of a batch, unless it is full. For work that can wait. */
    lingerMs?: number;
    /** A batch starts no sooner than this after the one before, unless it is full. */
    everyMs?: number;
    /** While a batch lighter than this runs, no other starts, so that the next one is larger. */
    gatherBelow?: number;
    /** While this gathers, no batch starts either: its items would only queue there. */
    after?: Gathering;
    /** Whether `run` is called for each item alone after a batch failed with this error. */
    splitAfter?: (error: unknown) => boolean;
  }) {
    this.#run = options.run;
    this.#concurrency = options.concurrency;
    this.#maxItems = options.maxItems;
    this.#maxWeight = options.maxWeight ?? Number.POSITIVE_INFINITY;
    this.#weigh = options.weigh ?? (() => 1);
    this.#gatherBelow = options.gatherBelow ?? 0;
    this.#lingerMs = options.lingerMs ?? 0;
    this.#everyMs = options.everyMs ?? 0;
    this.#after = options.after;
    this.#splitAfter = options.splitAfter ?? (() => false);
  }

  add(item: Item): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.#queue.push({ item, weight: this.#weigh(item), resolve, reject });
      this.#schedule();
    });
  }

  /** Whether new items would queue behind others, or behind a batch lighter than `gatherBelow`. */
  get isGathering(): boolean {
    return this.#queue.length > 0 || this.#light > 0;
  }

  /** Resolves when it does not gather. */
  async gathered(): Promise<void> {
    if (this.isGathering) await new Promise<void>((resolve) => this.#gathered.push(resolve));
  }

  /** Resolves when nothing is queued or running. */
  async drained(): Promise<void> {
    if (!this.#isIdle) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule({ afterBatch = false } = {}): void {
    if (!this.#hasRoom()) return;
    if (this.#linger !== undefined && this.#queue.length < this.#maxItems) return;
    const waitMs = Math.max(this.#lingerMs, this.#startedMs + this.#everyMs - performance.now());
    if (waitMs > 0 && this.#queue.length < this.#maxItems) {
      this.#linger = setTimeout(() => this.#startAll(), waitMs);
      return;
    }
    if (this.#scheduled) return;
    this.#scheduled = true;
    const start = () => this.#startAll();
    // Without the further turn, four clients form batches of one and three in turns: 15 % fewer requests/s.
    setImmediate(afterBatch ? () => setImmediate(start) : start);
  }

  #startAll(): void {
    this.#scheduled = false;
    clearTimeout(this.#linger);
    this.#linger = undefined;
    if (this.#after?.isGathering) {
      this.#scheduled = true;
      void this.#after.gathered().then(() => this.#startAll());
      return;
    }
    if (this.#queue.length > 0) this.#startedMs = performance.now();
    while (this.#hasRoom() && this.#queue.length > 0) void this.#start(this.#take());
    this.#notify();
  }

  get #isIdle(): boolean {
    return this.#queue.length === 0 && this.#running === 0;
  }

  #hasRoom(): boolean {
    return this.#running < this.#concurrency && this.#light === 0;
  }

  #take(): Entry<Item, Result>[] {
    let weight = 0;
    let count = 0;
    for (const entry of this.#queue) {
      weight += entry.weight;
      if (count > 0 && (weight > this.#maxWeight || count >= this.#maxItems)) break;
      count += 1;
    }
    return this.#queue.splice(0, count);
  }

  async #start(entries: Entry<Item, Result>[]): Promise<void> {
    const isLight = entries.reduce((sum, entry) => sum + entry.weight, 0) < this.#gatherBelow;
    this.#running += 1;
    if (isLight) this.#light += 1;
    await this.#settle(entries);
    this.#running -= 1;
    if (isLight) this.#light -= 1;
    if (this.#queue.length > 0) this.#schedule({ afterBatch: true });
    this.#notify();
  }

  #notify(): void {
    if (!this.isGathering) for (const resolve of this.#gathered.splice(0)) resolve();
    if (this.#isIdle) for (const resolve of this.#idle.splice(0)) resolve();
  }

  async #settle(entries: Entry<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#run(entries.map((entry) => entry.item));
      if (results.length !== entries.length)
        throw new Error(`${results.length} results for ${entries.length} items`);
      entries.forEach((entry, index) => {
        entry.resolve(results[index] as Result);
      });
    } catch (error) {
      if (entries.length > 1 && this.#splitAfter(error))
        for (const entry of entries) await this.#settle([entry]);
      else for (const entry of entries) entry.reject(error);
    }
  }
}

interface Entry<Item, Result> {
  item: Item;
  weight: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

/** What another batcher waits for. */
type Gathering = Pick<Batcher<never, never>, 'isGathering' | 'gathered'>;

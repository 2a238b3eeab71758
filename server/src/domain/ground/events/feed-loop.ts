import type { Logger } from '../../../lib/log.ts';
import { oneAtATime } from '../../../lib/one-at-a-time.ts';
import type { Bus } from '../bus/messages.ts';

// Most events are announced on the bus. The poll finds the rest, and those that had to wait for an older
// transaction, whose end nothing announces.
const POLL_MS = 1_000;
// Under load thousands of events a second are announced.
const PAUSE_MS = 100;

export interface FeedLoopOptions {
  bus: Bus;
  log: Logger;
}

/** Reads feeds when there may be new events: when the bus announces some, and every second. */
export class FeedLoop {
  readonly #log: Logger;
  readonly #read: (isStopped: () => boolean) => Promise<void>;
  readonly #failure: string;
  readonly #unsubscribe: () => void;
  #poll: NodeJS.Timeout | undefined;
  #pause: NodeJS.Timeout | undefined;
  // The last query of a run may have been before the wake-up: then it runs again.
  readonly #run = oneAtATime(() => this.#readFeeds());
  #stopped = false;

  /** `read` reads all feeds to their end. If it throws, `failure` is logged, and the next poll retries. */
  constructor(
    { bus, log }: FeedLoopOptions,
    { read, failure }: { read: (isStopped: () => boolean) => Promise<void>; failure: string },
  ) {
    this.#log = log;
    this.#read = read;
    this.#failure = failure;
    this.#unsubscribe = bus.subscribe(() => this.wake());
  }

  start(): void {
    this.#poll = setInterval(() => void this.#run(), POLL_MS);
  }

  /** There may be new events. */
  wake(): void {
    if (this.#stopped || this.#poll === undefined) return;
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      void this.#run();
    }, PAUSE_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe();
    clearInterval(this.#poll);
    clearTimeout(this.#pause);
    await this.#run();
  }

  async #readFeeds(): Promise<void> {
    if (this.#stopped) return;
    await this.#read(() => this.#stopped).catch((error: unknown) =>
      this.#log.warn({ err: error }, this.#failure),
    );
  }
}

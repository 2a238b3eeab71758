import type { Event, EventType } from '../../../contract/event.ts';
import type { Queryable } from '../../../db/client.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Bus } from '../bus/messages.ts';
import { type FeedPart, type FeedPosition, type FeedRequest, readFeed } from './feed.ts';

// Most of what is recorded is announced on the bus; the poll finds the rest, and what had to wait for an
// older transaction.
const POLL_MS = 500;
// Those who follow read together, at most so often: under load thousands of changes a second are announced.
const LINGER_MS = 20;
const MAX_TOGETHER = 20; // of up to 3000 events each

/** Receives a project's events as they happen. */
export interface FeedReader {
  readonly projectId: string;
  readonly types?: readonly EventType[] | undefined;
  tell(event: Event, position: FeedPosition): void;
  /** Resolves when there is room for more; at once in the usual case. */
  drained(): Promise<void> | undefined;
}

/** Follows the feeds of projects as long as there are readers. */
export class FeedFollower {
  readonly #log: Logger;
  readonly #batcher: Batcher<FeedRequest, FeedPart>;
  readonly #following = new Set<Following>();
  readonly #unsubscribe: () => void;
  #poll: NodeJS.Timeout | undefined;

  constructor({ db, bus, log }: { db: Queryable; bus: Bus; log: Logger }) {
    this.#log = log;
    this.#batcher = new Batcher({
      run: (requests) => readFeed(db, requests),
      concurrency: 1,
      maxItems: MAX_TOGETHER,
      lingerMs: LINGER_MS,
    });
    this.#unsubscribe = bus.subscribe(() => this.wake());
  }

  /**
   * Tells the reader of everything after this place. `end` ends that; `position` says how far it has come.
   */
  follow(reader: FeedReader, from: FeedPosition): { position(): FeedPosition; end(): void } {
    const following = new Following(reader, from, this.#batcher, (error) =>
      this.#log.warn({ err: error }, 'the events could not be read; the next poll tries again'),
    );
    this.#following.add(following);
    this.#poll ??= setInterval(() => this.wake(), POLL_MS);
    following.wake();
    return {
      position: () => following.position,
      end: () => {
        following.end();
        this.#following.delete(following);
        if (this.#following.size > 0) return;
        clearInterval(this.#poll);
        this.#poll = undefined;
      },
    };
  }

  /** There may be new events. */
  wake(): void {
    for (const one of this.#following) one.wake();
  }

  close(): void {
    this.#unsubscribe();
    for (const one of this.#following) one.end();
    clearInterval(this.#poll);
  }
}

/** One reader's way through the feed. */
class Following {
  readonly #reader: FeedReader;
  readonly #source: Batcher<FeedRequest, FeedPart>;
  readonly #onError: (error: unknown) => void;
  #position: FeedPosition;
  #reading = false;
  #woken = false;
  #ended = false;

  constructor(
    reader: FeedReader,
    from: FeedPosition,
    source: Batcher<FeedRequest, FeedPart>,
    onError: (error: unknown) => void,
  ) {
    this.#reader = reader;
    this.#position = from;
    this.#source = source;
    this.#onError = onError;
  }

  get position(): FeedPosition {
    return this.#position;
  }

  wake(): void {
    this.#woken = true;
    if (!this.#reading) void this.#read();
  }

  end(): void {
    this.#ended = true;
  }

  async #read(): Promise<void> {
    this.#reading = true;
    try {
      while (this.#woken && !this.#ended) {
        this.#woken = false;
        const { projectId, types } = this.#reader;
        const part = await this.#source.add({ projectId, types, after: this.#position });
        if (part.more) this.#woken = true;
        await this.#tell(part);
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#reading = false;
    }
  }

  async #tell(part: FeedPart): Promise<void> {
    for (const { event, position } of part.events) {
      if (this.#ended) return;
      this.#reader.tell(event, position);
      this.#position = position;
      await this.#reader.drained();
    }
    this.#position = part.position;
  }
}

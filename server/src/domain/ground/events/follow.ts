import type { Event, EventType } from '../../../contract/event.ts';
import { Batcher } from '../../../lib/batcher.ts';
import type { Logger } from '../../../lib/log.ts';
import type { Bus } from '../bus/messages.ts';
import { type FeedDatabase, type FeedPart, type FeedPosition, type FeedRequest, readFeed } from './feed.ts';

// Most events are announced on the bus. The poll finds the others, and events that waited for an older
// transaction.
const POLL_MS = 500;
// Readers share statements, at most one in this time: under load the bus announces thousands of changes a
// second.
const LINGER_MS = 20;
const MAX_BATCH = 20; // of up to 3000 events each

/** Receives a project's events as they happen. */
export interface FeedReader {
  readonly projectId: string;
  readonly types?: readonly EventType[] | undefined;
  receive(event: Event, position: FeedPosition): void;
  /** Resolves when the reader can receive more; undefined if it can now. */
  drained(): Promise<void> | undefined;
}

/** Reads the feeds of projects for readers that follow them. */
export class FeedFollower {
  readonly #log: Logger;
  readonly #batcher: Batcher<FeedRequest, FeedPart>;
  readonly #cursors = new Set<FeedCursor>();
  readonly #unsubscribe: () => void;
  #poll: NodeJS.Timeout | undefined;

  constructor({ db, bus, log }: { db: FeedDatabase; bus: Bus; log: Logger }) {
    this.#log = log;
    this.#batcher = new Batcher({
      run: (requests) => readFeed(db, requests),
      concurrency: 1,
      maxItems: MAX_BATCH,
      lingerMs: LINGER_MS,
    });
    this.#unsubscribe = bus.subscribe(() => this.wake());
  }

  /** Passes all events after `from` to the reader, until `end` is called. `position` returns its position. */
  follow(reader: FeedReader, from: FeedPosition): { position(): FeedPosition; end(): void } {
    const cursor = new FeedCursor(reader, from, this.#batcher, (error) =>
      this.#log.warn({ err: error }, 'could not read events; the next poll retries'),
    );
    this.#cursors.add(cursor);
    this.#poll ??= setInterval(() => this.wake(), POLL_MS);
    cursor.wake();
    return {
      position: () => cursor.position,
      end: () => {
        cursor.end();
        this.#cursors.delete(cursor);
        if (this.#cursors.size > 0) return;
        clearInterval(this.#poll);
        this.#poll = undefined;
      },
    };
  }

  /** Reads new events. */
  wake(): void {
    for (const cursor of this.#cursors) cursor.wake();
  }

  close(): void {
    this.#unsubscribe();
    for (const cursor of this.#cursors) cursor.end();
    clearInterval(this.#poll);
  }
}

/** The position of one reader in its feed. */
class FeedCursor {
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
        await this.#deliver(part);
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#reading = false;
    }
  }

  async #deliver(part: FeedPart): Promise<void> {
    for (const { event, position } of part.events) {
      if (this.#ended) return;
      this.#reader.receive(event, position);
      this.#position = position;
      await this.#reader.drained();
    }
    this.#position = part.position;
  }
}
